"""What counts are worth as evidence depends on how the engine counts: at each step, or when a request ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import base
from monitor.core.detectors.measures import evidence
from monitor.core.pages.engines.base import Counter, Evidence
from tests.detectors import simulated

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts

SHARES = np.array([0.7, 0.5, 0.3])
FINISHED_UNKNOWN = float("nan")


def trials(drafts: float, kind: Evidence, finished: float = FINISHED_UNKNOWN) -> evidence.Trials:
    """Return the trials of one interval of one stream."""
    return evidence.from_counts(lump([drafts], kind, finished), np.full(1, np.nan))


def lump(drafts: list[float], kind: Evidence, finished: float = FINISHED_UNKNOWN) -> Counts:
    """Return the counts of one interval, with so many requests that ended in it."""
    each = np.array(drafts)
    counts = simulated.counts(simulated.START, 15.0, each, each[:, None] * SHARES)
    counts.values[:, Counter.FINISHED_REQUESTS] = finished
    return replace(counts, evidence=np.full(len(drafts), int(kind)))


@pytest.mark.parametrize(
    ("kind", "finished", "worth"),
    [
        (Evidence.STEPS, FINISHED_UNKNOWN, 6400.0),
        (Evidence.STEPS, 2.0, 6400.0),
        (Evidence.ITERATIONS, FINISHED_UNKNOWN, 6400.0),
        (Evidence.GAUGE, FINISHED_UNKNOWN, 6400.0),
        (Evidence.REQUEST_END, 2.0, 128.0),
        (Evidence.REQUEST_END, 500.0, 6400.0),
        (Evidence.REQUEST_END, FINISHED_UNKNOWN, 640.0),
        (Evidence.REQUEST_END, 0.0, 64.0),
    ],
    ids=[
        "each step",
        "each step, requests known",
        "iterations",
        "gauge, as many as it was given",
        "two requests ended",
        "more requests than their drafts need",
        "between one request and a hundred",
        "no request ended, says the page",
    ],
)
def test_drafts_of_ended_requests_are_worth_the_requests(
    kind: Evidence, finished: float, worth: float
) -> None:
    """6,400 drafts count as all of them, or as no more than the requests that brought them."""
    found = trials(6400.0, kind, finished)
    assert found.drafts[0] == pytest.approx(worth)
    assert found.proposed[0] == 6400.0


@pytest.mark.parametrize("kind", [Evidence.STEPS, Evidence.REQUEST_END], ids=["steps", "lump"])
def test_weighing_leaves_the_rates_alone(kind: Evidence) -> None:
    """The share accepted is the same, in total and at each position, whatever the drafts are worth."""
    found = trials(6400.0, kind)
    tried, kept = found.sums[0, base.TRIALS][:3], found.sums[0, base.SUCCESSES][:3]
    assert kept / tried == pytest.approx(SHARES / np.array([1.0, 0.7, 0.5]))
    assert found.accepted[0] / found.drafts[0] == pytest.approx(SHARES.sum())


def test_small_lumps_count_in_full() -> None:
    """A request with few drafts is worth its drafts."""
    assert trials(40.0, Evidence.REQUEST_END).drafts[0] == 40.0


def test_what_is_usual_counts_in_full() -> None:
    """Lumps of a stream's usual size fill its buckets as any drafts do; a giant among them counts for its worth."""
    bucket = np.zeros(1, evidence.DTYPE)
    gained = []
    for drafts in [500.0] * 50 + [50_000.0]:
        bucket["sums"] = 0.0
        evidence.gather(bucket, trials(drafts, Evidence.REQUEST_END))
        gained.append(float(bucket["sums"][0, base.DRAFTS]))
    assert gained[-2] == pytest.approx(500.0, rel=0.05)
    assert gained[-1] == pytest.approx(64.0 * (50_000.0 / 64.0) ** 0.5)


