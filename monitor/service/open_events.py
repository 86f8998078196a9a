"""The events that are open, as the page of metrics shows them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from urllib.parse import quote

from monitor import metrics
from monitor.core.streams import fleet_events
from monitor.metrics import changes, textformat

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monitor.core.events import Event
    from monitor.core.streams import State
    from monitor.metrics.changes import Change

DIGITS = 6  # as in JSON: a text that is made from a series and one that is made from the record agree


def of_streams(state: State, rows: Iterable[int], site: str) -> list[Change]:
    """Return the open changes of each of these rows, its own or its model's; `site` is how we are reached."""
    found = []
    for row in rows:
        key = state.identities[row].key
        labels = metrics.stream_labels(key.target, key.model_name, key.replica)
        found += [_change(event, labels, site) for event in fleet_events.of_stream(state, row)]
    return found


def of_models(state: State, site: str) -> list[Change]:
    """Return the open changes of whole models."""
    return [
        _change(event, textformat.labels({"model_name": event.model_name}), site)
        for event in state.groups.open.values()
    ]


def _change(event: Event, labels: str, site: str) -> Change:
    tpot, tokens = event.cost.tpot_ratio, event.cost.tokens_per_step_ratio
    slowdown = tpot if math.isfinite(tpot) else 1.0 / tokens if tokens else math.nan
    return changes.Change(
        labels=labels,
        event=event.id,
        kind=event.kind,
        severity=event.severity,
        scope=event.scope,
        report=f"{site}/report/events/{quote(event.id, safe='')}" if site else "",
        before=_rounded(event.before.mal),
        after=_rounded(event.after.mal),
        since=_rounded(event.change_point_at),
        benefit_lost_ratio=_rounded(event.cost.benefit_lost_ratio),
        slowdown=_rounded(slowdown),
        replicas=max(len(event.streams), 1),
        causes={cause.cause: cause.weight for cause in event.causes},
    )


def _rounded(value: float) -> float:
    return round(value, DIGITS) if math.isfinite(value) else math.nan
