"""Replicas of one model: what all of them do is one event, and the odd one out is found among them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import pipeline
from monitor.core.events import event_records
from monitor.core.pages import scrapes
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import presence
from tests import made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.events import Event

START = 1_700_000_000.0
INTERVAL = 15.0
REPLICAS = 5
TICKS = 1000
CHANGE = 850
CONDITIONAL = np.array([0.80, 0.75, 0.70])
FALLEN = np.array([0.72, 0.66, 0.60])


@cache
def history(hit: frozenset[int], seed: int = 3) -> tuple[tuple[Scrape, ...], ...]:
    """Ticks of replicas that share a wandering level; from CHANGE on those of `hit` accept less."""
    rng = np.random.default_rng(seed)
    level = np.cumsum(rng.normal(0.0, 0.003, TICKS))
    drafts, accepted = np.zeros(REPLICAS), np.zeros((REPLICAS, 3))
    ticks = []
    for tick in range(TICKS):
        scrapes = []
        for replica in range(REPLICAS):
            rates = FALLEN if tick >= CHANGE and replica in hit else CONDITIONAL
            odds = rates / (1 - rates) * np.exp(level[tick] + rng.normal(0.0, 0.05))
            kept = 5000
            drafts[replica] += kept
            for position, rate in enumerate(odds / (1 + odds)):
                kept = int(rng.binomial(kept, rate))
                accepted[replica, position] += kept
            reading = made.reading(accepted[replica].tolist(), drafts=float(drafts[replica]))
            scrapes.append(Scrape(f"r{replica}", START + INTERVAL * tick, readings=(reading,)))
        ticks.append(tuple(scrapes))
    return tuple(ticks)


def seen(ticks: Sequence[Sequence[Scrape]], *, cut: int | None = None) -> list[Event]:
    """The events of a history; the state is saved and restored before tick `cut`."""
    return [event for event in made.events(ticks, cut=cut) if event.severity != "info"]


def test_a_fall_of_all_replicas_is_one_event() -> None:
    """Where every replica falls at once there is one event of the fleet, and none beside it."""
    found = seen(history(frozenset(range(REPLICAS))))
    assert [(event.scope, event.status) for event in found] == [("fleet", "open")]
    record = event_records.as_json(found[0])
    assert (record["stream"], record["target"], record["replica"]) == (None, None, None)
    assert record["model_name"] == made.MODEL_NAME
    assert record["streams"] == [f"r{replica}~org-model~0~" + _hash(replica) for replica in range(REPLICAS)]
    assert found[0].raised_at - (START + INTERVAL * CHANGE) <= 240
    assert found[0].after.mal < found[0].before.mal


def _hash(replica: int) -> str:
    from monitor.core import streams

    key = scrapes.StreamKey(f"r{replica}", made.MODEL_NAME, "0")
    return streams.stream_id(key).rsplit("~", 1)[1]


def test_the_odd_one_out_is_found_and_no_other_is_blamed() -> None:
    """Where one replica falls, its own event says so within two minutes, and the others have none."""
    found = seen(history(frozenset({2})))
    assert {(event.scope, event.key.target if event.key else None) for event in found} == {("replica", "r2")}
    assert found[0].raised_at - (START + INTERVAL * CHANGE) <= 120


def test_scrapes_one_by_one_bring_the_same_events() -> None:
    """The odd one out is named with the last scrape of its round, whether the round comes as one batch or not."""
    ticks = history(frozenset({2}))
    assert seen([[scrape] for tick in ticks for scrape in tick]) == seen(ticks)


def test_a_restart_changes_no_event_of_the_fleet() -> None:
    """Saved and restored in the middle of a change, the same events come."""
    ticks = history(frozenset(range(REPLICAS)))
    assert seen(ticks, cut=CHANGE + 2) == seen(ticks)


def test_two_replicas_are_no_fleet() -> None:
    """Two streams of a model are judged alone: neither can be told to be the odd one."""
    ticks = [tick[:2] for tick in history(frozenset({0, 1}))]
    assert {event.scope for event in seen(ticks)} == {"replica"}


def test_a_model_that_left_takes_its_group_along() -> None:
    """Where the streams of a model are forgotten, the groups of the others keep their streams under new numbers."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    other = replace(made.reading([5.0], drafts=9.0), model_name="gone")
    pipeline.step(plan, state, [Scrape(f"g{number}", START, readings=(other,)) for number in range(3)])
    for tick in history(frozenset())[:8]:
        pipeline.step(plan, state, tick)
    state.keep(np.arange(3, 3 + REPLICAS))
    assert state.groups.numbers == {made.MODEL_NAME: 0}
    assert state.groups.group_of_row.tolist() == [0] * REPLICAS
    assert set(state.groups.fleet.streams["group"].tolist()) == {0}
    assert len(state.groups.fleet.groups) == 1


def test_an_event_whose_replicas_left_is_closed() -> None:
    """Once too few replicas are left to be compared nobody can prove a recovery, and the event says so."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    for tick in history(frozenset(range(REPLICAS))):
        pipeline.step(plan, state, tick)
    assert len(state.groups.open) == 1
    end = START + INTERVAL * TICKS
    left = {f"r{number}" for number in range(2)}
    assert presence.attend(state, plan.limits, left, end) == []
    closing = presence.attend(state, plan.limits, left, end + plan.limits.leave_seconds)
    (event,) = [event for event in closing if event.scope == "fleet"]
    assert event.status == "closed"
    assert event.facts[-1] == "2 replicas are left, 3 are compared: closed without recovery"
    assert state.groups.open == {}
    assert presence.attend(state, plan.limits, left, end + 2 * plan.limits.leave_seconds) == []
