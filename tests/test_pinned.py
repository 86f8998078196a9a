"""What the operator pinned is held against each stream: below it with proof is an event, and it is never learnt away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline
from monitor.core.events import event_records
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint, closeups, pinned
from monitor.core.streams.pinned import Pinned
from tests import made

if TYPE_CHECKING:
    from monitor.core.events import Event

INTERVAL = 60.0
GOLDEN = (0.8, 0.8, 0.7)
"""Conditional acceptance that is expected: marginal 0.8, 0.64, 0.448, MAL 2.888."""
POOR = (0.7, 0.7, 0.6)
"""MAL 2.484: 21 % of the benefit is missing."""
PIN = Pinned(2.888, 0.1, "the benchmark of release 1.4", (0.8, 0.64, 0.448))


class Stream:
    """The pages of one stream of 400 drafts an interval, whose level wanders by 0.05 logits from page to page."""

    def __init__(self, drafts: int = 400, seed: int = 7) -> None:
        self.random = np.random.default_rng(seed)
        self.drafts, self.each = 0.0, drafts
        self.accepted = np.zeros(3)
        self.at = made.START

    def pages(self, hours: float, rates: tuple[float, ...], k: int = 3) -> list[Scrape]:
        """The next pages; `rates` are conditional."""
        found = []
        for _ in range(int(hours * 3600.0 / INTERVAL)):
            odds = np.array(rates) / (1.0 - np.array(rates)) * np.exp(self.random.normal(0.0, 0.05))
            kept = self.each
            self.drafts += kept
            for position, rate in enumerate((odds / (1.0 + odds))[:k]):
                kept = int(self.random.binomial(kept, rate))
                self.accepted[position] += kept
            self.at += INTERVAL
            reading = made.reading(self.accepted[:k].tolist(), drafts=self.drafts)
            found.append(Scrape("t", self.at, readings=(reading,)))
        return found


def seen(pages: list[Scrape], *pins: Pinned, cut: int = -1) -> list[Event]:
    """The events of pages where these are pinned; the state is saved and restored after `cut` pages."""
    plan = pipeline.Plan(pinned={made.MODEL_NAME: pins})
    state = pipeline.begin(plan)
    found: list[Event] = []
    for number, page in enumerate(pages):
        found += pipeline.step(plan, state, [page]).events
        if number == cut:
            state = checkpoint.thaw(plan, checkpoint.freeze(state))
    return found


def of_reference(told: list[Event]) -> list[Event]:
    """Those of what is pinned."""
    return [event for event in told if event.kind == pinned.KIND]


def test_a_stream_that_begins_below_is_an_event_within_the_hour() -> None:
    """Nothing changed and nothing was learnt: what is pinned alone says that this is too little, with both numbers."""
    (event,) = seen(Stream().pages(1.0, POOR), PIN)
    assert (event.kind, event.severity, event.status) == ("below_reference", "warning", "open")
    assert event.raised_at - made.START <= 1200.0
    assert event.before.mal == pytest.approx(2.888)
    assert event.after.mal == pytest.approx(2.484, abs=0.06)
    assert event.cost.benefit_lost_ratio == pytest.approx(0.21, abs=0.04)
    assert "MAL 2.89, at least 2.70, from the benchmark of release 1.4" in event.facts[0]
    assert event_records.as_json(event)["kind"] == "below_reference"


def test_it_lasts_however_long_the_stream_stays_there_and_over_a_restart() -> None:
    """Three hours at the poor level teaches the baseline, and not what is pinned: the event stays, until it is reached."""
    stream = Stream()
    told = seen([*stream.pages(3.0, POOR), *stream.pages(1.0, GOLDEN)], PIN, cut=100)
    opened, closed = of_reference(told)
    assert (opened.status, closed.status, closed.id) == ("open", "closed", opened.id)
    assert 10_800.0 < (closed.closed_at or 0.0) - made.START <= 10_800.0 + 1200.0
    assert closed.facts[-1].endswith("reaches it")


def test_a_stream_at_it_or_within_the_tolerance_is_none() -> None:
    """Three hours at the reference, and 5 % of the benefit below it, raise nothing."""
    assert seen(Stream().pages(3.0, GOLDEN), PIN) == []
    assert seen(Stream(seed=8).pages(3.0, (0.785, 0.785, 0.685)), PIN) == []


def test_a_slow_stream_is_told_by_the_window_of_an_hour() -> None:
    """With few drafts five minutes prove nothing, an hour does."""
    (event,) = of_reference(seen(Stream(drafts=40, seed=9).pages(3.0, POOR), PIN))
    assert event.after.drafts >= pinned.LEAST_DRAFTS


def test_a_fall_that_is_told_already_is_not_told_twice() -> None:
    """From the reference down: the drop is the event, what is pinned adds none while that is open."""
    stream = Stream()
    told = seen([*stream.pages(2.0, GOLDEN), *stream.pages(1.0, (0.55, 0.5, 0.4))], PIN)
    assert {event.kind for event in told if event.status == "open"} & {"drop", "collapse"}
    assert of_reference(told) == []


def test_what_is_pinned_for_another_k_is_no_measure() -> None:
    """A reference of k 5 says nothing of drafts of 3; the one of the stream's own k goes before that of any."""
    five = Pinned(3.6, 0.1, num_speculative_tokens=5)
    assert seen(Stream().pages(1.0, POOR), five) == []
    low = Pinned(2.4, 0.1, num_speculative_tokens=3)
    assert seen(Stream().pages(1.0, POOR), five, low, Pinned(2.888, 0.1)) == []


