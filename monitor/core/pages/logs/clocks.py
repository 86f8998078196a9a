"""When a log line was written: the clocks of engines, and of what collects their lines."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from monitor.core.pages.engines.base import UNKNOWN

DAY = 86_400.0

# RFC 3339, as kubectl and Docker put it before a line, and SGLang's and Python's own.
_WHOLE = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ,](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?[ ]?(Z|[+-]\d\d:?\d\d)?(?![\d:])"
)
# vLLM's has no year.
_NO_YEAR = re.compile(r"\b(\d\d)-(\d\d) (\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\b")
# llama.cpp's counts minutes, seconds, milliseconds and microseconds since its start.
_SINCE_START = re.compile(r"^\s*(?:\[\d+\]\s+)?(\d+)\.(\d\d)\.(\d{3})\.(\d{3})\s")


def when(line: str, near: float) -> float:
    """Return the time of a line (unix seconds), NaN where it has none.

    A clock without a zone is taken for UTC, one without a year for the last one that is not a day after
    `near` (unix seconds), one that counts from the engine's start for as long after `near`.
    """
    whole = _WHOLE.search(line)
    if whole is not None:
        zone = (whole[4] or "").replace("Z", "+00:00")
        return _unix(f"{whole[1]} {whole[2]}", whole[3], zone)
    bare = _NO_YEAR.search(line)
    if bare is not None:
        year = (datetime.fromtimestamp(near, UTC) + timedelta(days=1)).year
        at = _unix(f"{year}-{bare[1]}-{bare[2]} {bare[3]}", bare[4], "")
        if at > near + DAY:
            at = _unix(f"{year - 1}-{bare[1]}-{bare[2]} {bare[3]}", bare[4], "")
        return at
    since = _SINCE_START.match(line)
    if since is not None:
        return near + int(since[1]) * 60 + int(since[2]) + int(since[3]) / 1e3 + int(since[4]) / 1e6
    return UNKNOWN


def _unix(text: str, fraction: str | None, zone: str) -> float:
    try:
        at = datetime.fromisoformat(text + zone)
    except ValueError:
        return UNKNOWN
    seconds = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    return seconds + (float(f"0.{fraction}") if fraction else 0.0)
