"""Numbers and times as people read them; unknown is a dash."""

from __future__ import annotations

from datetime import UTC, datetime

UNKNOWN = "–"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MILLION = 1e6


def length(value: float | None) -> str:
    """Return an acceptance length or tokens per step: `3.31`."""
    return UNKNOWN if value is None else f"{value:.2f}"


def ratio(value: float | None) -> str:
    """Return a ratio 0..1 with three digits: `0.812`."""
    return UNKNOWN if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """Return a ratio as whole percent: `89 %`."""
    return UNKNOWN if value is None else f"{value * 100:.0f} %"


def change(now: float | None, before: float | None) -> str:
    """Return a relative change in percent with its sign: `−62 %`."""
    if now is None or not before:
        return UNKNOWN
    rounded = round((now / before - 1) * 100)
    return f"{rounded:+d} %".replace("-", "−") if rounded else "0 %"


def times(value: float | None) -> str:
    """Return a factor: `2.1×`."""
    return UNKNOWN if value is None else f"{value:.1f}×" if value < 10 else f"{value:.0f}×"  # noqa: PLR2004


def count(value: float | None) -> str:
    """Return a number of things with thousands apart: `12,345`."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def amount(value: float | None) -> str:
    """Return an amount with three digits, thousands apart: `0.125`, `12.5`, `1,250`, `1.25 M`."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size >= _MILLION:
        return f"{amount(value / _MILLION)} M"
    digits = 0 if size >= 100 or size == 0 else 1 if size >= 10 else 2 if size >= 1 else 3  # noqa: PLR2004
    return f"{value:,.{digits}f}".replace("-", "−")


def signed(value: float | None) -> str:
    """Return a difference of acceptance lengths with its sign: `+0.12`."""
    return UNKNOWN if value is None else f"{value:+.2f}".replace("-", "−")


def interval(low: float | None, high: float | None) -> str:
    """Return both ends of an interval of acceptance lengths: `3.28 to 3.35`."""
    return UNKNOWN if low is None or high is None else f"{low:.2f} to {high:.2f}"


def seconds(value: float | None) -> str:
    """Return a short time with three digits in the unit that suits it: `4.31 ms`."""
    if value is None:
        return UNKNOWN
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def span(value: float) -> str:
    """Return a long time in its one or two largest units: `12 min`, `3 h 20 min`, `2 d`."""
    if value < _MINUTE:
        return f"{max(value, 0):.0f} s"
    minutes = int(value // _MINUTE)
    if value < _HOUR:
        return f"{minutes} min"
    if value < _DAY:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    days, hours = divmod(minutes // 60, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def ago(unix_seconds: float, now: float) -> str:
    """Return how long before `now` something was: `12 min ago`; `now` within a second, `in 5 s` after it."""
    difference = now - unix_seconds
    if abs(difference) < 1:
        return "now"
    return f"{span(difference)} ago" if difference > 0 else f"in {span(-difference)}"


def clock(unix_seconds: float) -> str:
    """Return a unix time as UTC: `2026-05-01 12:03:15 UTC`; one that no calendar has stays a number."""
    try:
        return f"{datetime.fromtimestamp(unix_seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{unix_seconds:g}"


def iso(unix_seconds: float) -> str:
    """Return a unix time as machines read it: `2026-05-01T12:03:15Z`."""
    return clock(unix_seconds).replace(" UTC", "Z").replace(" ", "T")


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 stream`, `4 streams`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def clock_near(unix_seconds: float, now: float) -> str:
    """Return a time in a sentence: `02:14 UTC (25 min ago)`, with its date where it is of another day."""
    whole = clock(unix_seconds)
    same_day = whole[:10] == clock(now)[:10]
    short = f"{whole[11:16]} UTC" if same_day and whole.endswith(" UTC") else whole
    return f"{short} ({ago(unix_seconds, now)})"
