"""Where scrapes come from: HTTP targets, a query API, and files."""

from __future__ import annotations

LATEST = 1e11  # unix seconds beyond this are milliseconds, or no time


class Unreadable(Exception):  # noqa: N818 - `sources.Unreadable` is read aloud where it is caught
    """A source as a whole gives no scrapes; the message says what was read, where, and what was expected."""
