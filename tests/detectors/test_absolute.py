"""What needs no baseline: dead drafts, silent speculation, and too little evidence for anything.

The numbers are those of public reports (vllm#41789, vllm#34385, vllm-ascend#16980, vllm-ascend#13640).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import detectors
from monitor.core.detectors import Condition
from tests.detectors import simulated

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts


def window(drafts: float, accepted: list[float], at: float = 0.0, seconds: float = 10.0) -> Counts:
    """Return one interval of one stream."""
    return simulated.counts(simulated.START + at, seconds, np.array([drafts]), np.array([accepted]))


@pytest.mark.parametrize(
    ("drafts", "accepted"),
    [(913.0, [25.0, 0.0, 0.0, 0.0]), (279.0, [0.0]), (40.0, [0.0])],
    ids=["MAL 1.03 of 913 drafts", "none of 279", "none of 40, against a healthy prior"],
)
def test_a_dead_draft_shows_in_its_first_window(drafts: float, accepted: list[float]) -> None:
    """Practically nothing accepted from the start is critical, with no baseline to wait for."""
    watch = simulated.watched().see([window(drafts, accepted)])
    (alarm,) = watch.alarms
    assert (alarm.action, alarm.kind, alarm.severity) == ("open", "dead_draft", "critical")
    assert watch.findings is not None
    assert watch.findings.condition[0] == Condition.COLLAPSED


@pytest.mark.parametrize(
    ("drafts", "accepted"),
    [
        (23.0, [17.0, 11.0, 6.0, 4.0, 3.0, 2.0, 1.0]),
        (23.0, [0.0]),
        (40.0, [1.0]),
        (200.0, [12.0]),
        (43.0, [32.0, 18.0, 7.0, 3.0, 3.0]),
    ],
    ids=[
        "MAL 2.91 of 23 drafts",
        "none of 23",
        "one of 40",
        "a floor of 0.1 not proven",
        "a hole in the histogram",
    ],
)
def test_little_evidence_is_no_alarm(drafts: float, accepted: list[float]) -> None:
    """A request or two prove nothing, and a floor must be proven to be broken."""
    assert simulated.watched().see([window(drafts, accepted)]).alarms == []


def test_a_floor_of_a_tenth_is_not_broken_by_none_of_40() -> None:
    """With a token accepted before, none of the next 40 has 1.5 % chance at the floor: no alarm."""
    watch = simulated.watched().see([window(20.0, [2.0]), window(40.0, [0.0], 10.0)])
    assert watch.alarms == []


def test_a_dead_draft_closes_when_it_is_clearly_alive() -> None:
    """After hours of nothing, a draft that works closes the alarm within a minute, and warms up from there."""
    news = [window(500.0, [0.0, 0.0], 10.0 * step) for step in range(300)]
    news += [window(500.0, [400.0, 300.0], 3000.0 + 10.0 * step) for step in range(6)]
    watch = simulated.watched().see(news)
    assert [(alarm.action, alarm.kind) for alarm in watch.alarms] == [
        ("open", "dead_draft"),
        ("close", "dead_draft"),
    ]
    assert watch.findings is not None
    assert watch.findings.condition[0] == Condition.WARMING


def test_speculation_that_stops_while_tokens_flow_is_silent() -> None:
    """Two minutes of tokens without a draft are a warning, which the next draft closes."""
    watch = simulated.watched().see(simulated.intervals(simulated.Traffic(), 100))
    at = simulated.START + 100 * 15.0
    none, tokens = np.zeros((1, 5)), np.array([900.0])
    for step in range(1, 12):
        watch.see([simulated.counts(at + 15.0 * step, 15.0, np.zeros(1), none, generation_tokens=tokens)])
    (alarm,) = watch.alarms
    assert (alarm.kind, alarm.severity) == ("speculation_silent", "warning")
    assert alarm.change_point_at == pytest.approx(at, abs=15.0)
    assert alarm.raised_at - alarm.change_point_at >= detectors.DetectionPlan().silent_seconds
    accepted = np.array([[800.0, 600.0, 450.0, 320.0, 220.0]])
    watch.see([simulated.counts(at + 200.0, 15.0, np.array([1000.0]), accepted, generation_tokens=tokens)])
    assert [alarm.action for alarm in watch.alarms] == ["open", "close"]


def test_an_idle_engine_is_not_silent() -> None:
    """No tokens, no drafts: that is idle, for however long."""
    watch = simulated.watched().see(simulated.intervals(simulated.Traffic(), 100))
    for step in range(1, 500):
        at = simulated.START + 15.0 * (100 + step)
        watch.see([simulated.counts(at, 15.0, np.zeros(1), np.zeros((1, 5)), generation_tokens=np.zeros(1))])
    assert watch.alarms == []


def test_a_sparse_morning_after_an_idle_night_is_no_alarm() -> None:
    """Fifteen noisy drafts a window after eight hours of nothing neither poison nor alarm anything."""
    rng = np.random.default_rng(4)
    watch = simulated.watched().see(simulated.intervals(simulated.Traffic(drafts=400.0), 2000))
    begin = simulated.START + 2000 * 15.0 + 8 * 3600.0
    for step in range(400):
        first = rng.binomial(15, rng.uniform(0.5, 0.95))
        second = rng.binomial(first, 0.75)
        accepted = np.array([[first, second, second * 0.6, second * 0.4, second * 0.2]]).round()
        watch.see([simulated.counts(begin + 60.0 * step, 60.0, np.array([15.0]), accepted)])
    assert watch.alarms == []
