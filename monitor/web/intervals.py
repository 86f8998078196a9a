"""Intervals of the conditional acceptance of each position, from its value and the drafts behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import fields

if TYPE_CHECKING:
    from monitor.web.fields import Record

_NORMAL_95 = 1.959964


@dataclass(frozen=True, slots=True)
class Share:
    """A ratio with its 95 % interval; None where unknown."""

    value: float | None
    low: float | None = None
    high: float | None = None


def by_position(side: Record) -> list[Share]:
    """Return the conditional acceptance of each position of one side of an event.

    Position j was tried as often as drafts reached it, drafts · c₀ · … · c_{j−1}; Wilson's interval of that
    many trials. It counts drafts as independent, so it is the narrowest that is true.
    """
    reached = fields.number(side, "drafts")
    found = []
    for value in fields.numbers(side, "conditional"):
        found.append(of(value, reached))
        reached = None if value is None or reached is None else reached * value
    return found


def of(value: float | None, trials: float | None) -> Share:
    """Return a ratio of so many trials with Wilson's interval."""
    if value is None or not trials or not 0 <= value <= 1:
        return Share(value)
    square = _NORMAL_95**2
    middle = (value + square / (2 * trials)) / (1 + square / trials)
    spread = value * (1 - value) / trials + square / (4 * trials * trials)
    half = _NORMAL_95 * math.sqrt(spread) / (1 + square / trials)
    return Share(value, max(middle - half, 0.0), min(middle + half, 1.0))
