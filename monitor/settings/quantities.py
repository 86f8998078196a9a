"""Durations and sizes as people write them: `1h30m`, `500ms`, `10MiB`."""

from __future__ import annotations

import math
import re

# Longest first, each at most once and in this order, as Prometheus has it.
_MILLISECONDS = {
    "y": 31_536_000_000,
    "w": 604_800_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1000,
    "ms": 1,
}
_BYTES = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,15})?"
_DURATION = re.compile("".join(rf"(?:({_NUMBER}){unit})?" for unit in _MILLISECONDS))
_SIZE = re.compile(rf"({_NUMBER})(GiB|MiB|KiB|B)")
_PLAIN = re.compile(_NUMBER)
_WHOLE = re.compile(r"[0-9]{1,18}")

LONGEST_SECONDS = 1e10  # three hundred years
LARGEST_BYTES = 1 << 50

EXPECTED_DURATION = "a duration such as 15s, 0.5s, 500ms, 1h30m or 30d, or a number of seconds"
EXPECTED_SIZE = "a size such as 512KiB, 10MiB or 1GiB, or a number of bytes"


def duration(given: object) -> float:
    """Seconds of what was given: a number of seconds or text as Prometheus writes durations.

    Raises ValueError that says what was expected.
    """
    if isinstance(given, int | float) and not isinstance(given, bool):
        if 0 <= given <= LONGEST_SECONDS:
            return float(given)
    elif isinstance(given, str) and given:
        if _PLAIN.fullmatch(given) and float(given) <= LONGEST_SECONDS:
            return float(given)
        if found := _DURATION.fullmatch(given):
            parts = zip(found.groups(), _MILLISECONDS.values(), strict=True)
            seconds = math.fsum(float(number) * length for number, length in parts if number) / 1000
            if seconds <= LONGEST_SECONDS:
                return seconds
    message = f"expected {EXPECTED_DURATION}"
    raise ValueError(message)


def size(given: object) -> int:
    """Bytes of what was given: a number of bytes or text with a binary unit.

    KB and MB are refused: to some they are powers of ten, to others powers of two.
    Raises ValueError that says what was expected.
    """
    count = -1
    if isinstance(given, int) and not isinstance(given, bool):
        count = given
    elif isinstance(given, str) and (found := _SIZE.fullmatch(given)):
        count = int(float(found[1]) * _BYTES[found[2]])
    elif isinstance(given, str) and _WHOLE.fullmatch(given):
        count = int(given)
    if 0 <= count <= LARGEST_BYTES:
        return count
    message = f"expected {EXPECTED_SIZE}"
    raise ValueError(message)


def duration_text(seconds: float) -> str:
    """The duration that reads back as `seconds`, exact to the millisecond: `1h30m`, `0s`."""
    left = round(seconds * 1000)
    parts = []
    for unit, length in _MILLISECONDS.items():
        # Years and weeks are read but not written: 30d says more than 4w2d.
        if unit in {"y", "w"}:
            continue
        count, left = divmod(left, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def size_text(count: int) -> str:
    """The size that reads back as `count` bytes, in the largest unit that divides it."""
    fits = (unit for unit, length in _BYTES.items() if count >= length and count % length == 0)
    unit = next(fits, "B")
    return f"{count // _BYTES[unit]}{unit}"
