"""What else changed around a change point: facts with numbers, and the causes they speak for.

The facts are measured; the causes are a reading of them. Each cause's weight is the share of its facts'
strength in the strength of all facts and of the unknown, which is always among the candidates: traffic
that no engine exports (temperature, language, tools) can move acceptance alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from monitor.core.counts import estimates
from monitor.core.counts.windows import COUNTERS
from monitor.core.pages.engines.base import Counter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from monitor.core.counts.estimates import Estimates
    from monitor.core.counts.windows import Sums

CauseName = Literal[
    "traffic", "draft", "target_model", "engine", "config", "load", "restart", "data_quality", "unknown"
]
MarkKind = Literal[
    "restart",
    "engine_version",
    "num_speculative_tokens",
    "draft_model",
    "target_model",
    "method",
    "config",
    "fact",
]

CAUSE_OF_MARK: dict[MarkKind, tuple[CauseName, float]] = {
    "restart": ("restart", 1.0),
    "engine_version": ("engine", 4.0),
    "num_speculative_tokens": ("config", 4.0),
    "draft_model": ("draft", 4.0),
    "target_model": ("target_model", 4.0),
    "method": ("config", 4.0),
    "config": ("config", 2.0),
    "fact": ("config", 1.0),
}
STRENGTH_OF_UNKNOWN = 1.0
UNEXPLAINED = "no cause is exported; temperature, language, structured output and tools never are"
NOTEWORTHY_CHANGE = 0.2  # relative
SPREADS_OF_CHANCE = 2.0  # so far apart are means of a few requests by chance
STRONG_CHANGE = 1.0  # relative change that speaks as loudly as the unknown does twice
MARK_MARGIN_INTERVALS = 4.0


@dataclass(frozen=True, slots=True)
class Mark:
    """Something about the configuration that changed at `at` (unix seconds), in words with both values."""

    at: float
    kind: MarkKind
    text: str


@dataclass(frozen=True, slots=True)
class Cause:
    """A candidate cause: its weight in 0..1 and one sentence of evidence with numbers."""

    cause: CauseName
    weight: float
    evidence: str


@dataclass(frozen=True, slots=True)
class Attribution:
    """What else changed around a change point (facts, in words), and the causes that they speak for."""

    facts: tuple[str, ...]
    causes: tuple[Cause, ...]


def around(
    change_point: tuple[float, float], interval: float, marks: Iterable[Mark], before: Sums, after: Sums
) -> Attribution:
    """Return what changed around a change point, given as its earliest and latest time.

    `interval` is the scrape interval in seconds. `before` and `after` are the sums (one row) of the windows
    on both sides of the change point.
    """
    margin = MARK_MARGIN_INTERVALS * interval
    near = [mark for mark in marks if change_point[0] - margin <= mark.at <= change_point[1] + margin]
    strengths: list[tuple[CauseName, float, str]] = [(*CAUSE_OF_MARK[mark.kind], mark.text) for mark in near]
    strengths += _shifts(before, after)
    return Attribution(tuple(text for _, _, text in strengths), _rank(strengths))


def with_traffic(found: Attribution, explained: float, unexplained: float) -> Attribution:
    """Return what was found and that traffic explains a part (logits) of the move: the part is its weight."""
    share = explained / (explained + unexplained)
    text = (
        f"prompt lengths, batch size and cache hits explain {explained:+.2f} logits of acceptance by what "
        f"they did before; {unexplained:+.2f} they do not explain"
    )
    others = [replace(cause, weight=round(cause.weight * (1.0 - share), 3)) for cause in found.causes]
    known = [cause for cause in others if cause.cause == "traffic"]
    weight = round(share + sum(cause.weight for cause in known), 3)
    evidence = "; ".join([text, *(cause.evidence for cause in known)])
    causes = [Cause("traffic", weight, evidence), *(cause for cause in others if cause.cause != "traffic")]
    ranked = sorted(causes, key=lambda cause: (-cause.weight, cause.cause))
    return Attribution((*found.facts, text), tuple(ranked))


def with_reason(found: Attribution, reason: str) -> Attribution:
    """Return what was found and, as likely as all of it, what the engine is known to do by itself."""
    if not reason:
        return found
    halved = [replace(cause, weight=round(cause.weight / 2.0, 3)) for cause in found.causes]
    causes = sorted((*halved, Cause("engine", 0.5, reason)), key=lambda cause: (-cause.weight, cause.cause))
    return Attribution((*found.facts, reason), tuple(causes))


def _rank(strengths: Sequence[tuple[CauseName, float, str]]) -> tuple[Cause, ...]:
    total = sum(strength for _, strength, _ in strengths) + STRENGTH_OF_UNKNOWN
    merged: dict[CauseName, tuple[float, list[str]]] = {}
    for name, strength, text in strengths:
        weight, texts = merged.get(name, (0.0, []))
        merged[name] = (weight + strength / total, [*texts, text])
    causes = [Cause(name, round(weight, 3), "; ".join(texts)) for name, (weight, texts) in merged.items()]
    causes.append(Cause("unknown", round(STRENGTH_OF_UNKNOWN / total, 3), UNEXPLAINED))
    return tuple(sorted(causes, key=lambda cause: (-cause.weight, cause.cause)))


def _shifts(before: Sums, after: Sums) -> list[tuple[CauseName, float, str]]:
    """Return the traffic and load figures that moved by a fifth or more, and by more than chance."""
    chance = _by_chance(before, after)
    old, new = estimates.from_sums(before), estimates.from_sums(after)
    shifts: list[tuple[CauseName, float, str]] = []
    prompts = _prompt_length(before), _prompt_length(after)
    answers = _generation_length(before), _generation_length(after)
    figures: tuple[tuple[CauseName, str, str, float, float, float], ...] = (
        ("traffic", "mean prompt length", "tokens", *prompts, chance),
        ("traffic", "mean generation length", "tokens", *answers, chance),
        ("traffic", "prefix cache hit ratio", "", _cache_hits(before), _cache_hits(after), 0.0),
        ("load", "mean batch size", "", *_pair(old, new, "batch_size"), 0.0),
        ("load", "share of decode steps with a draft", "", *_pair(old, new, "coverage"), 0.0),
        ("load", "step time", "s", *_pair(old, new, "step_seconds"), 0.0),
    )
    for cause, name, unit, first, second, least in figures:
        change = _relative_change(first, second)
        if change >= max(NOTEWORTHY_CHANGE, least):
            strength = min(change / STRONG_CHANGE, 2.0) * (1.0 if cause == "traffic" else 0.5)
            text = f"{name} went from {first:.3g} to {second:.3g} {unit}".rstrip()
            shifts.append((cause, strength, text))
    return shifts


def _pair(old: Estimates, new: Estimates, field: str) -> tuple[float, float]:
    return float(getattr(old, field)[0]), float(getattr(new, field)[0])


def _relative_change(first: float, second: float) -> float:
    """Return the change relative to the smaller of the two, 0 where one is unknown or zero."""
    smaller = min(first, second)
    return abs(first - second) / smaller if smaller > 0 else 0.0


def _by_chance(before: Sums, after: Sums) -> float:
    """Return the relative change that means of so many requests show by chance, infinite where none finished.

    Lengths are taken to spread as widely as their mean; the number of requests that finish spreads as much
    again, so that the logarithm of a mean over n requests has the variance 2 ÷ n.
    """
    finished = [float(sums.vectors[0, COUNTERS][Counter.FINISHED_REQUESTS]) for sums in (before, after)]
    if min(finished) < 1:
        return math.inf
    spread = math.sqrt(sum(2.0 / number for number in finished))
    return math.expm1(SPREADS_OF_CHANCE * spread)


def _prompt_length(sums: Sums) -> float:
    return _per(sums, Counter.PROMPT_TOKENS, Counter.FINISHED_REQUESTS)


def _generation_length(sums: Sums) -> float:
    return _per(sums, Counter.OUTPUT_TOKENS, Counter.FINISHED_REQUESTS)


def _cache_hits(sums: Sums) -> float:
    return _per(sums, Counter.CACHE_HITS, Counter.CACHE_QUERIES)


def _per(sums: Sums, numerator: Counter, denominator: Counter) -> float:
    counters = sums.vectors[0, COUNTERS]
    known = sums.known[0, numerator] and sums.known[0, denominator] and counters[denominator] > 0
    return float(counters[numerator] / counters[denominator]) if known else np.nan
