"""The models as people look at them: the streams of each together, the worst model first."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import fields, levels, states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from monitor.web.fields import Record
    from monitor.web.levels import PooledLevel
    from monitor.web.view import StreamView, View

BAD = frozenset({"collapsed", "silent", "drifting"})
_MOST_FLEET_EVENTS = 500


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model: its streams, worst first, how many are in each state, and its level now.

    `fleet_event` is the open event of the whole model, `bad` are the streams that are below what they were.
    """

    model_name: str
    streams: Sequence[StreamView]
    counts: Mapping[str, int]
    level: PooledLevel
    bad: Sequence[StreamView]
    bad_level: PooledLevel
    fleet_event: Record | None = None

    @property
    def state(self) -> str:
        """The worst state of a stream of it."""
        return self.streams[0].state

    @property
    def odd(self) -> Sequence[StreamView]:
        """The streams that are bad where most are not: the odd ones out."""
        return self.bad if len(self.bad) <= len(self.streams) // 2 else ()

    @property
    def event(self) -> Record:
        """The open event that says most: the model's own, else its worst stream's; empty without one."""
        return self.fleet_event or next((each.open_event for each in self.bad if each.open_event), None) or {}

    @property
    def since(self) -> float | None:
        """When the first of its bad streams changed (unix seconds); None where none is bad, or unknown."""
        own = [fields.number(self.event, "change_point_at")]
        known = [at for at in (*own, *map(changed_at, self.bad)) if at is not None]
        return min(known, default=None) if self.bad else None

    @property
    def slowdown(self) -> float | None:
        """How many times as long a token takes as before, the middle of its bad streams; None if unknown."""
        found = sorted(each for each in (slowdown(stream.open_event or {}) for stream in self.bad) if each)
        return found[len(found) // 2] if found else slowdown(self.event)


def of(view: View, streams: Iterable[StreamView]) -> list[ModelView]:
    """Return the models of these streams, worst first."""
    open_events = view.events(status="open", scope="fleet", limit=_MOST_FLEET_EVENTS)
    shared = {fields.text(event, "model_name"): event for event in reversed(open_events)}
    groups: dict[str, list[StreamView]] = {}
    for stream in states.worst_first(streams):
        groups.setdefault(stream.model_name, []).append(stream)
    found = [_standing(name, group, shared.get(name), view.now) for name, group in groups.items()]
    return sorted(found, key=_badness)


def changed_at(stream: StreamView) -> float | None:
    """Return when what is true of a stream began: its open event's change point, else its state."""
    at = fields.number(stream.open_event or {}, "change_point_at")
    return stream.state_since if at is None else at


def slowdown(event: Record) -> float | None:
    """Return an event's ratio of times per token, after ÷ before, else of tokens per step, before ÷ after."""
    cost = fields.record(event, "cost")
    tpot = fields.number(cost, "tpot_ratio")
    if tpot is not None:
        return tpot
    tokens = fields.number(cost, "tokens_per_step_ratio")
    return 1 / tokens if tokens else None


def _standing(name: str, group: Sequence[StreamView], shared: Record | None, now: float) -> ModelView:
    bad = [stream for stream in group if stream.state in BAD]
    return ModelView(
        name, group, states.counts(group), levels.of(group, now), bad, levels.of(bad, now), shared
    )


def _badness(standing: ModelView) -> tuple[int, float, float, str]:
    """Return what sorts models: the worst state, how many are in a bad one, how much is lost, the name."""
    share = len(standing.bad) / len(standing.streams)
    lost = standing.bad_level.lost_ratio
    return (
        states.rank(standing.state),
        -share,
        -(lost if lost is not None else -math.inf),
        standing.model_name,
    )
