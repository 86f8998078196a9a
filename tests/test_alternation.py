"""Several processes behind one address are told from restarts: said, not judged, and no event is false."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from monitor.core import pipeline
from monitor.core.pages.scrapes import Scrape
from tests import made

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from monitor.core.events import Event
    from monitor.core.streams import State

PLAN = pipeline.Plan()


class Worker:
    """A process with counters of its own."""

    def __init__(self, drafts: int, acceptance: float, started_at: float | None = None) -> None:
        self.drafts, self.acceptance, self.started_at = drafts, acceptance, started_at

    def page(self) -> bytes:
        """The page now."""
        accepted = [round(self.drafts * self.acceptance**position) for position in (1, 2, 3)]
        tokens = {"generation_tokens_total": float(self.drafts + sum(accepted))}
        return made.page(accepted, drafts=self.drafts, more=tokens, started_at=self.started_at)


def watched(workers: Sequence[Worker], turns: Iterable[int], each: int = 600) -> tuple[State, list[Event]]:
    """The state and all events where worker `turns[n]` answers look n; all of them work all the time."""
    state = pipeline.begin(PLAN)
    found: list[Event] = []
    for number, turn in enumerate(turns):
        for worker in workers:
            worker.drafts += each
        look = Scrape("t", made.START + made.INTERVAL * number, body=workers[turn].page())
        found += pipeline.step(PLAN, state, [look]).events
    return state, found


ALONE = [0] * 240
TURNS = {
    "two in turn": [0, 1] * 120,
    "four at random": random.Random(3).choices(range(4), k=240),
    "a long one, then two in turn": [*ALONE, *([1, 0] * 60)],
    "each for ten pages": [number // 10 % 2 for number in range(400)],
}
LEVELS = {"far": (900_000, 40_000, 300_000, 90_000), "near": (100_000, 99_500, 99_800, 100_200)}


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("name", TURNS)
def test_workers_in_turn_are_said_and_raise_nothing_else(name: str, levels: str) -> None:
    """Whoever answers when, however their counters and acceptance differ: impossible data is all that is told."""
    rates = (0.8, 0.5, 0.75, 0.3)
    workers = [Worker(count, rate) for count, rate in zip(LEVELS[levels], rates, strict=True)]
    _, events = watched(workers, TURNS[name])
    assert [event.kind for event in events if event.kind != "data_quality"] == []
    if name != "each for ten pages":  # whose counters are near: then one waits for the other, for a page
        assert "several processes answer in turn" in events[0].facts[0]


def test_workers_with_start_times_are_said_after_a_rollout_would_be_over() -> None:
    """An old process beside a new one is a rollout, for half an hour; longer, it is two workers."""
    workers = [Worker(900_000, 0.8, 1e9), Worker(40_000, 0.5, 1e9 + 60)]
    _, early = watched(workers, [0, 1] * 30)
    assert early == []
    _, late = watched(workers, [0, 1, 0] * 80)
    assert [event.kind for event in late] == ["data_quality"]


def test_one_process_that_begins_again_is_judged_on() -> None:
    """Restarts, young and old, far apart and near, without a start time, are no alternation."""
    generator = random.Random(7)
    worker, state = Worker(500_000, 0.8), pipeline.begin(PLAN)
    for number in range(2000):
        worker.drafts += 600
        if generator.random() < 0.01:
            worker.drafts = generator.randrange(600)
        look = Scrape("t", made.START + made.INTERVAL * number, body=worker.page())
        assert pipeline.step(PLAN, state, [look]).events == ()
        assert not state.ledger["several"].any()


def test_an_alternation_that_ends_is_over() -> None:
    """Once one process answers alone the event closes and acceptance is judged."""
    workers = [Worker(900_000, 0.8), Worker(40_000, 0.5)]
    _, events = watched(workers, [*([0, 1] * 20), *([0] * 60)])
    told = [(event.kind, event.status) for event in events]
    assert told == [("data_quality", "open"), ("data_quality", "closed")]
