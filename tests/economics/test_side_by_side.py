"""Two servers side by side: the speed-up with its interval, and whether their outputs are equal."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest

from monitor.core.economics import side_by_side
from monitor.core.economics.side_by_side import CompletionRun, Side


def made(speedup: float, *, rounds: int = 6, concurrency: int = 2, seed: int = 1) -> list[CompletionRun]:
    """Runs whose plain TPOT is 20 ms with 5 % of scatter, and so many times as fast with speculation."""
    rng = np.random.default_rng(seed)
    runs: list[CompletionRun] = []
    sides: tuple[tuple[Side, float], ...] = (("with", 0.020 / speedup), ("without", 0.020))
    for number in range(rounds):
        for slot in range(concurrency):
            for side, tpot in sides:
                took = 99 * tpot * float(rng.normal(1.0, 0.05))
                runs.append(CompletionRun(side, concurrency, number, slot, 0.1, 0.1 + took, 100, "the same"))
    return runs


def test_the_interval_holds_the_true_speedup_nineteen_times_of_twenty() -> None:
    """Of 200 measurements of 2.0 times as fast, at most 16 have an interval without it (95 % and its own chance)."""
    missed = 0
    for seed in range(200):
        (found,) = side_by_side.of(made(2.0, seed=seed), "m", 0.0, sampled=False).results
        missed += not found.low <= 2.0 <= found.high
    assert missed <= 16


def test_it_stops_paying_where_plain_is_faster_for_certain() -> None:
    """Faster at one request, slower at sixteen: that is where it stops paying."""
    runs = made(1.8, concurrency=1) + made(0.7, concurrency=16)
    found = side_by_side.of(runs, "m", 0.0, sampled=False)
    assert [each.concurrency for each in found.results] == [1, 16]
    assert found.stops_paying_at == 16


def test_one_round_has_no_interval() -> None:
    """A single turn of both sides says nothing of its scatter, and claims nothing."""
    found = side_by_side.of(made(0.5, rounds=1), "m", 0.0, sampled=False)
    assert found.results[0].high == math.inf
    assert found.stops_paying_at is None


def test_the_first_difference_of_greedy_outputs_is_shown() -> None:
    """Outputs that part after 'the ' are shown from there, with where it was."""
    runs = made(2.0, rounds=2, concurrency=1)
    runs[1] = CompletionRun("without", 1, 0, 0, 0.1, 1.0, 100, "the other")
    parity = side_by_side.of(runs, "m", 0.0, sampled=False).parity
    assert (parity.compared, parity.equal) == (2, 1)
    assert (
        parity.first_difference == "round 0, request 0, character 4: with speculation 'same', without 'other'"
    )


def test_sampled_outputs_are_compared_as_samples() -> None:
    """Lengths of one distribution pass; lengths that are half as long do not, and the power is said."""
    rng = np.random.default_rng(3)

    def runs(factor: float) -> list[CompletionRun]:
        sides: tuple[tuple[Side, float], ...] = (("with", factor), ("without", 1.0))
        return [
            CompletionRun(side, 1, n, 0, 0.1, 1.0, int(rng.geometric(0.01) * scale) + 2)
            for n in range(60)
            for side, scale in sides
        ]

    same = side_by_side.of(runs(1.0), "m", 0.0, sampled=True).parity
    shorter = side_by_side.of(runs(0.4), "m", 0.0, sampled=True).parity
    assert same.p_value > 0.05
    assert shorter.p_value < 0.05
    assert 0.0 < same.smallest_shift < 0.5


def test_the_file_gives_the_plain_steps_back() -> None:
    """What calibrate writes is what the settings read: the plain TPOT per concurrency is the plain step time."""
    text = json.dumps(
        side_by_side.as_json(side_by_side.of(made(2.0), "m", 5.0, sampled=False)), allow_nan=False
    )
    name, steps = side_by_side.plain_steps(json.loads(text))
    assert name == "m"
    assert [size for size, _, _ in steps] == [2.0]
    assert steps[0][1] == pytest.approx(0.020, rel=0.1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "read type None, format None, expected type 'calibration', format 1"),
        (
            {"type": "calibration", "format": 1, "results": []},
            "read no results, expected one per concurrency",
        ),
        (
            {"type": "calibration", "format": 1, "results": [{"concurrency": 0}]},
            "read the result {'concurrency': 0}, expected concurrency and plain_tpot_seconds above 0",
        ),
    ],
    ids=["another file", "empty", "impossible"],
)
def test_a_file_that_is_none_is_refused(given: dict[str, object], said: str) -> None:
    """The message says what was read and expected."""
    with pytest.raises(ValueError, match=re.escape(said)):
        side_by_side.plain_steps(given)
