"""New streams begin with the reference of their kind, and healthy ones teach it every ten minutes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import detectors
from monitor.core.detectors import base, inheritance
from monitor.core.pages.engines.base import Counter
from monitor.core.streams import model_references
from monitor.core.streams.model_references import Key

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors import Findings
    from monitor.core.streams import Identity, State

LESSON_SECONDS = 600.0
"""Seconds from one lesson of a stream to its next: levels move over hours."""

LEAST_SECONDS = 1800.0
"""Seconds of its own that a stream has had before it teaches: until then it knows what it was told."""

OTHER_KIND_SD = 0.1
"""Logits by which another way of serving may lie elsewhere and be as good."""


def key_of(identity: Identity) -> Key:
    """Return whose reference a stream's is."""
    return Key(
        model_name=identity.key.model_name,
        draft_model=identity.config.get("draft_model", ""),
        method=identity.config.get("method", ""),
        num_speculative_tokens=identity.num_speculative_tokens,
        engine=identity.engine,
        engine_version=identity.engine_version,
        release=identity.facts.get("release", ""),
        environment=identity.facts.get("environment", ""),
    )


def begin(state: State, counts: Counts, watch: npt.NDArray[np.void]) -> None:
    """Let the streams whose first drafts `counts` has begin with the references there are.

    watch: the detectors' rows of `counts`.
    """
    fresh = watch["heir"]["since"] == 0.0
    if not fresh.any():
        return
    for index in np.flatnonzero(fresh & (counts.values[:, Counter.DRAFTS] > 0.0)).tolist():
        at = float(counts.at[index])
        watch["heir"]["since"][index] = watch["heir"]["taught_at"][index] = at
        state.references.learn(at)
        _inherit(state, watch, index, key_of(state.identities[counts.rows[index]]), at)


def _inherit(state: State, watch: npt.NDArray[np.void], index: int, key: Key, now: float) -> None:
    same = state.references.find(key)
    found = same or state.references.before(key)
    if found is None:
        return
    variance = found.apart() ** 2
    local = found.lately(now)
    if local is None:
        local, unknown = inheritance.expected(found.learnt, now)
        variance += unknown
    if same is None:
        variance += OTHER_KIND_SD**2
    inheritance.begin(watch, index, found.learnt, local, math.sqrt(variance), now)
    watch["heir"]["from"][index] = inheritance.SAME if same else inheritance.BEFORE
    k, other = key.num_speculative_tokens, found.key.num_speculative_tokens
    if same is None and k and other and k != other:
        inheritance.keep_positions(watch, index, min(k, other))


def teach(state: State, counts: Counts, watch: npt.NDArray[np.void], findings: Findings) -> None:
    """Let healthy streams teach the references of their kinds what they have learnt."""
    heir = watch["heir"]
    due = counts.at - heir["taught_at"] >= LESSON_SECONDS
    if not due.any():
        return
    baseline = watch["baseline"]
    heir["taught_at"] = np.where(due, counts.at, heir["taught_at"])
    healthy = due & (heir["since"] > 0.0) & (findings.condition == detectors.Condition.OK)
    healthy &= (counts.at - heir["since"] >= LEAST_SECONDS) & (baseline["local"][:, base.DRAFTS] > 0.0)
    for index in np.flatnonzero(healthy).tolist():
        identity = state.identities[counts.rows[index]]
        at, local = float(counts.at[index]), baseline["local"][index]
        learnt = inheritance.left(watch, index, at)
        information = inheritance.information(watch, index)
        told = model_references.lesson(key_of(identity), identity.id, learnt, local, information)
        state.references.note(told)
