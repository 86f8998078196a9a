"""The streams as pages show them, made from the state in one go.

A page of a large fleet costs a moment for each stream that it does not show too. So what took long to make is
shown again for a while: pages cost `SHARE` of a core at most, however many people look.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor.core import events
from monitor.core.events import event_records
from monitor.core.streams import fleet_events, summaries
from monitor.service import spending
from monitor.web.view import StreamView

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from monitor.core import streams
    from monitor.core.events import Event
    from monitor.core.pipeline import Plan
    from monitor.service.locking import StateLock

ENOUGH_DRAFTS = 200
CHANGED = frozenset({"drifting", "collapsed", "improved"})
"""States that began with the change behind them."""
SHARE = 0.05
"""Largest share of a core that making the same list again and again may take."""
WORTH_KEEPING_SECONDS = 0.05
"""A list that took less time is made for each request, so that small fleets see what is true now."""


@dataclass(slots=True)
class Shown:
    """The list that was made last, of which time (unix seconds), and until when it is shown (monotonic)."""

    made: list[StreamView] = field(default_factory=list)
    until: float = -math.inf
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class StateNow:
    """What the streams are made from, and the lock that guards it."""

    plan: Plan
    state: streams.State
    lock: StateLock


def now(source: StateNow, shown: Shown, unix_seconds: float) -> list[StreamView]:
    """Return the streams of this moment, or of one a few seconds ago where making them takes long."""
    with shown.lock:
        if time.monotonic() < shown.until:
            return shown.made
        started = time.monotonic()
        made = _all(source, unix_seconds)
        ended = time.monotonic()
        if ended - started > WORTH_KEEPING_SECONDS:
            shown.made, shown.until = made, ended + (ended - started) / SHARE
        return made


def _all(source: StateNow, unix_seconds: float) -> list[StreamView]:
    state, plan = source.state, source.plan
    with source.lock:
        records = summaries.over_shortest(plan, state, unix_seconds, ENOUGH_DRAFTS)
        status = state.status
        columns = (
            _numbers(state.noted["since"]),
            *(_numbers(status[name]) for name in ("baseline_mal", "score_down", "score_up", "last_at")),
            status["baseline_conditional"].tolist(),
        )
        labels = {name: dict(declared.labels) for name, declared in plan.declared.items()}
        told = [next(iter(fleet_events.of_stream(state, row)), None) for row in range(len(records))]
        open_costs = spending.Spending(plan, state)
        costs = [open_costs.of_row(row) for row in range(len(records))]
        rows = zip(state.identities, told, records, *columns, costs, strict=True)
        return [_stream(*row, labels=labels) for row in rows]


def _stream(  # noqa: PLR0913, PLR0917 - a row of the table
    identity: streams.Identity,
    event: Event | None,
    record: summaries.Estimated,
    since: float | None,
    baseline_mal: float | None,
    score_down: float | None,
    score_up: float | None,
    last_at: float | None,
    baseline_conditional: Sequence[float],
    cost: Mapping[str, object] | None,
    *,
    labels: Mapping[str, Mapping[str, str]],
) -> StreamView:
    return StreamView(
        id=identity.id,
        target=identity.key.target,
        model_name=identity.key.model_name,
        replica=identity.key.replica,
        state=record.state,  # type: ignore[arg-type]  # a state of the core
        estimate=record,
        state_reason=record.reason,
        state_since=events.number(event.change_point_at) if event and record.state in CHANGED else since,
        engine=identity.engine,
        engine_version=identity.engine_version,
        draft_model=identity.config.get("draft_model", ""),
        method=identity.config.get("method", ""),
        num_speculative_tokens=identity.num_speculative_tokens,
        regime=str(identity.regimes),
        baseline_mal=baseline_mal,
        baseline_conditional=_known(baseline_conditional),
        score_down=score_down,
        score_up=score_up,
        last_good_at=last_at,
        open_event=event_records.as_json(event) if event else None,
        benefit_lost_ratio=events.number(event.cost.benefit_lost_ratio) if event else None,
        labels=labels.get(identity.key.target, _NO_LABELS),
        cost=cost,
    )


_NO_LABELS: Mapping[str, str] = {}


def _numbers(column: Iterable[float]) -> list[float | None]:
    return [events.number(value) for value in column]


def _known(values: Sequence[float]) -> tuple[float | None, ...]:
    """Return the baseline of each position that has one; the last stands for all later positions."""
    if all(map(math.isnan, values)):
        return ()
    known = [events.number(value) for value in values]
    return tuple(known[: max(index + 1 for index, value in enumerate(known) if value is not None)])
