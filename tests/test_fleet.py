"""Many streams of one model: the odd one out is named, what moves everywhere is one event, not many."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor import detectors, fleet
from tests.detectors import simulated
from tests.detectors.simulated import Traffic, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from monitor.deltas import Counts
    from monitor.detectors.base import Alarm, Floats, Ints
    from monitor.fleet import FleetAlarm

REPLICAS = 8
WARM = 360
BUSY = Traffic(keeps=0.5)


@dataclass
class Watched:
    """Streams of some groups under detectors and fleet, with all that was said of them."""

    groups: Ints
    plan: detectors.Plan = field(default_factory=detectors.Plan)
    alarms: list[Alarm] = field(default_factory=list)
    common: list[FleetAlarm] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start with streams and groups that were never seen."""
        self.watch = detectors.allocate(self.plan, len(self.groups))
        self.fleet = fleet.allocate(len(self.groups), int(self.groups.max()) + 1)

    def see(self, news: Iterator[Counts] | list[Counts], batches: int = 1) -> Watched:
        """Take in counts of all streams, each interval in as many batches."""
        for each in news:
            for rows in np.array_split(np.arange(len(self.groups)), batches):
                part = replace(each, **{name.name: getattr(each, name.name)[rows] for name in fields(each)})
                state = self.watch[rows]
                findings = detectors.step(self.plan, state, part)
                findings, common = fleet.step(self.plan, self.fleet, self.groups[rows], part, state, findings)
                self.watch[rows] = state
                self.common += common
                self.alarms += [replace(alarm, index=int(rows[alarm.index])) for alarm in findings.alarms]
        return self

    def opened(self) -> list[Alarm]:
        """Return the replicas' alarms that opened."""
        return [alarm for alarm in self.alarms if alarm.action == "open"]


def one_group() -> Watched:
    """Return eight replicas of one model."""
    return Watched(np.zeros(REPLICAS, np.int64))


def on(rows: slice, logits: float) -> Callable[[int, Floats], Floats]:
    """Return a change of some replicas by as many logits, after the warm-up."""

    def change(step: int, rate: Floats) -> Floats:
        if step >= WARM:
            rate[rows] = shifted(rate[rows].copy(), logits)
        return rate

    return change


def traffic(steps: int, change: Callable[[int, Floats], Floats]) -> Iterator[Counts]:
    """Return the warm-up and as many intervals after it."""
    return simulated.intervals(BUSY, WARM + steps, streams=REPLICAS, seed=5, change=change)


def test_a_drop_on_one_replica_is_its_own() -> None:
    """The replica that fell is named within two minutes, and nobody else is blamed."""
    watch = one_group().see(traffic(60, on(slice(2, 3), -0.45)))
    (alarm,) = watch.opened()
    assert alarm.index == 2
    assert alarm.kind == "drop"
    assert 0.0 < alarm.raised_at - (simulated.START + 15.0 * WARM) <= 120.0
    assert watch.common == []


def test_a_small_drop_that_one_stream_cannot_show() -> None:
    """Against the others a drop is found that the wander of a single stream would hide."""
    watch = one_group().see(traffic(400, on(slice(0, 1), -0.2)))
    (alarm,) = watch.opened()
    assert (alarm.index, alarm.kind) == (0, "drop")


def test_a_drop_everywhere_is_one_event() -> None:
    """What all replicas do is said once, of the group, with its replicas; none of them is blamed."""
    watch = one_group().see(traffic(120, on(slice(None), -0.45)))
    (alarm,) = watch.common
    assert (alarm.group, alarm.rows, alarm.kind, alarm.action) == (0, tuple(range(REPLICAS)), "drop", "open")
    assert alarm.after.mal < alarm.before.mal
    assert abs(alarm.change_point_at - (simulated.START + 15.0 * WARM)) <= 30.0
    assert alarm.raised_at - (simulated.START + 15.0 * WARM) <= 240.0
    assert watch.opened() == []


def test_it_closes_when_it_is_over() -> None:
    """The group's event closes once the common level is back."""

    def change(step: int, rate: Floats) -> Floats:
        return shifted(rate, -0.45) if WARM <= step < WARM + 120 else rate

    watch = one_group().see(traffic(200, change))
    assert [alarm.action for alarm in watch.common] == ["open", "close"]
    assert watch.common[1].raised_at - (simulated.START + 15.0 * (WARM + 120)) <= 15 * 60.0


def test_what_moves_together_is_nobodys_fault() -> None:
    """A common swing too slow to be a step raises nothing on any replica."""

    def swing(step: int, rate: Floats) -> Floats:
        return shifted(rate, 0.2 * float(np.sin(step / 200.0)))

    watch = one_group().see(traffic(1200, swing))
    assert watch.opened() == []


@pytest.mark.parametrize("batches", [2, 8], ids=["in two", "one by one"])
def test_batches_change_nothing(batches: int) -> None:
    """Scrapes of one moment may come together or one by one: the same alarms, the same state."""
    news = list(traffic(60, on(slice(2, 3), -0.45)))
    together, apart = one_group().see(news), one_group().see(news, batches)
    assert sorted(apart.alarms, key=lambda alarm: alarm.raised_at) == together.alarms
    assert apart.fleet.groups.tobytes() == together.fleet.groups.tobytes()
    assert apart.watch.tobytes() == together.watch.tobytes()


def test_groups_do_not_know_each_other() -> None:
    """A model whose replicas all fall does not touch another, nor streams without a group."""
    groups = np.array([0, 0, 0, 1, 1, 1, 1, -1])
    watch = Watched(groups).see(traffic(80, on(slice(3, 7), -0.45)))
    assert {alarm.group for alarm in watch.common} == {1}
    assert watch.opened() == []


def test_two_replicas_are_no_fleet() -> None:
    """With fewer than three there is no telling who is odd: streams are judged alone."""
    news = simulated.intervals(
        BUSY, WARM + 40, streams=2, change=lambda step, rate: rate * (0.1 if step >= WARM else 1)
    )
    watch = Watched(np.zeros(2, np.int64)).see(news)
    assert [alarm.kind for alarm in watch.opened()] == ["collapse", "collapse"]
    assert watch.common == []
