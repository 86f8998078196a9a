"""What an open change costs is counted from the change on: now, so far, over restarts, and for a whole model."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from monitor.core import events, pipeline
from monitor.core.detectors.base import Alarm, Level
from monitor.core.economics import costs
from monitor.core.events import Cost, Event, attribution, event_records
from monitor.core.fleet import FleetAlarm
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence, Reading
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import State, checkpoint, losses
from monitor.core.streams.worth import Told

INTERVAL, STEP_SECONDS, BATCH, STEPS = 30.0, 0.010, 8.0, 1500.0
"""Of the made engine: 1,500 steps of 10 ms in 30 s, so it decodes half of the time."""
DELIVERED = STEPS * BATCH * 2.0 / INTERVAL
"""Tokens per second after the fall."""
CHANGE_AT = 3600.0
PRICES = costs.Prices(gpus_per_replica=4, gpu_hour_cost=2.5)
PLAN = pipeline.Plan(told={"": Told(prices=PRICES)})
WHY = attribution.Attribution((), ())


class Engine:
    """Cumulative counters of one replica; `mal` tokens come of every step and request."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.counters = np.zeros(NUM_COUNTERS)

    def scrape(self, at: float, mal: float, batch: float = BATCH) -> Scrape:
        """The page after one more interval."""
        outputs = STEPS * batch
        grown = {
            Counter.ENGINE_STEPS: STEPS,
            Counter.DECODE_OUTPUTS: outputs,
            Counter.DECODE_SECONDS: outputs * STEP_SECONDS,
            Counter.GENERATION_TOKENS: outputs * mal,
            Counter.DRAFTS: outputs,
            Counter.DRAFT_TOKENS: 4 * outputs,
            Counter.ACCEPTED_TOKENS: outputs * (mal - 1.0),
        }
        for counter, value in grown.items():
            self.counters[counter] += value
        reading = Reading("m", "0", Evidence.STEPS, tuple(self.counters.tolist()), (), 4)
        return Scrape(self.target, at, readings=(reading,))


def watched(
    targets: int = 1, until: float = CHANGE_AT + 1800.0, batch_after: float = BATCH, healthy: float = 0.0
) -> State:
    """The state after every replica's MAL fell from 3 to 2 `until` some time, its batch size changing with it.

    `healthy` seconds back at 3 follow. What the detectors say of it is not asked.
    """
    state = pipeline.begin(PLAN)
    engines = [Engine(f"t{n}") for n in range(targets)]
    for at in np.arange(INTERVAL, until + healthy + 1.0, INTERVAL).tolist():
        fallen = CHANGE_AT < at <= until
        pages = [e.scrape(at, 2.0 if fallen else 3.0, batch_after if fallen else BATCH) for e in engines]
        pipeline.step(PLAN, state, pages)
    for row in range(targets):
        hold(state, row)
    return state


def hold(state: State, row: int) -> Event:
    """Let a drop be open about a row from the change on, whatever the detectors say of it."""
    identity = state.identities[row]
    alarm = Alarm(
        index=0,
        kind="drop",
        severity="warning",
        action="open",
        change_point_at=CHANGE_AT,
        change_point_low=CHANGE_AT,
        change_point_high=CHANGE_AT,
        raised_at=CHANGE_AT + 120.0,
        positions=(),
        before=Level(3.0, 2.9, 3.1, (), 1e4),
        after=Level(2.0, 1.9, 2.1, (), 1e4),
        score=2.0,
        detector="level",
    )
    identity.outset = None
    identity.event = events.opened(identity.id, identity.key, alarm, Cost(2 / 3, 1.5, 0.5), WHY)
    return losses.stamped(PLAN, state, [identity.event])[0]


def test_a_fall_costs_what_the_same_tokens_took_less_before() -> None:
    """MAL 3 → 2 at the same step: half as long again, so a third of the busy half of four GPUs is extra."""
    state = watched()
    found = losses.of_rows(PLAN, state, np.array([0]))
    assert found.busy[0] == pytest.approx(0.5)
    assert found.delivered[0] == pytest.approx(DELIVERED)
    assert found.now[0].tokens_per_second == pytest.approx(DELIVERED / 2.0)
    assert found.now[0].gpu_hours_per_day == pytest.approx(4 * 0.5 / 3 * 24)
    assert found.now[0].money_per_day == pytest.approx(4 * 0.5 / 3 * 24 * 2.5)
    assert found.now[0].gpu_seconds_per_million_tokens == pytest.approx(4 * 0.5 / 3 / DELIVERED * 1e6)


