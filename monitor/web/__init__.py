"""The HTTP surface: metrics, the report for people, the same facts as JSON, and the service's own health."""
