"""What traffic explains is no warning, and never hides what it does not explain."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.counts import deltas
from monitor.core.detectors.measures import traffic
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter
from tests.detectors import simulated
from tests.detectors.simulated import Traffic, Watched, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Bools, Floats

HOUR = 240
DAY = 24 * HOUR
STREAMS = 3
SHORT, LONG = 500.0, 2000.0
SWING = -0.6
FINISHED = 40


def mixes(steps: int, seed: int) -> Bools:
    """Return when [T, B] prompts are long: for 40 minutes to two hours, then not for as long, never daily."""
    rng = np.random.default_rng(seed)
    long = np.zeros((steps, STREAMS), bool)
    for stream in range(STREAMS):
        step, now = 0, False
        while step < steps:
            length = int(rng.integers(HOUR * 2 // 3, 2 * HOUR))
            long[step : step + length, stream] = now
            step, now = step + length, not now
    return long


def mixed(
    long: Bools,
    swing: float,
    seed: int,
    lengths: Floats | None = None,
    change: Callable[[Floats], Floats] = lambda rate: rate,
    batch: float = 1.0,
) -> Iterator[Counts]:
    """Yield counts of traffic whose long prompts move acceptance by `swing` logits.

    lengths [T, B]: the mean prompt lengths that the page tells, None where it tells none.
    """
    rng = np.random.default_rng(seed + 100)
    steady = simulated.intervals(
        Traffic(),
        len(long),
        STREAMS,
        seed,
        lambda step, rate: change(simulated.some(long[step], shifted(rate.copy(), swing), rate)),
    )
    for step, counts in enumerate(steady):
        if lengths is not None:
            finished = rng.poisson(FINISHED, STREAMS)
            prompts = lengths[step] * finished * (1.0 + rng.normal(size=STREAMS) / np.sqrt(FINISHED))
            counts.values[:, Counter.FINISHED_REQUESTS] = finished
            counts.values[:, Counter.PROMPT_TOKENS] = prompts
            counts.values[:, Counter.ENGINE_STEPS] = 500.0
            counts.values[:, Counter.DECODE_OUTPUTS] = batch * 5000.0
        yield counts


def told(long: Bools) -> Floats:
    """Return the mean prompt lengths of a mix."""
    return np.where(long, LONG, SHORT)


def after(watch: Watched, news: Iterator[Counts], seconds: float) -> Watched:
    """Return what a copy of the streams says of later news."""
    later = Watched(watch.state.copy(), watch.plan)
    for counts in news:
        counts.at[:] += seconds
        later.see([counts])
    return later


@pytest.fixture(scope="module")
def learnt() -> Watched:
    """Streams that saw a day of a mix that the page tells of."""
    long = mixes(DAY, 1)
    return simulated.watched(STREAMS).see(mixed(long, SWING, 1, told(long)))


@pytest.fixture(scope="module")
def untold() -> Watched:
    """Streams that saw the same day, without counters that tell of it."""
    return simulated.watched(STREAMS).see(mixed(mixes(DAY, 1), SWING, 1))


def test_a_swing_of_the_mix_that_was_learnt_is_no_warning(learnt: Watched, untold: Watched) -> None:
    """Prompts that come and go, and acceptance with them, are said where no counter tells and not where one does."""
    long = mixes(12 * HOUR, 2)
    known = after(learnt, mixed(long, SWING, 2, told(long)), 15.0 * DAY)
    unknown = after(untold, mixed(long, SWING, 2), 15.0 * DAY)
    assert [alarm.kind for alarm in known.opened()] == []
    assert len(unknown.opened()) >= STREAMS


def test_a_drop_is_found_as_soon_as_without_traffic(learnt: Watched) -> None:
    """A drop that comes with the usual traffic is found within minutes, and nothing of it is explained."""
    short = np.zeros((HOUR, STREAMS), bool)
    before = after(learnt, mixed(short, SWING, 3, told(short)), 15.0 * DAY)
    drop = mixed(short, SWING, 4, told(short), lambda rate: shifted(rate, -0.5))
    found = after(before, drop, 15.0 * (DAY + HOUR)).opened("drop")
    assert {alarm.index for alarm in found} == set(range(STREAMS))
    assert max(alarm.raised_at for alarm in found) < simulated.START + 15.0 * (DAY + HOUR) + 600.0


def test_a_drop_beside_traffic_that_was_never_seen_is_found() -> None:
    """A jump of prompt lengths that no day has shown explains nothing of the drop that comes with it."""
    short = np.zeros((8 * HOUR, STREAMS), bool)
    watch = simulated.watched(STREAMS).see(mixed(short, SWING, 5, told(short)))
    short = short[:HOUR]
    raised = []
    for lengths in (told(short), np.full(short.shape, 8 * SHORT)):
        drop = mixed(short, SWING, 6, lengths, lambda rate: shifted(rate, -0.5))
        found = after(watch, drop, 15.0 * 8 * HOUR).opened("drop")
        assert {alarm.explained for alarm in found} == {0.0}
        raised.append([(alarm.index, alarm.raised_at) for alarm in found])
    assert raised[0] == raised[1]
    assert len(raised[0]) == STREAMS


def test_what_traffic_leaves_of_a_drop_is_raised_with_its_share(learnt: Watched) -> None:
    """A drop beside long prompts is found by what these do not explain, and says how much they do."""
    long = np.zeros((2 * HOUR, STREAMS), bool)
    long[HOUR:] = True
    watch = after(learnt, mixed(long[:HOUR], SWING, 7, told(long[:HOUR])), 15.0 * DAY)
    drop = mixed(long[HOUR:], SWING, 8, told(long[HOUR:]), lambda rate: shifted(rate, -0.4))
    alarms = after(watch, drop, 15.0 * (DAY + HOUR)).opened("drop")
    assert {alarm.index for alarm in alarms} == set(range(STREAMS))
    assert max(alarm.explained for alarm in alarms) < 0.0
    assert max(alarm.unexplained for alarm in alarms) < -0.2


def test_a_collapse_is_never_explained_away(learnt: Watched) -> None:
    """Acceptance that collapses while the batch grows threefold is a collapse at once."""
    long = np.ones((10, STREAMS), bool)
    dead = mixed(long, SWING, 9, told(long), lambda rate: rate * 0.1, batch=3.0)
    alarms = after(learnt, dead, 15.0 * DAY).opened()
    assert {(alarm.index, alarm.kind) for alarm in alarms} == {(row, "collapse") for row in range(STREAMS)}
    assert max(alarm.raised_at for alarm in alarms) <= simulated.START + 15.0 * (DAY + 4)


@pytest.mark.parametrize(
    ("score", "explained", "left"),
    [(-0.4, -0.3, -0.1), (-0.4, -0.6, 0.0), (-0.4, 0.3, -0.4), (0.4, 0.3, 0.1), (0.0, -0.3, 0.0)],
    ids=["a part", "more than all", "the other way", "a rise", "nothing to explain"],
)
def test_traffic_only_takes_from_a_deviation(score: float, explained: float, left: float) -> None:
    """What is explained makes a deviation smaller, never larger and never one to the other side."""
    found = traffic.left(np.array([score]), np.array([explained]), np.zeros(1))
    assert found[0] == pytest.approx(left)


def test_figures_that_the_page_does_not_tell_explain_nothing() -> None:
    """A page without the counters leaves the state of traffic as it was."""
    state = np.zeros(2, traffic.DTYPE)
    traffic.allocate(state)
    before = state.tobytes()
    traffic.gather(state, np.full((2, NUM_COUNTERS), np.nan))
    found = traffic.measure(state, np.full(2, 1e9), np.full(2, 1e9 - 15.0), np.ones(2, bool))
    assert (found == 0.0).all()
    assert state.tobytes() == before


def test_traffic_of_other_streams_changes_nothing() -> None:
    """Streams that are judged alone end in the state that they end in together, told of or not."""
    long = mixes(3 * HOUR, 10)
    news = list(mixed(long, SWING, 10, told(long)))
    for counts in news:
        counts.values[0, Counter.PROMPT_TOKENS] = np.nan
        counts.values[0, Counter.ENGINE_STEPS] = np.nan
    together = simulated.watched(STREAMS).see(news)
    for row in range(STREAMS):
        alone = simulated.watched(1).see(
            [deltas.select(counts, np.arange(STREAMS) == row) for counts in news]
        )
        assert alone.state.tobytes() == together.state[row : row + 1].tobytes()
