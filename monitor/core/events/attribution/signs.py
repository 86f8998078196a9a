"""What can be seen around a change point, as signs that causes are told apart by.

A sign has one of a few values; "unknown" says nothing for or against any cause. Each carries the sentence,
with numbers, that a person reads. What the signs speak for is learnt (`likelihoods`), not decided here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from monitor.core.counts import estimates, windows
from monitor.core.events.attribution import fingerprints
from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from monitor.core.counts.windows import Sums

    Floats = npt.NDArray[np.float64]

MarkKind = Literal[
    "restart",
    "engine_version",
    "num_speculative_tokens",
    "draft_model",
    "target_model",
    "method",
    "config",
    "fact",
    "told_draft",
    "told_target_model",
    "told_engine",
    "told_config",
    "told_traffic",
]

MARK_MARGIN_INTERVALS = 4.0
"""How many scrape intervals outside the change point's own a mark may lie: a page is late by one or two."""

SIGN_OF_MARK: dict[MarkKind, str] = {
    "restart": "restart",
    "engine_version": "engine_mark",
    "num_speculative_tokens": "config_mark",
    "draft_model": "draft_mark",
    "target_model": "target_mark",
    "method": "config_mark",
    "config": "config_mark",
    "fact": "fact_mark",
    "told_draft": "told_draft",
    "told_target_model": "told_target_model",
    "told_engine": "told_engine",
    "told_config": "told_config",
    "told_traffic": "told_traffic",
}

KEPT_LOGITS = 0.15
"""A position's acceptance that moved by less, or by less than chance, is as it was (logits)."""

SPREADS_OF_CHANCE = 3.0
"""So many standard errors of both levels are chance."""

LESSER_SHARE = 1.0 / 3.0
"""Positions that moved by less than this share of the one that moved most count as kept beside it."""

DEAD_BONUS = 0.1
"""Accepted tokens per draft at which a draft is dead, whatever its positions did (DETECTION.md)."""

OVERDISPERSION = 4.0
"""How much wider than binomial a position's level spreads: its drafts share their requests' text."""

MOVED_RATIO = 1.3
"""Ratio from which a batch size is told as moved; from minute to minute it swings by a fifth."""

MOVED_SHARE = 0.1
"""Change of a share (coverage, depth) that is told."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Something about the configuration that changed at `at` (unix seconds), in words with both values.

    `lasting` is how many seconds it took from then until it was everywhere, as far as that is known.
    """

    at: float
    kind: MarkKind
    text: str
    lasting: float = 0.0


@dataclass(frozen=True, slots=True)
class Peers:
    """How the other streams of the model fared: those that moved alike and those that stayed."""

    moved: int = 0
    stayed: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known around a change point, given as its earliest and latest time (unix seconds).

    `interval` is the scrape interval in seconds. `before` and `after` are the sums (one row) of the windows
    on both sides. `explained` and `unexplained` are the logits of the move that traffic explains by the
    stream's own history, and the rest. `gradual`: it slid rather than fell. `peers` are counted without the
    stream itself; a fleet's event has all of its members in `peers.moved`.
    """

    change_point: tuple[float, float]
    interval: float
    marks: tuple[Mark, ...]
    before: Sums
    after: Sums
    explained: float = 0.0
    unexplained: float = 0.0
    gradual: bool = False
    peers: Peers = Peers()


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign, its value, and the sentence for people; no text where there is nothing to tell."""

    name: str
    value: str
    text: str = ""


def of(around: Surroundings) -> tuple[Sign, ...]:
    """Return the signs of a change, marks first."""
    return (
        *_marks(around),
        _scope(around.peers),
        _positions(around.before, around.after),
        *_traffic(around.before, around.after),
        *_load(around.before, around.after),
        _history(around),
        Sign("onset", "gradual" if around.gradual else "sudden"),
    )


def _marks(around: Surroundings) -> Iterator[Sign]:
    margin = MARK_MARGIN_INTERVALS * around.interval
    first, last = around.change_point
    near = [
        mark for mark in around.marks if first - margin <= mark.at + mark.lasting and mark.at <= last + margin
    ]
    for name in dict.fromkeys(SIGN_OF_MARK.values()):
        texts = dict.fromkeys(mark.text for mark in near if SIGN_OF_MARK[mark.kind] == name)
        yield Sign(name, "yes" if texts else "no", "; ".join(texts))


def _scope(peers: Peers) -> Sign:
    """Return whether the other replicas of the model moved, too."""
    known = peers.moved + peers.stayed
    if not known:
        return Sign("scope", "unknown")
    alone = known == 1
    if not peers.moved:
        who = "the only other replica of the model did not move"
        return Sign("scope", "alone", who if alone else f"none of {known} other replicas of the model moved")
    if not peers.stayed:
        who = "the only other replica" if alone else f"all {known} other replicas"
        return Sign("scope", "shared", f"{who} of the model moved alike")
    value = "shared" if peers.moved > peers.stayed else "some"
    return Sign("scope", value, f"{peers.moved} of {known} other replicas of the model moved alike")


