"""Which num_speculative_tokens, and from what batch size speculation stops paying.

Tokens per step for another k come from the measured conditional acceptances c_j: 1 + c_0 + c_0·c_1 + …; a
position that was never drafted is taken to be accepted as the deepest measured one (a model value, said so).
The step time for k comes from a `StepModel`:

    step(b, k) = plain(b) + draft_seconds·k + verify_seconds·b·k

The k-th token is worth its gain, the product of the first k conditionals, against its cost, one more draft
step and one more verified position a request. The best k has the most tokens per second; another one is only
advised where it is faster by `WORTH_CHANGING`, since less is noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEEPEST = 12
"""Largest k that is looked at: beyond it no engine's default batch verifies them for nothing."""
WORTH_CHANGING = 0.02
"""Relative gain in tokens per second under which a k is kept."""
DEAD_TAIL = 0.02
"""Marginal acceptance under which a position is dead: fewer than one draft in fifty gets there."""
BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Batch sizes that a schedule is made for."""


@dataclass(frozen=True, slots=True)
class StepModel:
    """Seconds of one engine step: plain(b) = base + per_request·b, draft tokens on top: see the module."""

    base_seconds: float
    per_request_seconds: float
    draft_seconds: float
    verify_seconds: float = 0.0

    def plain(self, batch_size: float) -> float:
        """Return the seconds of a step without drafts."""
        return self.base_seconds + self.per_request_seconds * batch_size

    def step(self, batch_size: float, num_speculative_tokens: int) -> float:
        """Return the seconds of a step with so many draft tokens a request."""
        drafted = self.draft_seconds + self.verify_seconds * batch_size
        return self.plain(batch_size) + drafted * num_speculative_tokens


@dataclass(frozen=True, slots=True)
class Option:
    """What one k would give: MAL, tokens per second of one request, the speed-up over plain decoding.

    `extrapolated`: positions of it were never drafted. `gain` is what its last token adds to the MAL.
    """

    num_speculative_tokens: int
    mal: float
    tokens_per_second: float
    speedup: float
    gain: float
    extrapolated: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """Options for k = 0…, the best of them at this batch size, and the k for every batch size.

    `best` is the current k where nothing else is faster by `WORTH_CHANGING`. `stops_paying_at` is the batch
    size from which k = 0 is best, None where that is beyond the largest looked at. `dead_tail_from` is the
    first position of a dead tail, None without.
    """

    options: tuple[Option, ...]
    current: int
    best: int
    schedule: tuple[tuple[int, int], ...]
    stops_paying_at: int | None
    dead_tail_from: int | None


def mal_of(conditional: Sequence[float], num_speculative_tokens: int) -> float:
    """Return 1 + Σ of products of conditionals [P], the deepest measured one standing for deeper ones."""
    reached, mal = 1.0, 1.0
    for position in range(num_speculative_tokens):
        reached *= conditional[min(position, len(conditional) - 1)] if conditional else 0.0
        mal += reached
    return mal


def options(conditional: Sequence[float], model: StepModel, batch_size: float) -> tuple[Option, ...]:
    """Return what each k from 0 to `DEEPEST` would give at a batch size."""
    plain = model.plain(batch_size)
    found = []
    before = 1.0
    for tokens in range(DEEPEST + 1):
        mal, seconds = mal_of(conditional, tokens), model.step(batch_size, tokens)
        found.append(
            Option(
                num_speculative_tokens=tokens,
                mal=mal,
                tokens_per_second=mal / seconds,
                speedup=mal * plain / seconds,
                gain=mal - before,
                extrapolated=tokens > len(conditional),
            )
        )
        before = mal
    return tuple(found)


def best(options: Sequence[Option], current: int) -> int:
    """Return the fastest k, `current` where nothing is faster by `WORTH_CHANGING`."""
    fastest = max(options, key=lambda option: option.tokens_per_second)
    kept = next((option for option in options if option.num_speculative_tokens == current), None)
    if kept and fastest.tokens_per_second <= kept.tokens_per_second * (1.0 + WORTH_CHANGING):
        return current
    return fastest.num_speculative_tokens


def of(
    conditional: Sequence[float],
    marginal: Sequence[float],
    model: StepModel,
    batch_size: float,
    current: int,
) -> Advice:
    """Return the advice for a stream: conditionals and marginals by position, its batch size and its k.

    Raises ValueError where no position was measured.
    """
    usable = measured(conditional)
    if not usable:
        raise ValueError("no position's acceptance is measured: nothing to advise on")
    schedule = [(size, best(options(usable, model, size), current)) for size in BATCH_SIZES]
    stops = next((size for size, tokens in schedule if tokens == 0), None)
    dead = next((j for j, share in enumerate(marginal) if share < DEAD_TAIL), None)
    found = options(usable, model, batch_size)
    return Advice(
        options=found,
        current=current,
        best=best(found, current),
        schedule=tuple(schedule),
        stops_paying_at=stops,
        dead_tail_from=dead,
    )


def measured(conditional: Iterable[float]) -> list[float]:
    """Return the conditionals up to the first that is unknown, each from 0 to 1."""
    return [min(max(value, 0.0), 1.0) for value in takewhile(math.isfinite, conditional)]


def steps_of(schedule: Sequence[tuple[int, int]]) -> tuple[tuple[int, int, int], ...]:
    """Return (first batch size, last batch size, k) of each run of a schedule; the last run is open-ended.

    A run ends one before the next one's first size, which is how engines read such lists.
    """
    runs: list[tuple[int, int]] = []
    for size, tokens in schedule:
        if not runs or runs[-1][1] != tokens:
            runs.append((size, tokens))
    ends = [size - 1 for size, _ in runs[1:]] + [schedule[-1][0]]
    return tuple((first, last, tokens) for (first, tokens), last in zip(runs, ends, strict=True))
