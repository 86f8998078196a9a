"""The pure half: a page's body becomes readings, counts, findings, events; no input, no output, no clock."""