def _positions(before: Sums, after: Sums) -> Sign:
    """Return which draft positions' conditional acceptance moved."""
    old, old_errors = _logits(before)
    new, new_errors = _logits(after)
    known = np.flatnonzero(np.isfinite(old) & np.isfinite(new))
    if len(known) < 2 or known[0] != 0:  # noqa: PLR2004 - one position has no pattern
        return Sign("positions", "unknown")
    if _bonus(after) < DEAD_BONUS <= _bonus(before):
        return Sign("positions", "dead", f"practically no draft token is kept: {_bonus(after):.3f} a draft")
    moves = (new - old)[known]
    chance = SPREADS_OF_CHANCE * np.hypot(old_errors, new_errors)[known]
    sizes = np.where(np.abs(moves) > np.maximum(chance, KEPT_LOGITS), np.abs(moves), 0.0)
    told = ", ".join(
        f"{100 * _share(first):.0f} → {100 * _share(second):.0f} %"
        for first, second in zip(old[known], new[known], strict=True)
    )
    if not sizes.any():
        return Sign("positions", "kept", f"each position accepts as before, once reached ({told})")
    lesser = sizes < LESSER_SHARE * sizes.max()
    if not lesser[0] and lesser[1:].all():
        text = f"the first position fell and the others, once reached, did not ({told})"
        return Sign("positions", "first", text)
    if lesser[0]:
        return Sign("positions", "later", f"the first position kept and later ones did not ({told})")
    return Sign("positions", "all", f"acceptance moved from the first position on ({told})")


def _logits(sums: Sums) -> tuple[Floats, Floats]:
    """Return conditional acceptance per position as logits and their standard errors, NaN where unknown."""
    vector = sums.vectors[0]
    number = int(sums.positions[0])
    hits = vector[windows.POSITIONS][:number]
    trials = np.concatenate((vector[windows.COUNTERS][[Counter.DRAFTS]], hits[:-1]))[:number]
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = (hits + 0.5) / (trials + 1.0)
        reached = (trials >= 1.0) & (rate < 1.0)
        logits = np.where(reached, np.log(rate / (1.0 - rate)), math.nan)
        errors = np.sqrt(OVERDISPERSION / ((trials + 1.0) * rate * (1.0 - rate)))
    return logits, errors


def _share(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


def _bonus(sums: Sums) -> float:
    counters = sums.vectors[0, windows.COUNTERS]
    drafts = float(counters[Counter.DRAFTS])
    return float(counters[Counter.ACCEPTED_TOKENS]) / drafts if drafts > 0 else math.nan


def _traffic(before: Sums, after: Sums) -> Iterator[Sign]:
    for name, move in zip(("prompts", "answers"), fingerprints.between(before, after), strict=True):
        told = move.value not in ("unknown", "same")
        yield Sign(name, move.value, str(move) if told else "")
    hits = fingerprints.cache_hits(before), fingerprints.cache_hits(after)
    yield _moved("cache", hits, "prefix cache hit ratio", least=fingerprints.CACHE_MOVE)


def _load(before: Sums, after: Sums) -> Iterator[Sign]:
    old, new = estimates.from_sums(before), estimates.from_sums(after)
    batches = float(old.batch_size[0]), float(new.batch_size[0])
    ratio = batches[1] / batches[0] if batches[0] > 0 else math.nan
    value = "unknown"
    if math.isfinite(ratio) and ratio > 0:
        value = "same" if max(ratio, 1 / ratio) < MOVED_RATIO else "rose" if ratio > 1 else "fell"
    text = f"mean batch size went from {batches[0]:.3g} to {batches[1]:.3g}"
    yield Sign("batch", value, text if value in ("rose", "fell") else "")
    cover = float(old.coverage[0]), float(new.coverage[0])
    yield _moved("coverage", cover, "share of decode steps with a draft", least=MOVED_SHARE)
    depths = float(estimates.draft_length(old)[0]), float(estimates.draft_length(new)[0])
    yield _moved("depth", depths, "tokens drafted per draft", least=MOVED_SHARE * max(depths, default=0.0))
    steps = float(old.step_seconds[0]), float(new.step_seconds[0])
    least = (MOVED_RATIO - 1.0) * min(steps)
    yield _moved("step_time", steps, "step time", "s", least=least)


def _moved(name: str, values: tuple[float, float], words: str, unit: str = "", *, least: float) -> Sign:
    first, second = values
    if not (math.isfinite(first) and math.isfinite(second)):
        return Sign(name, "unknown")
    if abs(second - first) < least or first == second:
        return Sign(name, "same")
    return Sign(name, "moved", f"{words} went from {first:.3g} to {second:.3g} {unit}".rstrip())


def explained_share(around: Surroundings) -> float:
    """Return the share of the move that the stream's history of traffic explains, 0 where unknown."""
    return around.explained / (around.explained + around.unexplained) if around.explained else 0.0


def _history(around: Surroundings) -> Sign:
    """Return in words how much of the move traffic explains; its share is weighed by itself."""
    if not around.explained:
        return Sign("history", "unknown")
    text = (
        f"prompt lengths, batch size and cache hits explain {around.explained:+.2f} logits of acceptance by "
        f"what they did before; {around.unexplained:+.2f} they do not explain"
    )
    return Sign("history", "unknown", text)
