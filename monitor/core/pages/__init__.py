"""From a page's body to readings: its samples, which engine it is of, and what that engine counts."""
