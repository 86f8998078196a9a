"""What else changed around a change point: facts with numbers, and the causes they speak for.

Each sign (`signs`) has, under each cause, a probability for each of its values that is learnt from simulated
fleets whose cause is known (`likelihoods`). The weight of a cause is its probability given all signs. Where
none is likelier than not, the unknown comes first: traffic that no engine exports (temperature, language,
tools) can move acceptance alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from monitor.core.events.attribution import likelihoods, signs
from monitor.core.vocabulary import CHANGE_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.events.attribution.signs import Sign, Surroundings
    from monitor.core.vocabulary import CauseName

UNEXPLAINED = "no cause is exported; temperature, language, structured output and tools never are"

TOLD_WEIGHT = 0.05
"""Causes less likely than this are not told; what they weigh goes to the unknown."""

TOLD_EVIDENCE = 1.5
"""How much likelier a sign must be under a cause than under the others to be told as its evidence."""

MOST_EVIDENCE = 3
"""Signs in one sentence of evidence; the rest are among the facts."""

BROUGHT_BY_RESTARTS: tuple[CauseName, ...] = ("draft", "target_model", "engine", "config")
"""What a restart brings along: where it cannot be told which, the cause is the restart."""

ALWAYS_TOLD: dict[CauseName, tuple[str, ...]] = {
    "restart": ("restart", "fact_mark"),
    "replica": ("restart", "fact_mark"),
    "traffic": ("history", "told_traffic"),
    "draft": ("told_draft",),
    "target_model": ("told_target_model",),
    "engine": ("told_engine",),
    "config": ("told_config",),
}
"""Signs that are told as evidence of a cause however much they weigh."""

TOLD_SHARE = 0.5
"""Of the weight goes to what somebody told to have changed then: it is as likely as all that is seen."""

NAMED_BY_MARKS = (
    "draft_mark",
    "target_mark",
    "engine_mark",
    "config_mark",
    *(f"told_{kind}" for kind in CHANGE_KINDS if kind != "traffic"),
)
"""The signs by which a page says itself, or somebody told, what a restart brought."""


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


def around(surroundings: Surroundings) -> Attribution:
    """Return what changed around a change point and what that speaks for, likeliest first.

    Of the move, the share that traffic explains by what it did to this stream before is traffic's; the signs
    divide the rest. Of all of that, what somebody told to have changed then has `TOLD_SHARE`.
    """
    seen = signs.of(surroundings)
    values = {sign.name: sign.value for sign in seen}
    if values["fact_mark"] == "yes":  # another image or revision is another process, seen or not
        values["restart"] = "yes"
    weights = weighed(values)
    share = signs.explained_share(surroundings)
    if share > 0.0:
        weights = {cause: weight * (1.0 - share) for cause, weight in weights.items()}
        weights["traffic"] += share
    weights = _with_told(weights, values)
    told = {cause: weight for cause, weight in weights.items() if weight >= TOLD_WEIGHT}
    told["unknown"] = 1.0 - sum(weight for cause, weight in told.items() if cause != "unknown")
    causes = [Cause(cause, round(weight, 3), _evidence(cause, seen)) for cause, weight in told.items()]
    ranked = sorted(causes, key=lambda cause: (-cause.weight, cause.cause))
    return Attribution(tuple(sign.text for sign in seen if sign.text), tuple(ranked))


def weighed(values: Mapping[str, str]) -> dict[CauseName, float]:
    """Return the weights of the causes that signs speak for, by their names' values; they sum to 1."""
    return _with_doubt(_with_restart(likelihoods.posterior(values), values))


def with_reason(attributed: Attribution, reason: str) -> Attribution:
    """Return what was found and, as likely as all of it, what the engine is known to do by itself."""
    if not reason:
        return attributed
    halved = [replace(cause, weight=round(cause.weight / 2.0, 3)) for cause in attributed.causes]
    causes = sorted((*halved, Cause("engine", 0.5, reason)), key=lambda cause: (-cause.weight, cause.cause))
    return Attribution((*attributed.facts, reason), tuple(causes))


def _with_restart(weights: Mapping[CauseName, float], values: Mapping[str, str]) -> dict[CauseName, float]:
    """Return the weights with one for the restart, where it brought something that says nothing of itself."""
    brought = {cause: weight for cause, weight in weights.items() if cause in BROUGHT_BY_RESTARTS}
    named = any(values.get(name) == "yes" for name in NAMED_BY_MARKS)
    rest = max(weight for cause, weight in weights.items() if cause not in brought)
    if values.get("restart") != "yes" or named or sum(brought.values()) <= rest:
        return dict(weights)
    halved = {cause: weight / 2.0 for cause, weight in brought.items()}
    return {**weights, **halved, "restart": sum(halved.values())}


def _with_told(weights: Mapping[CauseName, float], values: Mapping[str, str]) -> dict[CauseName, float]:
    """Return the weights with the share of what somebody told, several changes alike."""
    told = [kind for kind in CHANGE_KINDS if values.get(f"told_{kind}") == "yes"]
    if not told:
        return dict(weights)
    kept = {cause: weight * (1.0 - TOLD_SHARE) for cause, weight in weights.items()}
    return kept | {kind: kept.get(kind, 0.0) + TOLD_SHARE / len(told) for kind in told}


def _with_doubt(weights: Mapping[CauseName, float]) -> dict[CauseName, float]:
    """Return the weights, half of all given to the unknown where no cause is likelier than not."""
    known = max(weight for cause, weight in weights.items() if cause != "unknown")
    if known > 0.5 or "restart" in weights:  # noqa: PLR2004 - likelier than not
        return dict(weights)
    halved = {cause: weight / 2.0 for cause, weight in weights.items()}
    halved["unknown"] += 0.5
    return halved


def _evidence(cause: CauseName, signs_seen: Sequence[Sign]) -> str:
    """Return what speaks most for a cause, in words."""
    if cause == "unknown":
        return UNEXPLAINED
    told = [(likelihoods.ratio(cause, sign.name, sign.value), sign.text) for sign in signs_seen if sign.text]
    sure = ALWAYS_TOLD.get(cause, ())
    told += [(math.inf, sign.text) for sign in signs_seen if sign.name in sure and sign.text]
    ranked = sorted((each for each in told if each[0] >= TOLD_EVIDENCE), key=lambda each: -each[0])
    return (
        "; ".join(dict.fromkeys(text for _, text in ranked[:MOST_EVIDENCE]))
        or "nothing that was seen speaks against it"
    )
