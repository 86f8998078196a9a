"""Reads typed values out of events and estimates, which are JSON: absent or of another type is unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Record = Mapping[str, object]


def number(record: Record, name: str) -> float | None:
    """Return the finite number at `name`, or None."""
    return _number(record.get(name))


def text(record: Record, name: str) -> str:
    """Return the text at `name`, or an empty one."""
    value = record.get(name)
    return value if isinstance(value, str) else ""


def numbers(record: Record, name: str) -> list[float | None]:
    """Return the list of numbers at `name`, each None where it is unknown."""
    return [_number(value) for value in _sequence(record.get(name))]


def record(outer: Record, name: str) -> Record:
    """Return the record at `name`, or an empty one."""
    value = outer.get(name)
    return value if isinstance(value, Mapping) else {}


def records(outer: Record, name: str) -> list[Record]:
    """Return the records in the list at `name`."""
    return [value for value in _sequence(outer.get(name)) if isinstance(value, Mapping)]


def texts(outer: Record, name: str) -> list[str]:
    """Return the texts in the list at `name`."""
    return [value for value in _sequence(outer.get(name)) if isinstance(value, str)]


def _sequence(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