def test_positions_that_both_have_are_compared() -> None:
    """Drafts of two tokens are held against the first two pinned positions, not against a MAL of three."""
    assert seen(Stream().pages(1.0, GOLDEN, k=2), PIN) == []
    (event,) = seen(Stream().pages(1.0, POOR, k=2), PIN)
    assert event.before.mal == pytest.approx(1.0 + 0.8 + 0.64)


def test_it_closes_when_nothing_is_pinned_any_more() -> None:
    """Settings that are read again without the reference end its event, with a word why."""
    plan = pipeline.Plan(pinned={made.MODEL_NAME: (PIN,)})
    state, stream = pipeline.begin(plan), Stream()
    told = [event for page in stream.pages(0.5, POOR) for event in pipeline.step(plan, state, [page]).events]
    later = [
        event
        for page in stream.pages(0.2, POOR)
        for event in pipeline.step(pipeline.Plan(), state, [page]).events
    ]
    assert [event.status for event in (*told, *later)] == ["open", "closed"]
    assert later[0].facts[-1] == "nothing is pinned for what it runs now"


def test_the_close_look_tells_it() -> None:
    """The stream's own page has the reference, its source and how the last hour stands against it."""
    plan = pipeline.Plan(pinned={made.MODEL_NAME: (PIN,)})
    state, stream = pipeline.begin(plan), Stream()
    for page in stream.pages(1.0, POOR):
        pipeline.step(plan, state, [page])
    told = closeups.of_row(plan, state, 0, stream.at, 200.0)["pinned"]
    assert isinstance(told, dict)
    assert (told["mal"], told["outcome"], told["source"]) == (2.888, "below", "the benchmark of release 1.4")
    assert closeups.of_row(pipeline.Plan(), state, 0, stream.at, 200.0)["pinned"] is None


def test_how_scrapes_are_batched_changes_nothing() -> None:
    """Two streams page by page or together: the same events."""
    one, two = Stream().pages(0.5, POOR), Stream(seed=11).pages(0.5, POOR)
    renamed = [Scrape("u", page.at, readings=page.readings) for page in two]
    plan = pipeline.Plan(pinned={made.MODEL_NAME: (PIN,)})
    alone, together = pipeline.begin(plan), pipeline.begin(plan)
    apart: list[Event] = []
    at_once: list[Event] = []
    for pair in zip(one, renamed, strict=True):
        for page in pair:
            apart += pipeline.step(plan, alone, [page]).events
        at_once += pipeline.step(plan, together, list(pair)).events
    assert [event_records.as_json(each) for each in apart] == [
        event_records.as_json(each) for each in at_once
    ]
    assert len(apart) == 2
