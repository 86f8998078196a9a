"""A stream that falls and comes back again and again has a second level: told once, then no news."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import Condition
from tests.detectors import simulated
from tests.detectors.simulated import Traffic, Watched, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Floats

ONE_SESSION = Traffic(drafts=1200.0, interval=60.0, request_sd=0.25, keeps=0.8)
HOUR = 60
WEAK = -2.0
LEARNT = 10 * HOUR


def sessions() -> list[bool]:
    """Return for each interval whether the session at hand is a weak one: three in ten, of 10 minutes or so."""
    rng, weak = np.random.default_rng(3), [False] * HOUR
    while len(weak) < LEARNT:
        weak += [bool(rng.random() < 0.3)] * int(rng.integers(5, 16))
    return [*weak[: LEARNT - 20], *[False] * 20]


def later(change: Callable[[Floats], Floats], steps: int) -> Iterator[Counts]:
    """Yield intervals of after the ten hours of swings."""
    for each in simulated.intervals(ONE_SESSION, steps, seed=9, change=lambda _, rate: change(rate)):
        each.at[:] += ONE_SESSION.interval * LEARNT
        yield each


@cache
def _learnt() -> Watched:
    weak = sessions()
    news = simulated.intervals(
        ONE_SESSION,
        LEARNT,
        change=lambda step, rate: shifted(rate.copy(), WEAK) if weak[step] else rate,
    )
    return simulated.watched().see(news)


def learnt() -> Watched:
    """Return what was said in ten hours of weak sessions in turn with good ones."""
    return deepcopy(_learnt())


END = simulated.START + ONE_SESSION.interval * LEARNT


def test_a_second_level_is_told_once_and_is_no_news_any_more() -> None:
    """Weak sessions in turn with good ones: three falls are told, then one info says what it is, then nothing."""
    watch = learnt()
    assert [alarm.kind for alarm in watch.opened()] == ["collapse"] * 3
    (note,) = [alarm for alarm in watch.alarms if alarm.action == "note"]
    assert (note.kind, note.severity) == ("regime_change", "info")
    assert "came back 3 times within hours" in note.fact
    assert watch.alarms[-1] is note
    assert note.raised_at <= END - 3 * 3600.0


def test_a_third_level_is_told() -> None:
    """A draft that is hardly accepted at all, under a stream that is known to swing, is a collapse in minutes."""
    watch = learnt().see(later(lambda rate: rate * 0.06, 20))
    (opened,) = watch.opened()[3:]
    assert (opened.kind, opened.severity) == ("collapse", "critical")
    assert opened.raised_at <= END + 600.0


def test_a_second_level_that_stays_is_told() -> None:
    """A stream that falls to its second level and stays there is told of, dated to when it fell."""
    watch = learnt().see(later(lambda rate: shifted(rate, WEAK), 3 * HOUR))
    (opened,) = watch.opened()[3:]
    assert (opened.kind, opened.severity) == ("collapse", "critical")
    assert opened.change_point_at == pytest.approx(END, abs=300.0)
    assert opened.raised_at <= END + 2.5 * 3600.0
    assert watch.findings is not None
    assert watch.findings.condition[0] == Condition.COLLAPSED


def test_a_fall_after_a_restart_is_told() -> None:
    """What a stream that swings does right after a restart is news, even if it is at its second level."""
    watch = learnt()
    for step, each in enumerate(later(lambda rate: shifted(rate, WEAK), 10)):
        each.restarted[:] = step == 0
        watch.see([each])
    assert [alarm.kind for alarm in watch.opened()[3:]] == ["collapse"]


def test_falls_that_a_restart_ends_make_no_second_level() -> None:
    """A collapse that a restart mends each time does not pass by itself: the fourth is told like the first."""
    watch = simulated.watched()
    news = simulated.intervals(
        ONE_SESSION,
        7 * HOUR,
        change=lambda step, rate: shifted(rate.copy(), WEAK) if step >= HOUR and step % 90 >= 75 else rate,
    )
    for step, each in enumerate(news):
        each.restarted[:] = step > 0 and step % 90 == 0
        watch.see([each])
    assert [alarm.kind for alarm in watch.opened()] == ["collapse"] * 4
    assert [alarm for alarm in watch.alarms if alarm.action == "note"] == []
