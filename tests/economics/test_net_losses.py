"""A net loss is an event while decoding is proven to be slower than without speculation, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline
from monitor.core.economics import costs, payoff
from monitor.core.events import event_records
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence, Reading
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint
from monitor.core.streams.regimes import Declared
from monitor.core.streams.worth import Told

if TYPE_CHECKING:
    from monitor.core.events import Event

INTERVAL, BATCH, PLAIN = 30.0, 8.0, 0.010
COSTLY, GAINFUL = 0.030, 0.012
"""Step times at which a MAL of 2 gives 0.67 and 1.67 times the speed of plain steps of 10 ms."""
TOLD = {"": Told(plain_step_seconds=PLAIN, prices=costs.Prices(gpus_per_replica=2.0))}


class Engine:
    """Cumulative counters of one replica; MAL 2 while it drafts, its steps as long as it is told."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.counters = np.zeros(NUM_COUNTERS)

    def scrape(self, at: float, step_seconds: float, *, speculating: bool = True) -> Scrape:
        """The page after one more interval in which it decoded half of the time."""
        steps = INTERVAL / 2.0 / step_seconds
        outputs = steps * BATCH
        grown = {
            Counter.ENGINE_STEPS: steps,
            Counter.DECODE_OUTPUTS: outputs,
            Counter.DECODE_SECONDS: outputs * step_seconds * (1.0 + 0.001 * (at % 90 / 90)),
            Counter.GENERATION_TOKENS: outputs * (2.0 if speculating else 1.0),
        }
        if speculating:
            grown |= {
                Counter.DRAFTS: outputs,
                Counter.DRAFT_TOKENS: 4 * outputs,
                Counter.ACCEPTED_TOKENS: outputs,
            }
        for counter, value in grown.items():
            self.counters[counter] += value
        reading = Reading(
            "m", "0", Evidence.STEPS, tuple(self.counters.tolist()), (), 4 if speculating else 0, speculating
        )
        return Scrape(self.target, at, readings=(reading,))


Phase = tuple[float, float, bool]
"""Seconds, step time, whether it speculates."""


def seen(
    *phases: Phase,
    told: dict[str, Told] | None = None,
    beside: bool = False,
    declared: dict[str, Declared] | None = None,
    apart: bool = False,
    cut: float = -1.0,
) -> list[Event]:
    """The net losses that phases bring; `beside`: with a plain replica; `apart`: page by page; `cut`: a restart."""
    plan = pipeline.Plan(told=TOLD if told is None else told, declared=declared or {})
    found: list[Event] = []
    state, at = pipeline.begin(plan), 0.0
    one, other = Engine("one"), Engine("other")
    for length, step_seconds, speculating in phases:
        for _ in range(int(length / INTERVAL)):
            at += INTERVAL
            pages = [one.scrape(at, step_seconds, speculating=speculating)]
            pages += [other.scrape(at, PLAIN, speculating=False)] if beside else []
            for batch in [[page] for page in pages] if apart else [pages]:
                found += pipeline.step(plan, state, batch).events
            if at == cut:
                state = checkpoint.thaw(plan, checkpoint.freeze(state))
    return [event for event in found if event.kind == "net_loss"]


def test_it_opens_after_a_quarter_of_an_hour_and_closes_after_another() -> None:
    """MAL 2 in the time of three plain steps is a loss; back at 12 ms it is over, and the texts say both."""
    opened, closed = seen((1800.0, COSTLY, True), (1800.0, GAINFUL, True))
    assert (opened.status, opened.severity, closed.status) == ("open", "warning", "closed")
    assert opened.raised_at <= 1200.0
    assert opened.change_point_at <= opened.raised_at
    assert 1800.0 < (closed.closed_at or 0.0) <= 1800.0 + 1500.0
    assert opened.id == closed.id
    assert "costs you: 0.67×" in opened.facts[0]
    assert "pays" in closed.facts[-1]


def test_it_says_what_it_costs_against_plain_decoding() -> None:
    """Half of two GPUs' time, of which a third would do without the draft: 8 GPU-hours a day."""
    cost = seen((1800.0, COSTLY, True))[0].cost
    assert cost.tpot_ratio == pytest.approx(1.5, rel=0.01)
    assert cost.gpu_hours_per_day == pytest.approx(2 * 0.5 / 3 * 24, rel=0.01)
    assert event_records.as_json(seen((1800.0, COSTLY, True))[0])["kind"] == "net_loss"


def test_speculation_that_pays_or_is_even_is_none() -> None:
    """At 1.67 times, and within 5 % of plain decoding, nothing opens."""
    assert seen((3600.0, GAINFUL, True)) == []
    assert seen((3600.0, 0.0205, True)) == []


def test_without_a_plain_step_time_nothing_is_claimed() -> None:
    """Nobody told and nothing learnt: slow or not, it cannot be said."""
    assert seen((3600.0, COSTLY, True), told={}) == []


def test_a_stream_without_speculation_has_none() -> None:
    """Plain decoding costs nothing against itself, however slow; switching off ends an open event with a word."""
    assert seen((3600.0, COSTLY, False)) == []
    closed = seen((1800.0, COSTLY, True), (900.0, PLAIN, False))[-1]
    assert closed.status == "closed"
    assert "switched off" in closed.facts[-1]


def test_a_plain_replica_beside_it_proves_it_however_pages_are_batched() -> None:
    """With nothing told the replica's steps are the measure; one by one or together, the same event to the byte."""
    together, apart = (
        seen((2700.0, COSTLY, True), told={}, beside=True, apart=each) for each in (False, True)
    )
    assert [event_records.as_json(each) for each in together] == [
        event_records.as_json(each) for each in apart
    ]
    assert payoff.ORIGINS["replica"] in together[0].facts[0]


def test_a_replica_on_other_hardware_proves_nothing() -> None:
    """Where labels say that the plain replica runs on other GPUs, its step time is not this stream's."""
    labels = {name: Declared(labels=(("gpu", gpu),)) for name, gpu in (("one", "h100"), ("other", "l4"))}
    assert seen((2700.0, COSTLY, True), told={}, beside=True, declared=labels) == []


def test_a_restart_of_specmon_changes_nothing() -> None:
    """Saved and restored before and after it opens, the same events come."""
    phases = ((1800.0, COSTLY, True), (1800.0, GAINFUL, True))
    whole = [event_records.as_json(each) for each in seen(*phases)]
    for cut in (600.0, 1500.0):
        assert [event_records.as_json(each) for each in seen(*phases, cut=cut)] == whole
