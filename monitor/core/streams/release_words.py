"""What a comparison of releases says becomes an event: its kind, its levels, its causes in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events
from monitor.core.economics import verdicts
from monitor.core.events import Opening
from monitor.core.events.attribution import Attribution, Cause
from monitor.core.streams import releases
from monitor.core.streams.releases import NEW

if TYPE_CHECKING:
    from monitor.core.detectors import DetectionPlan as Watch
    from monitor.core.detectors.base import Level
    from monitor.core.economics.verdicts import Difference, ReleaseVerdict
    from monitor.core.events import Event
    from monitor.core.streams import State
    from monitor.core.streams.releases import Comparison
    from monitor.core.vocabulary import CauseName, EventKind, Severity

CAUSE_OF_CHANGE: dict[str, CauseName] = {
    "draft_model": "draft",
    "target_model": "target_model",
    "engine": "engine",
    "engine version": "engine",
    "weight_version": "target_model",
    "told draft": "draft",
    "told target model": "target_model",
    "told engine": "engine",
}
"""What a release changed → the cause it is told as; everything else is its configuration."""

LOST_IS_DROP = 0.1
"""Share of the benefit from which a release that is worse is a drop: less is told, but nobody is called."""

BENEFIT_LOST = 0.6
"""Share of the benefit from which it is a collapse, as of a single stream."""

BAD = frozenset({"collapse", "drop"})
"""Kinds that stay open until the level is back or no pod of the release is left."""


def kind_of(plan: Watch, comparison: Comparison, word: ReleaseVerdict) -> tuple[EventKind, Severity]:
    """Return what a release that did `word` is called: worse by much is a fall like any other."""
    before = verdicts.promised(np.array(comparison.rate), 0.0, comparison.shared, single=comparison.single)
    if word.outcome != "worse" or before <= 1.0:
        return "regime_change", "info"
    lost, share = -word.difference / (before - 1.0), -word.difference / before
    if lost >= BENEFIT_LOST or share >= plan.collapse_ratio:
        return "collapse", "critical"
    return ("drop", "warning") if lost >= LOST_IS_DROP else ("regime_change", "info")


def opened(
    plan: Watch,
    state: State,
    number: int,
    comparison: Comparison,
    judgement: tuple[Difference, ReleaseVerdict],
    now: float,
) -> Event:
    """Return the event that a comparison opens at `now`: the word on the new side, and how it came about."""
    kind, severity = kind_of(plan, comparison, word := judgement[1])
    side = state.groups.releases.streams["side"]
    rows = np.flatnonzero((side == NEW) & (state.groups.group_of_row == number))
    name = next(name for name, each in state.groups.numbers.items() if each == number)
    before, after = _levels(comparison, judgement[0])
    cost, why = events.cost(before.mal, after.mal), _why(comparison, len(rows), word)
    return events.Event(
        id=events.identity(f"release|{name}", comparison.began_at, now, "regime_change"),
        stream=None,
        key=None,
        kind=kind,
        severity=severity,
        status="open",
        change_point_at=comparison.began_at,
        change_point_low=comparison.began_at - releases.BLOCK_SECONDS,
        change_point_high=min(comparison.began_at + releases.BLOCK_SECONDS, now),
        raised_at=now,
        closed_at=None,
        before=before,
        after=after,
        cost=cost,
        positions=(),
        causes=why.causes,
        facts=why.facts,
        detector="release",
        scope="fleet",
        model_name=name,
        streams=tuple(state.identities[row].id for row in rows.tolist()),
        verdict=word,
        present_at=now,
        at_opening=Opening(after, cost, why.causes),
    )


def _levels(comparison: Comparison, apart: Difference) -> tuple[Level, Level]:
    concurrent = comparison.beside.seen > 0
    before = verdicts.level(np.array(comparison.before if concurrent else comparison.local), apart)
    return before, verdicts.level(np.array(comparison.after), apart)


def _why(comparison: Comparison, pods: int, word: ReleaseVerdict) -> Attribution:
    """Return what differs between the releases, in words, as the cause of what acceptance did."""
    beside, edge = comparison.beside.seen, comparison.edge.seen
    how = (
        f"compared side by side over {beside} min"
        if beside >= edge
        else f"the new pods' first {edge} min against the last {releases.LOCAL_MINUTES:.0f} min before them"
    )
    texts = [text for _, text in comparison.changes]
    weights: dict[CauseName, list[str]] = {}
    for name, text in comparison.changes:
        weights.setdefault(CAUSE_OF_CHANGE.get(name, "config"), []).append(text)
    share = 1.0 if word.outcome == "no_difference" else 0.9
    causes = [Cause(cause, round(share / len(weights), 3), "; ".join(why)) for cause, why in weights.items()]
    if share < 1.0:
        causes.append(Cause("unknown", 0.1, "what else came with the release is not exported"))
    return Attribution((*texts, f"{pods} of the new release; {how}"), tuple(causes))