def test_what_it_cost_so_far_is_counted_from_the_change_on() -> None:
    """Half an hour at it: a third of 4 × 15 busy minutes, and half of the tokens delivered were missing."""
    state = watched()
    so_far = losses.of_rows(PLAN, state, np.array([0])).so_far[0]
    assert so_far.gpu_hours == pytest.approx(4 * 0.25 / 3, rel=0.02)
    assert so_far.money == pytest.approx(4 * 0.25 / 3 * 2.5, rel=0.02)
    assert so_far.tokens == pytest.approx(DELIVERED * 1800.0 / 2.0, rel=0.02)


def test_healthy_time_at_the_end_adds_nothing() -> None:
    """Ten minutes back at MAL 3 before the event closes cost nothing: the sum stays where it was."""
    so_far = losses.of_rows(PLAN, watched(healthy=600.0), np.array([0])).so_far[0]
    assert so_far.gpu_hours == pytest.approx(4 * 0.25 / 3, rel=0.02)
    assert so_far.tokens == pytest.approx(DELIVERED * 1800.0 / 2.0, rel=0.02)


def test_more_load_is_not_the_changes_cost() -> None:
    """Where the batch doubled with the fall, only the tokens per step are compared: still half as long again."""
    state = watched(batch_after=2 * BATCH)
    found = losses.of_rows(PLAN, state, np.array([0]))
    assert found.now[0].tokens_per_second == pytest.approx(found.delivered[0] / 2.0)


def test_events_say_it_and_a_restart_of_specmon_goes_on_with_it() -> None:
    """The event's JSON has the cost; saved and restored, the state gives the same figures."""
    state = watched()
    event = state.identities[0].event
    assert event is not None
    closed = losses.stamped(PLAN, checkpoint.thaw(PLAN, checkpoint.freeze(state)), [event])[0]
    cost = event_records.as_json(closed)["cost"]
    assert isinstance(cost, dict)
    assert cost["gpu_hours"] == pytest.approx(
        losses.of_rows(PLAN, state, np.array([0])).so_far[0].gpu_hours, rel=1e-5
    )
    assert cost["tpot_log_shares"]["acceptance"] == pytest.approx(math.log(1.5), abs=1e-4)
    assert sum(share for name, share in cost["tpot_log_shares"].items() if name != "total") == pytest.approx(
        cost["tpot_log_shares"]["total"], abs=1e-5
    )


def test_the_outset_goes_with_the_event() -> None:
    """Once the event has closed nothing is open whose cost is followed."""
    state = watched()
    event = state.identities[0].event
    assert event is not None
    state.identities[0].event = None
    losses.stamped(PLAN, state, [events.closed(event, CHANGE_AT + 1800.0)])
    assert state.identities[0].outset is None
    assert len(losses.open_rows(state, np.array([0]))) == 0


def fleet_event(state: State, raised_at: float) -> Event:
    """An event of the whole model about all of its streams, without events of their own."""
    for identity in state.identities:
        identity.event = identity.outset = None
    alarm = FleetAlarm(
        group=0,
        rows=tuple(range(len(state.identities))),
        kind="drop",
        severity="warning",
        action="open",
        change_point_at=CHANGE_AT,
        change_point_low=CHANGE_AT,
        change_point_high=CHANGE_AT,
        raised_at=raised_at,
        before=Level(3.0, 2.9, 3.1, (), 1e4),
        shift=-0.5,
        after=Level(2.0, 1.9, 2.1, (), 1e4),
        score=2.0,
    )
    ids = tuple(identity.id for identity in state.identities)
    event = events.of_fleet("m", ids, alarm, Cost(2 / 3, 1.5, 0.5), WHY)
    state.groups.open[0] = event
    return event


def test_a_model_loses_what_its_replicas_lose() -> None:
    """Two replicas: twice the GPU-hours of one, and the same extra cost of a million tokens."""
    state = watched(2)
    alone = losses.of_rows(PLAN, state, np.array([0])).now[0]
    event = losses.stamped(PLAN, state, [fleet_event(state, CHANGE_AT + 1800.0)])[0]
    assert event.cost.gpu_hours_per_day == pytest.approx(2 * alone.gpu_hours_per_day)
    assert event.cost.gpu_seconds_per_million_tokens == pytest.approx(alone.gpu_seconds_per_million_tokens)
    assert state.groups.open[0].cost == event.cost


def test_pages_that_came_later_change_nothing_of_a_models_event() -> None:
    """What other replicas counted after the event was raised may be in the state already: same cost, same byte."""
    raised_at = CHANGE_AT + 1500.0
    early, late = watched(2, until=raised_at), watched(2, until=raised_at + 60.0)
    costs_told = [
        event_records.as_json(losses.stamped(PLAN, state, [fleet_event(state, raised_at)])[0])["cost"]
        for state in (early, late)
    ]
    assert costs_told[0] == costs_told[1]


def test_an_event_without_a_cost_is_left_alone() -> None:
    """Counters that contradict each other cost nothing that could be told."""
    state = watched()
    event = replace(hold(state, 0), kind="data_quality")
    assert losses.stamped(PLAN, state, [event]) == [event]
