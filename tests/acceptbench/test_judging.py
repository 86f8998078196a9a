"""What counts as found, as false, and how late: on hand-made streams and hand-made events."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from tests.acceptbench import catalogue, judging
from tests.acceptbench.scenarios import Scenario, Stream

HOUR = 3600.0
SCENARIO = replace(catalogue.ALL["partial-high"], profile=replace(catalogue.HIGH, dt=60.0), horizon_h=1.0)


def _stream(change_at: float | None, *, quiet_until: float = 0.0) -> Stream:
    """Return four hours of a page a minute, with drafts from `quiet_until` on."""
    t = np.arange(60.0, 4 * HOUR + 1, 60.0)
    drafts = np.where(t > quiet_until, 100, 0)
    row = None if change_at is None else int(np.searchsorted(t, change_at, side="right"))
    no = np.zeros(len(t), bool)
    return Stream(t, drafts, drafts[:, None], np.ones(len(t), np.int64), no, change_at, row, np.zeros(len(t)))


def _said(
    at: float, severity: judging.Severity = "warning", direction: Literal["down", "up"] = "down"
) -> judging.Said:
    return judging.Said("t", "m", at, direction, severity, at - 30.0, "drop", "level", lasts=True, rose=False)


def _judged(stream: Stream, *said: judging.Said, scenario: Scenario = SCENARIO) -> judging.Figures:
    return judging.of_streams(scenario, [(stream, said)])


def test_alarms_before_the_change_are_false() -> None:
    """Warnings and pages until the change are false, information is free; hours run until the change."""
    figures = _judged(
        _stream(2 * HOUR), _said(HOUR), _said(HOUR + 1, "critical"), _said(HOUR + 2, "info"), _said(2 * HOUR)
    )
    assert (figures.false_alarms, figures.pages, figures.found) == (3, 1, 0.0)
    assert figures.hours == pytest.approx(2.0 - 1 / 60)


def test_the_first_right_alarm_within_the_horizon_is_the_find() -> None:
    """The delay is that of the first alarm in the right direction; others are repeats, or the wrong way."""
    figures = _judged(
        _stream(2 * HOUR),
        _said(2 * HOUR + 60, direction="up"),
        _said(2 * HOUR + 120, "info"),
        _said(2 * HOUR + 180),
        _said(2 * HOUR + 240),
        _said(3 * HOUR + 1),
    )
    assert figures.delays == [3.0]
    assert (figures.repeats, figures.wrong_way, figures.errors) == (1, 1, [2.5])
    assert dict(figures.by) == {"level:warning:drop": 1}


def test_an_alarm_after_the_horizon_is_a_miss() -> None:
    """What comes later than the horizon is not found: never, not late."""
    figures = _judged(_stream(2 * HOUR), _said(3 * HOUR + 1))
    assert figures.found == 0.0
    assert figures.minutes(0.5) == math.inf


def test_nothing_can_be_seen_before_traffic_comes() -> None:
    """Where nothing is drafted after the change, the clock starts an interval before the first drafts."""
    stream = _stream(2 * HOUR, quiet_until=2.5 * HOUR)
    assert judging.begins(SCENARIO, stream) == 2.5 * HOUR
    assert judging.begins(SCENARIO, _stream(2 * HOUR)) == 2 * HOUR


def test_information_counts_of_improvements() -> None:
    """An improvement is news of the lowest severity, and found by it."""
    scenario = replace(SCENARIO, expect="up")
    assert _judged(_stream(2 * HOUR), _said(2 * HOUR + 60, "info", "up"), scenario=scenario).found == 1.0
    assert _judged(_stream(2 * HOUR), _said(2 * HOUR + 60, "info", "down"), scenario=scenario).found == 0.0


def test_of_a_fleet_one_event_is_the_find() -> None:
    """Where all replicas change, the fleet's event is the find and alarms of single replicas are blamed ones."""
    streams = [_stream(2 * HOUR)] * 8
    figures = judging.of_fleets(SCENARIO, [(streams, [_said(2 * HOUR + 60)], [_said(2 * HOUR + 120)])])
    assert (figures.groups, figures.delays, figures.others) == (1, [2.0], 1)
    assert figures.hours == pytest.approx(8 * (2 - 1 / 60))


def test_quantiles_count_misses_as_never() -> None:
    """Of two streams, one found after two minutes: the median is the higher one, never."""
    figures = judging.of_streams(
        SCENARIO, [(_stream(2 * HOUR), [_said(2 * HOUR + 120)]), (_stream(2 * HOUR), [])]
    )
    assert figures.minutes(0.0) < 3.0
    assert figures.minutes(0.95) == math.inf
