"""Many streams of one model: the odd one out is named, what moves everywhere is one event, not many."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import detectors, fleet
from tests.detectors import simulated
from tests.detectors.simulated import Traffic, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Alarm, Floats, Ints
    from monitor.core.fleet import FleetAlarm

REPLICAS = 8
WARM = 360
BUSY = Traffic(keeps=0.5)


@dataclass
class Watched:
    """Streams of some groups under detectors and fleet, with all that was said of them."""

    groups: Ints
    plan: detectors.DetectionPlan = field(default_factory=detectors.DetectionPlan)
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
                self.watch[rows] = state
                said = fleet.step(self.plan, self.fleet, self.groups[rows], part, state, self.watch, findings)
                self.common += said.common
                self.alarms += [
                    replace(alarm, index=int(rows[alarm.index])) for alarm in said.findings.alarms
                ]
                self.alarms += [alarm for _, alarm in said.named]
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


def test_what_only_the_comparison_shows_ends_by_it() -> None:
    """A replica that was named for a small drop is over it when it is level with the others again, not before."""
    back = WARM + 400

    def change(step: int, rate: Floats) -> Floats:
        return on(slice(0, 1), -0.2)(step, rate) if step < back else rate

    watch = one_group().see(traffic(600, change))
    opened, closed = (alarm for alarm in watch.alarms if alarm.index == 0)
    assert (opened.action, closed.action) == ("open", "close")
    assert 0.0 < closed.raised_at - (simulated.START + 15.0 * back) <= 1800.0


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


def test_a_collapse_that_is_rolled_back_is_soon_over() -> None:
    """Two minutes after all replicas are back the group's event is closed, though it lasted ten."""

    def change(step: int, rate: Floats) -> Floats:
        return shifted(rate, -3.0) if WARM <= step < WARM + 40 else rate

    watch = one_group().see(traffic(60, change))
    assert [alarm.action for alarm in watch.common] == ["open", "close"]
    assert watch.common[1].raised_at - (simulated.START + 15.0 * (WARM + 40)) <= 120.0


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


def spread_out(news: Iterator[Counts], seconds: float) -> Iterator[Counts]:
    """Return the same intervals, but each stream's scrape comes `seconds` after the one before it."""
    for each in news:
        yield replace(each, at=each.at + seconds * np.arange(len(each.at)))


@pytest.mark.parametrize("batches", [2, 8], ids=["in two", "one by one"])
def test_scrapes_at_different_seconds(batches: int) -> None:
    """Replicas that are read one after the other are compared alike, however their scrapes are batched."""
    news = list(spread_out(traffic(60, on(slice(2, 3), -0.45)), 1.5))
    together, apart = one_group().see(news), one_group().see(news, batches)
    assert sorted(apart.alarms, key=lambda alarm: alarm.raised_at) == together.alarms
    assert apart.fleet.streams.tobytes() == together.fleet.streams.tobytes()
    assert apart.fleet.groups.tobytes() == together.fleet.groups.tobytes()
    assert [(alarm.index, alarm.kind) for alarm in together.opened()] == [(2, "drop")]


def test_a_turn_ends_with_the_last_news() -> None:
    """Once all replicas have their say the odd one is named: at that moment, not with its next scrape."""
    watch = one_group().see(spread_out(traffic(60, on(slice(2, 3), -0.6)), 1.0))
    (alarm,) = watch.opened()
    assert (alarm.raised_at - simulated.START) % 15.0 == REPLICAS - 1


def test_a_replica_that_is_gone_is_not_waited_for_twice() -> None:
    """Where a replica has no news the turn ends with the next period's, and from then on without it."""
    news = list(traffic(60, on(slice(2, 3), -0.6)))
    watch = one_group().see(news[:WARM])
    groups = watch.groups
    rows = np.arange(REPLICAS - 1)
    for each in news[WARM:]:
        part = replace(each, **{name.name: getattr(each, name.name)[rows] for name in fields(each)})
        state = watch.watch[rows]
        findings = detectors.step(watch.plan, state, part)
        watch.watch[rows] = state
        said = fleet.step(watch.plan, watch.fleet, groups[rows], part, state, watch.watch, findings)
        watch.alarms += [alarm for _, alarm in said.named]
    (alarm,) = watch.opened()
    assert alarm.index == 2
    assert alarm.raised_at - (simulated.START + 15.0 * WARM) <= 120.0


