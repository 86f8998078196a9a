"""A simulated day before the demo goes live, through the same `pipeline.step`: its past is in the store.

Minutes of a minute are simulated request by request, some for each phase of the day, with what the page
counts in them; the day draws from these. So a minute of the past is a minute of the live simulation, and a
day costs seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events, pipeline, streams
from monitor.core.pages import looks
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint, history
from monitor.core.vocabulary import STATES
from monitor.service.demo import story
from monitor.service.demo.engine import WARM_UP_SECONDS, Phase, Scenario, SimulatedEngine
from monitor.service.demo.page import SimulatedPage
from monitor.web import states as shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from monitor.core.pages.engines.base import Reading
    from monitor.core.pipeline import Plan
    from monitor.service.demo.simulated_fleet import Member
    from monitor.store import Store

    Floats = npt.NDArray[np.float64]

STEP_SECONDS = 120.0
BLOCK_SECONDS = 60.0
BLOCKS = 6  # of each phase


@dataclass(frozen=True, slots=True)
class Minute:
    """What a minute adds: to the page's counts, to the counters and accepted positions read from the page."""

    counts: Floats
    counters: Floats
    accepted: Floats
    running: float

    def toward(self, other: Minute, share: float) -> Minute:
        """Return a minute with this share of another one's traffic."""
        kept = 1.0 - share
        return Minute(
            kept * self.counts + share * other.counts,
            kept * self.counters + share * other.counters,
            kept * self.accepted + share * other.accepted,
            kept * self.running + share * other.running,
        )


@dataclass(frozen=True, slots=True)
class Lived:
    """The pipeline's state after the day, the day's events as they last were, and its history."""

    state: streams.State
    events: Sequence[events.Event]
    buckets: Sequence[history.HistoryBucket]


class Minutes:
    """Minutes of each phase, simulated as they are asked for: the first `BLOCKS`, then one of these."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 1])
        self._made: dict[Phase, list[Minute]] = {}
        self._running: dict[Phase, Iterator[Minute]] = {}

    def draw(self, phase: Phase) -> Minute:
        """Return one of the phase's minutes."""
        key = replace(phase, start=-WARM_UP_SECONDS)
        made = self._made.setdefault(key, [])
        if len(made) == BLOCKS:
            return made[int(self._rng.integers(BLOCKS))]
        if key not in self._running:
            self._running[key] = self._simulated(key)
        made.append(next(self._running[key]))
        return made[-1]

    def _simulated(self, phase: Phase) -> Iterator[Minute]:
        engine = SimulatedEngine(Scenario("", "simulated", (phase,)), self._rng)
        page = SimulatedPage(engine, "simulated", 1.0)
        before = page.counts(), reading_of(page, phase.version)
        for number in count(1):
            engine.advance(number * BLOCK_SECONDS)
            after = page.counts(), reading_of(page, phase.version)
            yield _between(*before, *after)
            before = after


def _between(counts: Floats, reading: Reading, counts_after: Floats, after: Reading) -> Minute:
    return Minute(
        counts_after - counts,
        np.subtract(after.counters, reading.counters),
        np.subtract(after.accepted, reading.accepted),
        after.running,
    )


def reading_of(page: SimulatedPage, version: str) -> Reading:
    """Return what the monitor reads from the page."""
    beside = {"/version": f'{{"version": "{version}"}}'.encode()}
    (reading,) = looks.read(looks.Memory(), page.render(), beside).readings
    return replace(reading, engine="vllm")


class Life:
    """One engine's day: what its page counts, and what is read from it, minute by minute."""

    def __init__(self, member: Member, blocks: Minutes, end: float, seconds: float) -> None:
        self._member, self._blocks, self._end = member, blocks, end
        self._phases = member.scenario.day
        started = end - seconds - WARM_UP_SECONDS
        member.page.restarted(started)
        first = reading_of(member.page, self._phases[0].version)
        self._reading = replace(first, started_at=started, created_at=started)
        self._counts = member.page.counts()
        self._counters, self._accepted = np.array(first.counters), np.array(first.accepted)

    def scrape(self, now: float) -> Scrape:
        """Live through the two minutes before `now` and return the look at their end."""
        begun = now - STEP_SECONDS - self._end
        number = bisect_right(self._phases, begun + 1e-6, key=lambda each: each.start) - 1
        phase, following = self._phases[number], self._phases[min(number + 1, len(self._phases) - 1)]
        if phase.version != self._reading.engine_version:
            self._restart(phase.version, now - STEP_SECONDS)
        running = 0.0
        for _ in range(round(STEP_SECONDS / BLOCK_SECONDS)):
            block = self._blocks.draw(phase)
            if phase.slides:
                share = (begun - phase.start) / (following.start - phase.start)
                block = block.toward(self._blocks.draw(following), share)
            self._counts += block.counts
            self._counters += block.counters
            self._accepted += block.accepted
            running = block.running
        reading = replace(
            self._reading,
            counters=tuple(self._counters.tolist()),
            accepted=tuple(self._accepted.tolist()),
            running=running,
        )
        return Scrape(self._member.scenario.name, now, readings=(reading,))

    def _restart(self, version: str, begun: float) -> None:
        self._reading = replace(self._reading, engine_version=version, started_at=begun, created_at=begun)
        self._member.page.restarted(begun)
        for counted in (self._counts, self._counters, self._accepted):
            counted[:] = np.where(np.isnan(counted), math.nan, 0.0)

    def end(self) -> None:
        """Have the live page go on where the day ended."""
        self._member.page.set_counts(self._counts)


def live_through(
    plan: Plan,
    members: Sequence[Member],
    seed: int,
    end: float,
    tell: Callable[[float], None],
    seconds: float = story.DAY_SECONDS,
) -> Lived:
    """Return what the `seconds` before `end` (unix seconds) left behind.

    `tell` is told the share of it that is over. The members' pages go on from there.
    """
    plan = replace(plan, limits=replace(plan.limits, scrape_interval=STEP_SECONDS))
    state, recorder = pipeline.begin(plan), history.Recorder()
    found: dict[str, events.Event] = {}
    buckets: list[history.HistoryBucket] = []
    blocks = Minutes(seed)
    lives = [Life(member, blocks, end, seconds) for member in members]
    looks_of_day = round(seconds / STEP_SECONDS)
    for number in range(1, looks_of_day + 1):
        at = end - (looks_of_day - number) * STEP_SECONDS
        step = pipeline.step(plan, state, [life.scrape(at) for life in lives])
        found |= {event.id: event for event in step.events}
        streams.note_states(state, at, plan.limits)
        taken = recorder.take(state, STATES, at)
        buckets += [*taken, *history.of_models(state, taken, tuple(shown.STATES))]
        tell(number / looks_of_day)
    for life in lives:
        life.end()
    return Lived(state, list(found.values()), buckets)


def save(kept: Store, lived: Lived) -> None:
    """Put a past into the store, from which the service begins."""
    kept.save(checkpoint.freeze(lived.state), lived.events, lived.buckets)
