"""What all pictures share: a frame, scales, round ticks, and the axes with their grid lines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from monitor.web.markup import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY = 86400
_MAX_TIME_TICKS = 7
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Frame:
    """The size of a picture and what is left free around the plot in it."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int

    @property
    def end(self) -> int:
        """The right edge of the plot."""
        return self.width - self.right

    @property
    def ground(self) -> int:
        """The lower edge of the plot."""
        return self.height - self.bottom

    def across(self, low: float, high: float) -> Scale:
        """Return the scale from left to right."""
        return Scale(low, high, self.left, self.end)

    def down(self, low: float, high: float) -> Scale:
        """Return the scale from the lower edge up."""
        return Scale(low, high, self.ground, self.top)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps `low`..`high` to `first`..`last` in the picture."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        """Return where a value is, one beyond the ends at the nearer one."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.first + min(max(share, 0), 1) * (self.last - self.first), 1)


PLOT = Frame(480, 240, left=64, right=14, top=14, bottom=48)
"""The frame of pictures whose axes have names."""


def value_ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Return round values from at most `low` to at least `high`, about `wanted` steps apart."""
    rough = max(high - low, 1e-9) / wanted
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first = math.floor(low / step + 1e-9)
    last = max(math.ceil(high / step - 1e-9), first + 1)
    return [round(index * step, 12) for index in range(first, last + 1)]


def time_ticks(start: float, end: float) -> list[tuple[float, str]]:
    """Return (unix time, UTC label) of round times in `start`..`end`; a midnight is labelled by its day."""
    span = max(end - start, 1)
    step = next((step for step in _TIME_STEPS if span / step <= _MAX_TIME_TICKS), None)
    if step is None:
        step = _DAY * math.ceil(span / _MAX_TIME_TICKS / _DAY)
    first = math.ceil(start / step)
    ticks = []
    for index in range(first, math.floor(end / step) + 1):
        at = datetime.fromtimestamp(index * step, UTC)
        clock = f"{at:%H:%M:%S}" if step < _MINUTE else f"{at:%H:%M}"
        ticks.append((float(index * step), f"{at:%b %d}" if index * step % _DAY == 0 else clock))
    return ticks


def of_values(frame: Frame, ticks: Sequence[float], down: Scale) -> Iterator[str]:
    """Yield the grid lines of a value axis with their numbers."""
    for tick in ticks:
        y = down(tick)
        yield f'<path class="grid" d="M{frame.left} {y:g}H{frame.end}"/>'
        yield f'<text class="y" x="{frame.left - 6}" y="{y + 4:g}">{tick:g}</text>'


def of_times(frame: Frame, start: float, end: float, across: Scale) -> Iterator[str]:
    """Yield the ticks of a time axis with their labels."""
    for number, (at, label) in enumerate(time_ticks(start, end)):
        alternate = " alt" if number % 2 else ""
        yield f'<path class="tick" d="M{across(at):g} {frame.ground}v4"/>'
        yield f'<text class="x{alternate}" x="{across(at):g}" y="{frame.height - 8}">{label}</text>'


def of_labels(frame: Frame, labels: Iterable[tuple[float, str]]) -> Iterator[str]:
    """Yield the labels of places along the lower edge."""
    for x, label in labels:
        yield f'<text class="x" x="{x:g}" y="{frame.ground + 18}">{escape(label)}</text>'


def names(frame: Frame, across: str, up: str) -> Iterator[str]:
    """Yield the names of both axes."""
    center, middle = (frame.left + frame.end) / 2, (frame.top + frame.ground) / 2
    yield f'<text class="x" x="{center:g}" y="{frame.height - 8}">{escape(across)}</text>'
    yield f'<text class="x" transform="translate(12 {middle:g}) rotate(-90)">{escape(up)}</text>'
