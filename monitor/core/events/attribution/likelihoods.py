"""How likely each sign is under each cause: learnt from simulated fleets, used by Bayes' rule.

The table (`learnt`, made by `python -m tests.acceptbench.causes --write`) counts, for
each cause, how often each value of each sign was seen. Signs are taken as independent given the cause, which
makes such posteriors too sure; `TEMPER` takes that back (chosen on streams that the table has not seen).
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from monitor.core.events.attribution import learnt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.vocabulary import CauseName

LEARNT: tuple[CauseName, ...] = tuple(learnt.COUNTS)  # type: ignore[arg-type]
"""The causes that signs are learnt for; the others are told by what they are (a restart, bad data)."""

PRIOR: dict[str, float] = {"unknown": 1.5}
"""How common a cause is before anything is seen, 1 for each that is not named: traffic that nothing exports
is the commonest reason of all in public reports."""

TEMPER = 0.8
"""Power of the likelihoods."""

UNSEEN = 1.0
"""Pseudo-count of every value: what was never simulated stays possible."""


def posterior(values: Mapping[str, str]) -> dict[CauseName, float]:
    """Return the probability of each learnt cause given the signs' values, by name; they sum to 1.

    One bad replica of several can only be told where the others are known.
    """
    scores = {
        cause: math.log(PRIOR.get(cause, 1.0))
        + TEMPER * sum(_log_likelihood(cause, name, value) for name, value in values.items())
        for cause in LEARNT
    }
    if values.get("scope", "unknown") == "unknown":
        scores["replica"] = -math.inf
    most = max(scores.values())
    shares = {cause: math.exp(score - most) for cause, score in scores.items()}
    total = sum(shares.values())
    return {cause: share / total for cause, share in shares.items()}


def ratio(cause: CauseName, name: str, value: str) -> float:
    """Return how much likelier a sign's value is under a cause than under the others on average."""
    if value == "unknown" or cause not in LEARNT:
        return 0.0
    others = [math.exp(_log_likelihood(other, name, value)) for other in LEARNT if other != cause]
    return math.exp(_log_likelihood(cause, name, value)) * len(others) / sum(others)


@cache
def _log_likelihood(cause: CauseName, name: str, value: str) -> float:
    """Return the logarithm of a value's learnt share; 0 of what is unknown, or of a sign never learnt."""
    counts = learnt.COUNTS[cause].get(name, {})
    if value == "unknown" or not counts:
        return 0.0
    values = {each for known in learnt.COUNTS.values() for each in known.get(name, {})} | {value}
    total = sum(counts.values()) + UNSEEN * len(values)
    return math.log((counts.get(value, 0) + UNSEEN) / total)