@pytest.mark.parametrize(
    "column", [Counter.DRAFTS, Counter.ACCEPTED_TOKENS], ids=["drafts", "accepted tokens"]
)
def test_unknown_counts_are_no_trials(column: Counter) -> None:
    """Drafts whose fate the page does not say are not drafts of which nothing was accepted."""
    counts = lump([6400.0], Evidence.STEPS)
    counts.values[:, column] = np.nan
    found = evidence.from_counts(counts, np.full(len(counts.rows), np.nan))
    assert not found.sums.any()
    assert (found.drafts[0], found.accepted[0]) == (0.0, 0.0)


def test_drafts_with_an_unknown_fate_are_neither_dead_nor_silent() -> None:
    """An engine that goes on drafting while its count of accepted tokens is away raises nothing."""
    watch = simulated.watched()
    for step in range(60):
        counts = lump([1000.0], Evidence.STEPS)
        counts.values[:, Counter.GENERATION_TOKENS] = 2500.0
        if step >= 20:
            counts.values[:, Counter.ACCEPTED_TOKENS] = np.nan
        watch.see([replace(counts, at=counts.at + 15.0 * step)])
    assert watch.alarms == []


def test_a_page_without_drafts_is_not_a_silent_engine() -> None:
    """Unknown drafts are no proof that nothing was drafted; zero drafts while tokens flow are."""
    raised = []
    for drafts in (np.nan, 0.0):
        watch = simulated.watched()
        for step in range(60):
            counts = lump([1000.0 if step < 20 else drafts], Evidence.STEPS)
            counts.values[:, Counter.GENERATION_TOKENS] = 2500.0
            watch.see([replace(counts, at=counts.at + 15.0 * step)])
        raised.append([alarm.kind for alarm in watch.alarms])
    assert raised == [[], ["speculation_silent"]]


def requests(drafts: float, steps: int, *, falls_by: float = 0.0, seed: int = 1) -> list[Counts]:
    """Return the lumps of a small server: lengths and moods of requests differ widely; a fall halfway."""
    rng, streams = np.random.default_rng(seed), 8
    found = []
    for step in range(steps):
        ended = rng.poisson(2.0, streams)
        total, accepted = np.zeros(streams), np.zeros((streams, 3))
        for stream, number in enumerate(ended):
            lengths = np.clip(rng.lognormal(np.log(drafts), 1.2, number), 5, 50 * drafts).astype(int)
            logit = 1.1 + 0.4 * rng.normal(size=number) - falls_by * (step >= steps // 2)
            kept = lengths
            total[stream] += lengths.sum()
            for position in range(3):
                kept = rng.binomial(kept, 1.0 / (1.0 + np.exp(-logit)))
                accepted[stream, position] += kept.sum()
        counts = simulated.counts(simulated.START + 15.0 * step, 15.0, total, accepted)
        found.append(replace(counts, evidence=np.full(streams, int(Evidence.REQUEST_END))))
    return found


def test_requests_of_all_lengths_are_no_alarm() -> None:
    """Eight streams of lumps for ten hours, requests from five to thousands of drafts: no warning, no page."""
    watch = simulated.watched(8)
    watch.see(requests(150.0, 2400))
    assert [alarm for alarm in watch.alarms if alarm.severity != "info"] == []


def test_a_fall_shows_in_lumps() -> None:
    """All of eight streams of lumps fall by one logit and are found within ten minutes."""
    watch = simulated.watched(8)
    watch.see(requests(150.0, 1200, falls_by=1.0))
    opened = [alarm for alarm in watch.alarms if alarm.action == "open" and alarm.severity != "info"]
    began = simulated.START + 600 * 15.0
    assert {alarm.index for alarm in opened} == set(range(8))
    assert max(alarm.raised_at for alarm in opened) - began < 600.0


def test_a_dead_draft_shows_in_lumps() -> None:
    """Nothing accepted in the first lump of a stream is a dead draft, from 40 drafts on."""
    watch = simulated.watched()
    counts = lump([1500.0], Evidence.REQUEST_END)
    counts.values[:, Counter.ACCEPTED_TOKENS] = 0.0
    watch.see([replace(counts, accepted=np.zeros_like(counts.accepted))])
    assert [alarm.kind for alarm in watch.alarms] == ["dead_draft"]
