"""Alerting rules, dashboards and their generator; what people use lies in `generated/`, `dashboards/`, `runbooks/`."""
