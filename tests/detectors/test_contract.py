"""What holds for the detectors whatever the traffic and the settings: the promises that everything is built on."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import detectors, tables
from tests.detectors import simulated
from tests.detectors.simulated import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Floats, Indices

BUSY = Traffic()
QUIET = Traffic(drafts=120.0, request_sd=0.35)
FAST = Traffic(drafts=400.0, interval=2.0)
ONE_POSITION = Traffic(drafts=2500.0, conditional=(0.8,))
MANY_POSITIONS = Traffic(drafts=1500.0, conditional=(0.8,) * 12)
TRAFFIC = pytest.mark.parametrize(
    "traffic",
    [BUSY, QUIET, FAST, ONE_POSITION, MANY_POSITIONS],
    ids=["busy", "quiet", "fast", "one position", "many positions"],
)
PLANS = pytest.mark.parametrize(
    "rate", [30.0, 1.0, 1.0 / 12.0], ids=["one a day", "one a month", "one a year"]
)


def collapse(after: int) -> Callable[[int, Floats], Floats]:
    """Return a change that lets hardly a token be accepted from an interval on."""

    def change(step: int, rate: Floats) -> Floats:
        return rate * 0.1 if step >= after else rate

    return change


def rows_of(counts: Counts, rows: Indices) -> Counts:
    """Return some rows of counts, as another batch would bring them."""
    return replace(counts, **{field.name: getattr(counts, field.name)[rows] for field in fields(counts)})


@TRAFFIC
@PLANS
def test_steady_streams_are_left_alone(traffic: Traffic, rate: float) -> None:
    """Hours of the same traffic raise nothing, warming up included."""
    watch = simulated.watched(8, detectors.DetectionPlan(false_alarms_per_month=rate))
    watch.see(simulated.intervals(traffic, 500, streams=8))
    assert watch.opened() == []


@TRAFFIC
@PLANS
def test_a_large_fall_is_an_alarm_of_the_right_direction(traffic: Traffic, rate: float) -> None:
    """A draft that hardly works any more opens one collapse a stream, not before it began, and nothing else."""
    watch = simulated.watched(6, detectors.DetectionPlan(false_alarms_per_month=rate))
    watch.see(simulated.intervals(traffic, 300, streams=6, change=collapse(250)))
    began = simulated.START + traffic.interval * 250
    assert sorted(alarm.index for alarm in watch.opened()) == list(range(6))
    for alarm in watch.opened():
        assert alarm.kind == "collapse"
        assert alarm.severity == "critical"
        assert began < alarm.raised_at <= began + 12 * traffic.interval
        assert abs(alarm.change_point_at - began) <= 2 * traffic.interval
        assert alarm.change_point_low <= alarm.change_point_at <= alarm.change_point_high <= alarm.raised_at
        assert alarm.after.mal < alarm.before.mal
        assert alarm.before.mal_low <= alarm.before.mal <= alarm.before.mal_high


@TRAFFIC
@pytest.mark.parametrize("cut", [1, 37, 252, 299], ids="cut at {}".format)
def test_saved_and_restored_anywhere_it_goes_on_the_same(traffic: Traffic, cut: int) -> None:
    """State is plain numbers: written out and read back at any point, every later finding is the same."""
    news = list(simulated.intervals(traffic, 320, streams=3, change=collapse(250)))
    whole = simulated.watched(3).see(news)
    first = simulated.watched(3).see(news[:cut])
    second = simulated.watched(3)
    second.state = tables.from_bytes(tables.to_bytes(first.state), detectors.DTYPE)
    second.see(news[cut:])
    assert first.alarms + second.alarms == whole.alarms
    assert second.state.tobytes() == whole.state.tobytes()


@TRAFFIC
def test_batches_change_nothing(traffic: Traffic) -> None:
    """Streams looked at together or one by one end in the same state, to the bit, with the same alarms."""
    news = list(simulated.intervals(traffic, 300, streams=5, change=collapse(250)))
    together = simulated.watched(5).see(news)
    for row in range(5):
        alone = simulated.watched(1).see([rows_of(each, np.array([row])) for each in news])
        assert alone.state.tobytes() == together.state[row : row + 1].tobytes()
        expected = [replace(alarm, index=0) for alarm in together.alarms if alarm.index == row]
        assert alone.alarms == expected


def test_chunks_change_nothing() -> None:
    """More rows than a chunk holds are judged as fewer would be, and alarms keep pointing at their row."""
    news = list(simulated.intervals(QUIET, 30, streams=700))
    whole = simulated.watched(700).see(news)
    tail = simulated.watched(100).see([rows_of(each, np.arange(600, 700)) for each in news])
    assert tail.state.tobytes() == whole.state[600:].tobytes()


@TRAFFIC
def test_nothing_is_learnt_from_idle_intervals(traffic: Traffic) -> None:
    """A night without drafts leaves baseline, noise and open troubles as they were."""
    watch = simulated.watched(2).see(simulated.intervals(traffic, 300, streams=2, change=collapse(250)))
    assert watch.findings is not None
    before, known = watch.state.copy(), watch.findings
    alarms = len(watch.alarms)
    width = len(traffic.conditional)
    for step in range(200):
        at = simulated.START + 15.0 * (10_000 + step)
        watch.see([simulated.counts(at, 15.0, np.zeros(2), np.zeros((2, width)))])
    for name in ("baseline", "noise", "level", "shape", "trend", "trouble"):
        assert watch.state[name].tobytes() == before[name].tobytes(), name
    assert len(watch.alarms) == alarms
    assert (watch.findings.condition == known.condition).all()


def test_a_row_of_state_is_small() -> None:
    """Ten thousand streams take 40 MB: at most 4 KB a stream."""
    assert detectors.DTYPE.itemsize <= 4096


def test_every_detector_is_in_the_table() -> None:
    """The table names each detector as its module does, and each says what it is."""
    for name, module in detectors.DETECTORS.items():
        assert name == module.NAME
        assert (module.__doc__ or "").startswith(f"`{name}`")
        assert detectors.DTYPE[name] == module.DTYPE


@pytest.mark.parametrize("name", detectors.DETECTORS)
def test_every_detector_of_the_table_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the table looks at the traffic; a detector that is only listed would never find anything."""
    asked: list[str] = []
    module = detectors.DETECTORS[name]
    real = module.step

    def noted(*given: object) -> object:
        asked.append(name)
        return real(*given)

    monkeypatch.setattr(module, "step", noted)
    simulated.watched(1).see(simulated.intervals(BUSY, 60))
    assert asked
