"""Buckets of history made fit to be drawn: thinned to what a picture can show, then turned into points."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.web import states
from monitor.web.charts import Point

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from monitor.web.view import ShownBucket


def thinned(buckets: Sequence[ShownBucket], limit: int) -> list[ShownBucket]:
    """Return at most about `limit` buckets, neighbours merged; a gap is never merged over.

    Counts add up and the mean acceptance length comes from the sums, never from a mean of ratios.
    """
    size = -(-len(buckets) // limit)
    if size <= 1:
        return list(buckets)
    groups: list[list[ShownBucket]] = []
    for bucket in buckets:
        last = groups[-1] if groups else []
        if last and len(last) < size and bucket.at - _end(last[-1]) <= last[-1].seconds / 2:
            last.append(bucket)
        else:
            groups.append([bucket])
    return [_merged(group) for group in groups]


def acceptance(buckets: Iterable[ShownBucket]) -> list[Point]:
    """Return the mean acceptance length with its interval and baseline."""
    return [
        Point(
            bucket.at,
            _end(bucket),
            bucket.mal,
            bucket.mal_low,
            bucket.mal_high,
            bucket.baseline_mal,
            bucket.state,
        )
        for bucket in buckets
    ]


def points(buckets: Iterable[ShownBucket], value: Callable[[ShownBucket], float | None]) -> list[Point]:
    """Return one value of each bucket."""
    return [Point(bucket.at, _end(bucket), value(bucket), state=bucket.state) for bucket in buckets]


def extent(buckets: Sequence[ShownBucket], start: float, end: float) -> tuple[float, float]:
    """Return the part of `start`..`end` from the first bucket on, so that a young history fills its chart."""
    return (max(start, buckets[0].at), end) if buckets else (start, end)


def _end(bucket: ShownBucket) -> float:
    return bucket.at + bucket.seconds


def _merged(group: list[ShownBucket]) -> ShownBucket:
    drafts = _total(bucket.drafts for bucket in group)
    accepted = _total(bucket.accepted_tokens for bucket in group)
    pooled = (
        1 + accepted / drafts if drafts and accepted is not None else _mean(bucket.mal for bucket in group)
    )
    tokens = _mean(bucket.tokens_per_step for bucket in group)
    step_seconds = _mean(bucket.step_seconds for bucket in group)
    return replace(
        group[0],
        seconds=_end(group[-1]) - group[0].at,
        drafts=drafts,
        accepted_tokens=accepted,
        mal=pooled if any(bucket.mal is not None for bucket in group) else None,
        # Wider than the interval of the sum, and so never a claim that the evidence does not bear.
        mal_low=_mean(bucket.mal_low for bucket in group),
        mal_high=_mean(bucket.mal_high for bucket in group),
        baseline_mal=group[-1].baseline_mal,
        tokens_per_step=tokens,
        step_seconds=step_seconds,
        coverage=_mean(bucket.coverage for bucket in group),
        implied_tpot_seconds=step_seconds / tokens if step_seconds is not None and tokens else None,
        state=min((bucket.state for bucket in group), key=states.rank),
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _total(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None
