"""What a stream's quiet hours promise of false alarms, against scores whose tail is known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import detectors
from monitor.core.detectors import Condition, Findings, calibration
from tests import made
from tests.test_commands import specmon

if TYPE_CHECKING:
    from pathlib import Path

    from monitor.core.detectors.base import Floats

PLAN = detectors.DetectionPlan()
LOOK = 60.0


def look(score: Floats, condition: int = Condition.OK) -> Findings:
    """Return findings of one look at some streams: the scores of falls, the rest at rest."""
    streams = len(score)
    return Findings(
        score_down=score,
        score_up=np.zeros(streams),
        baseline_mal=np.full(streams, 3.0),
        baseline_conditional=np.full((streams, 8), 0.8),
        condition=np.full(streams, int(condition)),
        alarms=(),
    )


def watched(scores: Floats, condition: int = Condition.OK, *, gap: bool = False) -> calibration.Excursions:
    """Return what looks at streams, a minute apart, leave: scores [looks, streams]."""
    excursions = calibration.Excursions()
    for n, score in enumerate(scores):
        streams = len(score)
        counts = made.counts([[70.0]] * streams, [100.0] * streams, at=made.START + LOOK * n, seconds=LOOK)
        counts = replace(counts, gap=np.full(streams, gap))
        excursions.see(counts, look(score, condition))
    return excursions


def peaks(hours: int, steepness: float, a_day: float, seed: int = 1) -> Floats:
    """Return scores of 20 streams with excursions whose heights above 0.5 are exponential; alarms are cut off."""
    rng = np.random.default_rng(seed)
    scores = np.zeros((hours * 60, 20))
    chances = scores[::30]  # one each half hour, so that each is an excursion of its own
    begins = rng.random(chances.shape) < a_day / 48
    heights = calibration.CALM + rng.exponential(1.0 / steepness, chances.shape)
    chances[begins & (heights < 1.0)] = heights[begins & (heights < 1.0)]
    return scores


@pytest.mark.parametrize(
    ("steepness", "a_day"), [(12.0, 24.0), (8.0, 12.0), (5.0, 6.0)], ids=["as designed", "heavier", "heavy"]
)
def test_the_rate_of_alarms_is_found(steepness: float, a_day: float) -> None:
    """In 72 hours of 20 streams the intervals hold the true rate of alarms, and all together tell it in half."""
    truth = 30.0 * a_day * math.exp(-steepness * (1.0 - calibration.CALM))
    excursions = watched(peaks(72, steepness, a_day))
    each = [excursions.of_stream(PLAN, row) for row in range(20)]
    assert sum(found.low <= truth <= found.high for found in each) >= 17
    together = excursions.of_all(PLAN)
    assert together.expected == pytest.approx(truth, rel=0.5)
    assert together.low <= truth <= together.high
    assert together.hours == pytest.approx(20 * 72, rel=0.01)


def test_quiet_scores_promise_little_but_not_nothing() -> None:
    """Three days without an excursion: far less than one false alarm a month is expected, but more than none."""
    found = watched(np.zeros((72 * 60, 1))).of_stream(PLAN, 0)
    assert 0.0 < found.low < found.expected < 0.1
    assert found.expected < found.high < 10.0


def test_one_excursion_is_counted_once() -> None:
    """A score that flickers about the line for a while is one excursion, as high as its peak."""
    flicker = np.zeros((12 * 60, 1))
    flicker[100:120:2] = 0.6
    once = np.zeros((12 * 60, 1))
    once[118] = 0.6
    assert watched(flicker).of_stream(PLAN, 0) == watched(once).of_stream(PLAN, 0)


@pytest.mark.parametrize(
    ("condition", "gap", "minutes"),
    [
        (Condition.WARMING, False, 1000),
        (Condition.DRIFTING, False, 1000),
        (Condition.OK, True, 1000),
        (Condition.OK, False, 300),
    ],
    ids=["no baseline yet", "a trouble is open", "gaps", "five hours"],
)
def test_too_little_history_says_so(condition: int, minutes: int, *, gap: bool) -> None:
    """Only hours with a baseline and without a trouble count, and below six nothing is said."""
    found = watched(np.zeros((minutes, 1)), condition, gap=gap).of_stream(PLAN, 0)
    assert math.isnan(found.expected)
    assert found.hours < calibration.LEAST_HOURS


def test_an_alarm_is_not_counted_as_an_excursion() -> None:
    """A score that rises through the limit into a trouble says nothing of chance."""
    excursions = watched(np.zeros((600, 1)))
    rising = calibration.Excursions()
    for n in range(600):
        counts = made.counts([[70.0]], [100.0], at=made.START + LOOK * n, seconds=LOOK)
        score = np.array([0.7 if n == 590 else 1.5 if n == 591 else 0.0])
        state = Condition.DRIFTING if n == 591 else Condition.OK
        rising.see(counts, look(score, state))
    one, other = (each.of_stream(PLAN, 0).expected for each in (excursions, rising))
    assert other == pytest.approx(one, rel=0.01)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight hours of a steady stream of counters."""
    rng = np.random.default_rng(4)
    path = tmp_path_factory.mktemp("history") / "steady.jsonl"
    drafts, accepted = 0, np.zeros(3, int)
    with path.open("w") as file:
        for n in range(8 * 60):
            kept = 3000
            drafts += kept
            for j in range(3):
                kept = int(rng.binomial(kept, 0.75))
                accepted[j] += kept
            line = {"at": made.START + LOOK * n, "target": "t", "model_name": "m", "replica": "0"}
            counted = {"drafts": drafts, "draft_tokens": 3 * drafts, "accepted": accepted.tolist()}
            file.write(json.dumps(line | counted) + "\n")
    return path


def test_replay_prints_it_for_programs(history: Path) -> None:
    """`replay --json` gives one calibration a stream before the summaries."""
    records = [json.loads(line) for line in specmon("replay", "--json", str(history)).stdout.splitlines()]
    assert [record["type"] for record in records[-2:]] == ["calibration", "summary"]
    found = records[-2]
    assert found["stream"] == records[-1]["stream"]
    assert 6.0 < found["hours"] < 8.0
    assert found["accepted_false_alarms_per_month"] == 1.0
    assert 0.0 < found["low"] < found["expected_false_alarms_per_month"] < found["high"]


def test_replay_prints_it_for_people(history: Path) -> None:
    """`replay` says what to expect in a sentence."""
    line = specmon("replay", str(history)).stdout.splitlines()[-2]
    assert line.startswith("expected false alarms at these settings on your data: ")
    assert "per replica and month (from 7 quiet hours)" in line


def test_a_short_history_promises_nothing(tmp_path: Path, history: Path) -> None:
    """Below six quiet hours the numbers are null, and the sentence says why."""
    short = tmp_path / "short.jsonl"
    short.write_text("".join(history.read_text().splitlines(keepends=True)[:120]))
    assert "too little history to say" in specmon("replay", str(short)).stdout
    lines = specmon("replay", "--json", str(short)).stdout.splitlines()
    (found,) = (record for record in map(json.loads, lines) if record["type"] == "calibration")
    assert [found[name] for name in ("expected_false_alarms_per_month", "low", "high")] == [None] * 3
