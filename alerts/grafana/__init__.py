"""Grafana dashboards: `board` has the parts, one module per dashboard says what is on it."""
