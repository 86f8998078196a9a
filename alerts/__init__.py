"""Alerting rules, dashboards and what generates them; README.md says what people take from here."""