def test_replicas_that_are_read_once_a_minute() -> None:
    """A turn is as long as the replicas' scrape interval, so a fleet that is read once a minute is compared too."""
    slow = Traffic(drafts=20000.0, interval=60.0, keeps=0.1, request_sd=0.06)
    news = simulated.intervals(slow, WARM + 60, streams=REPLICAS, seed=5, change=on(slice(2, 3), -0.45))
    watch = one_group().see(spread_out(news, 7.0))
    assert watch.fleet.groups["seconds"][0] == 60.0
    (alarm,) = watch.opened()
    assert (alarm.index, alarm.kind) == (2, "drop")
    assert alarm.raised_at - (simulated.START + 60.0 * WARM) <= 360.0


def test_long_requests_are_no_drop() -> None:
    """Where requests last for many minutes replicas differ for as long, which is nobody's fault."""
    long = Traffic(keeps=0.97)
    watch = one_group().see(simulated.intervals(long, 2500, streams=REPLICAS, seed=7))
    assert watch.opened() == []


def falling_tails(step: int, rate: Floats) -> Floats:
    """Let positions 4 and 5 of all replicas fall for half an hour after the warm-up."""
    if WARM <= step < WARM + 120:
        rate[:, 3:] = shifted(rate[:, 3:], -0.85)
    return rate


def test_late_positions_that_fall_everywhere_are_one_event() -> None:
    """It is said once, of the group and with the positions; no replica is blamed; it closes when it is over."""
    watch = one_group().see(traffic(320, falling_tails))
    assert [alarm.action for alarm in watch.common] == ["open", "close"]
    assert watch.common[0].kind == "tail_drop"
    assert watch.common[0].positions == (3, 4)
    assert watch.common[0].rows == tuple(range(REPLICAS))
    assert watch.common[0].after.mal < watch.common[0].before.mal
    assert watch.common[0].raised_at - (simulated.START + 15.0 * WARM) <= 60.0
    assert watch.opened() == []


def test_a_collapse_everywhere_is_one_critical_event() -> None:
    """Where all replicas collapse it is one event and a critical one, however the counts scatter down there."""

    def change(step: int, rate: Floats) -> Floats:
        return shifted(rate, -3.0) if step >= WARM else rate

    watch = one_group().see(traffic(400, change))
    assert [(alarm.kind, alarm.severity, alarm.action) for alarm in watch.common] == [
        ("collapse", "critical", "open")
    ]
    assert watch.common[0].raised_at - (simulated.START + 15.0 * WARM) <= 45.0
    assert watch.common[0].after.mal < 0.6 * watch.common[0].before.mal
    assert watch.opened() == []


def test_a_slow_decay_everywhere_is_one_event() -> None:
    """What each replica's own trend shows and the comparison does not is said once, of the group."""
    day = 1440

    def change(step: int, rate: Floats) -> Floats:
        return shifted(rate, -0.65 * min(max(step - day, 0) / 240.0, 1.0))

    slow = Traffic(drafts=20000.0, interval=60.0, keeps=0.1, request_sd=0.06)
    news = simulated.intervals(slow, day + 360, streams=REPLICAS, seed=5, change=change)
    watch = one_group().see(news)
    assert [alarm.action for alarm in watch.common] == ["open"]
    assert watch.opened() == []


def test_late_positions_that_fall_on_one_replica_are_its_own() -> None:
    """The tail of one replica is not held back by the others, whose tails are well."""

    def change(step: int, rate: Floats) -> Floats:
        if step >= WARM:
            rate[1:2, 3:] = shifted(rate[1:2, 3:], -0.85)
        return rate

    watch = one_group().see(traffic(60, change))
    assert watch.common == []
    assert [(alarm.index, alarm.kind) for alarm in watch.opened()] == [(1, "tail_drop")]


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
