"""From two readings to what happened between them: counts, sums over windows, estimates."""
