"""The HTML pages: each function takes a view and gives a whole page."""
