"""Grafana dashboards: `board` and `panels` make the JSON, one module per dashboard says what is on it."""
