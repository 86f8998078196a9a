"""A process that started again is told from a page that is only behind, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.counts import deltas, readings
from monitor.core.counts.deltas import Outcome
from monitor.core.pages.engines.base import UNKNOWN, Counter
from tests import made

if TYPE_CHECKING:
    from tests.made import Marks

COUNTED, BASE, HELD = Outcome.COUNTED, Outcome.BASE, Outcome.HELD


def read(drafts: list[float], marks: list[Marks] | None = None) -> tuple[list[Outcome], list[float], int]:
    """Return what became of pages with so many drafts, the drafts that were counted, and the restarts."""
    state, outcomes, counted = deltas.allocate(1, 8), [], []
    for number, total in enumerate(drafts):
        page = made.reading((total * 0.8, total * 0.6), drafts=total, **(marks[number] if marks else {}))
        now = readings.stack([page], np.array([15.0 * number]), np.full(1, UNKNOWN), 8)
        counts, (outcome,) = deltas.between(state, np.arange(1), now)
        outcomes.append(Outcome(outcome))
        counted += counts.values[:, Counter.DRAFTS].tolist()
    return outcomes, counted, int(state["restarts"][0])


@pytest.mark.parametrize(
    ("drafts", "outcomes", "counted", "restarts"),
    [
        pytest.param(
            [1000, 1100, 1050, 1200, 1300, 1260, 1400],
            [BASE, COUNTED, HELD, COUNTED, COUNTED, HELD, COUNTED],
            [100, 100, 100, 100],
            0,
            id="behind, good, behind again",
        ),
        pytest.param(
            [1000, 1100, 1050, 1200, 1150, 1300, 1250, 1400],
            [BASE, COUNTED, HELD, COUNTED, HELD, COUNTED, HELD, COUNTED],
            [100, 100, 100, 100],
            0,
            id="every other page behind",
        ),
        pytest.param(
            [1000, 1100, 900, 900, 900, 1200],
            [BASE, COUNTED, HELD, HELD, HELD, COUNTED],
            [100, 100],
            0,
            id="a cached page stands still",
        ),
        pytest.param(
            [1000, 1100, 900, 950, 1000],
            [BASE, COUNTED, HELD, COUNTED, COUNTED],
            [100, 950, 50],
            1,
            id="stays down and moves",
        ),
        pytest.param(
            [1000, 1100, 500, 600], [BASE, COUNTED, COUNTED, COUNTED], [100, 500, 100], 1, id="by half"
        ),
        pytest.param(
            [1000, 1100, 560, 1200], [BASE, COUNTED, HELD, COUNTED], [100, 100], 0, id="not by half"
        ),
    ],
)
def test_pages_without_a_start_time(
    drafts: list[float], outcomes: list[Outcome], counted: list[float], restarts: int
) -> None:
    """A page behind is held back and spanned; only a fall by half, or one that stays and moves, is a restart."""
    assert read(drafts) == (outcomes, counted, restarts)


def _since(*times: float) -> list[Marks]:
    return [{"started_at": at} for at in times]


@pytest.mark.parametrize(
    ("drafts", "marks", "outcomes", "counted"),
    [
        pytest.param(
            [1000, 1050, 1100], _since(5, 5.9, 6.8), [BASE, COUNTED, COUNTED], [50, 50], id="rounded"
        ),
        pytest.param(
            [1000, 1100, 300], _since(5, 5, 35), [BASE, COUNTED, COUNTED], [100, 300], id="a later start"
        ),
        pytest.param(
            [1000, 1100, 1200], _since(5, 5, 35), [BASE, COUNTED, COUNTED], [100, 1200], id="risen beyond"
        ),
        pytest.param(
            [1000, 1100, 1200], _since(5, 5, 2), [BASE, COUNTED, HELD], [100], id="an earlier start"
        ),
        pytest.param(
            [1000, 1100, 300, 400, 500],
            _since(5, 5, 5, 5, 5),
            [BASE, COUNTED, HELD, HELD, HELD],
            [100],
            id="the same",
        ),
    ],
)
def test_a_start_time_is_believed(
    drafts: list[float], marks: list[Marks], outcomes: list[Outcome], counted: list[float]
) -> None:
    """A start a second later is a restart, an earlier one another process, the same one denies a fall for long."""
    assert read(drafts, marks)[:2] == (outcomes, counted)


def test_a_start_time_is_not_believed_for_ever() -> None:
    """After twenty pages down there that move, the counters are believed against the start time's word."""
    drafts = [1000.0, 1100.0, *(300.0 + 10 * page for page in range(22))]
    outcomes, counted, restarts = read(drafts, _since(*[5.0] * len(drafts)))
    assert outcomes[2:22] == [HELD] * 20
    assert outcomes[22:] == [COUNTED] * 2
    assert (counted, restarts) == ([100, 500, 10], 1)
