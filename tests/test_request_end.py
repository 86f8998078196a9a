"""Counters that move when a request ends: how sure their estimates may be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline
from monitor.core.counts import estimates, windows
from monitor.core.pages.engines.base import Counter, Evidence
from monitor.sources import folders
from tests import made

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts

CAPTURES = Path(__file__).parents[2] / "shared" / "captures" / "llama.cpp-b11549"
DIALLED = (0.7, 0.49, 0.343, 0.24)
NUM_POSITIONS = 8
QUIET_RUNS = (
    "xll-draft-long-requests",
    "xll-draft-text-code-text",
    "xll-ngram-simple-repeat-to-random",
    "xll-synth-70",
)


def run(name: str) -> list[Counts]:
    """Return the counts of a recorded llama.cpp run, page by page; the run must raise nothing."""
    if not (CAPTURES / name).is_dir():
        pytest.skip(f"the whole captures are not beside this repository ({CAPTURES.parent.name}/{name})")
    pages, _ = folders.scrapes(CAPTURES / name)
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    found = []
    for page in pages:
        step = pipeline.step(plan, state, [page])
        assert step.events == ()
        found += [observation.counts for observation in step.observations]
    return found


def over(counts: list[Counts]) -> estimates.Estimates:
    """Return the estimates over these intervals."""
    state = np.zeros(1, windows.dtype(1, counts[0].accepted.shape[1]))
    for each in counts:
        windows.add(state, each, (1e6,))
    return estimates.from_sums(windows.total(state))


@pytest.mark.parametrize("name", QUIET_RUNS)
def test_short_runs_raise_nothing(name: str) -> None:
    """One or two minutes of lumps of a real server are too little for an alarm."""
    run(name)


@pytest.mark.parametrize("pages", [2, 5, 10, 25], ids=lambda pages: f"{pages} pages")
def test_intervals_hold_the_dialled_in_acceptance(pages: int) -> None:
    """Any so many pages in a row of a real server give an interval that holds what it was told to accept."""
    counts = [each for each in run("xll-synth-70") if each.values[0, Counter.DRAFTS] > 0]
    truth = 1.0 + sum(DIALLED)
    held, widths = [], []
    for start in range(len(counts) - pages):
        seen = over(counts[start : start + pages])
        held.append(seen.mal_low[0] <= truth <= seen.mal_high[0])
        widths.append(seen.mal_high[0] - seen.mal_low[0])
    assert np.mean(held) >= 0.9
    assert np.mean(widths) < 5.0 / pages


def test_two_long_requests_are_two_requests() -> None:
    """3,000 drafts in two lumps leave the level open to a tenth of what they were accepted."""
    seen = over(run("xll-draft-long-requests"))
    assert (seen.mal_high[0] - seen.mal_low[0]) / (seen.mal[0] - 1.0) > 0.5


@pytest.mark.parametrize("finished", [None, 2.0], ids=["uncounted", "counted"])
def test_a_lump_is_one_request_until_more_are_counted(finished: float | None) -> None:
    """3,000 drafts credited at once tell as little as one request, or as the two that the page counts."""
    more = {} if finished is None else {Counter.FINISHED_REQUESTS: [finished]}
    live = made.counts([[2400, 1800, 1300]], [3000.0], more=more)
    lump = replace(live, evidence=np.array([int(Evidence.REQUEST_END)]))
    one = estimates.from_sums(made.sums(lump))
    many = estimates.from_sums(made.sums(live))
    width = one.mal_high[0] - one.mal_low[0]
    assert width > 2.0 * (many.mal_high[0] - many.mal_low[0])
    assert (width > 2.3) == (finished is None)


@pytest.mark.parametrize("per_interval", [0.3, 2.0, 20.0], ids=["rare", "some", "busy"])
def test_intervals_cover(per_interval: float) -> None:
    """Simulated lumps: over 5 and 20 minutes the 95 % intervals hold the truth in 90 % of streams and more."""
    rng, streams = np.random.default_rng(20261129), 200
    state = np.zeros(streams, windows.dtype(1, NUM_POSITIONS))
    population = rng.beta(14.0, 6.0, 200_000)
    lengths = np.clip(rng.lognormal(np.log(150.0), 0.8, 200_000), 5, 5000).astype(int)
    truth = 1.0 + sum(float(np.average(population ** (j + 1), weights=lengths)) for j in range(4))
    for n in range(1, 81):
        drafts, accepted = np.zeros(streams), np.zeros((streams, 4))
        for stream, number in enumerate(rng.poisson(per_interval, streams)):
            chosen = rng.integers(0, len(lengths), number)
            kept = lengths[chosen]
            drafts[stream] = kept.sum()
            for j in range(4):
                kept = rng.binomial(kept, population[chosen])
                accepted[stream, j] = kept.sum()
        counts = made.counts(accepted, drafts, at=15.0 * n, num_positions=NUM_POSITIONS)
        windows.add(state, replace(counts, evidence=np.full(streams, int(Evidence.REQUEST_END))), (1e6,))
        if n in (20, 80):
            seen = estimates.from_sums(windows.total(state))
            some = seen.drafts > 0
            assert np.mean((seen.mal_low <= truth)[some] & (truth <= seen.mal_high)[some]) >= 0.9, n
            half = np.mean((seen.mal_high - seen.mal_low)[some]) / 2
            assert half < 2.5 * 1.96 * float(seen.mal[some].std()), n
