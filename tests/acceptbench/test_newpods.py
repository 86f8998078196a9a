"""Pods that take over are written as the simulator of the first issues wrote them, and judged group by group."""

from __future__ import annotations

import hashlib
import heapq
import math
from dataclasses import replace

import pytest

from tests.acceptbench import generate, judging, newpods

LINES = {
    "pods-rolling-small": "e78bb098badb56fc",
    "alone-slide-1h-totals": "8e2cd8fdc8ab4374",
    "pods-collapse-medium": "1dbf659f7495b7c5",
}


def _short(name: str) -> newpods.NewPods:
    pods = next(each for each in newpods.SCENARIOS if each.name == name)
    pods = replace(pods, after_s=min(pods.after_s, 900.0), rolling_s=min(pods.rolling_s, 60.0))
    return replace(pods, groups=1, old_h=0.5, new_h=0.5)


@pytest.mark.parametrize(("name", "expected"), LINES.items(), ids=LINES)
def test_the_lines_are_the_same_to_the_byte(name: str, expected: str) -> None:
    """Old and new pods of one replica, and pages with totals only, are the lines that they always were."""
    pods = _short(name)
    scenario = newpods.scenario(pods)
    written = []
    for rep in range(scenario.reps):
        stream = generate.simulate(scenario, rep, 5)
        turn = float(stream.t[0]) + (pods.after_s if pods.alone else pods.old_h * 3600)
        written.append(newpods.lines(pods, stream, *divmod(rep, pods.fleet), turn))
    found = hashlib.blake2b(digest_size=8)
    for _, line in heapq.merge(*written, key=lambda each: each[0]):
        found.update(line.encode())
    assert found.hexdigest() == expected


def _said(
    model_name: str, at: float, *, severity: judging.Severity = "critical", rose: bool = False
) -> judging.Said:
    return judging.Said(
        "g0-new-0", model_name, at, "down", severity, at, "collapse", "plunge", lasts=True, rose=rose
    )


def test_a_find_is_the_first_in_the_right_direction_after_the_change() -> None:
    """What was said before, in the other direction, or as information, is no find; a group without one counts as never."""
    pods = _short("pods-collapse-medium")
    changed = {"m-0": 1000.0, "m-1": 1000.0}
    said = [
        _said("m-0", 900.0),
        _said("m-0", 1060.0, rose=True),
        _said("m-0", 1070.0, severity="info"),
        _said("m-0", 1090.0),
        _said("m-0", 1200.0),
    ]
    found = newpods.judged(pods, changed, said)
    assert found.minutes == (0.5, math.inf)
    assert (found.before, found.events, found.share) == (1, 3, 0.5)
    assert found.a_month == pytest.approx(3 / (4 * 0.5 / 24) * 30)
