"""One simulated engine: request slots that decode with speculation, and the counters that come of it.

A slot is always in a request or between two. A request has a length, a prompt, and its own skill with the
draft (a shift of all conditional acceptances in logit), which is what makes real acceptance vary more than
the number of drafts explains. The clock of the simulation goes in ticks, so that a run depends on the seed
and the time that has passed, not on how often the page is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

VERSION = "0.32.0+simulated"
CYCLE_SECONDS = 1200.0  # then all that happens live happens again
IMPOSSIBLE_FACTOR = 6  # times as many tokens are claimed to be accepted as were

TICK_SECONDS = 0.25
STEPS_PER_TICK = 10
STEP_SECONDS = TICK_SECONDS / STEPS_PER_TICK
WARM_UP_SECONDS = 30.0  # simulated before the first page: no engine is watched from its first request on
PAUSE_TICKS = 2.0  # mean time between two requests of a slot
MEDIAN_TOKENS = 250.0
TOKENS_SPREAD = 0.7  # sd of the logarithm
SKILL_SPREAD = 0.15  # sd in logit, between requests
CACHED_SHARE = 0.3
PREFILL_TOKENS_PER_SECOND = 8000.0

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Phase:
    """What holds from `start` (seconds after the first page) until the next phase.

    `conditional` is the mean conditional acceptance of each position, `prompt_tokens` and `answer_tokens` the
    medians of new requests, `slots` how many requests run at most at a time. `version` is the engine's: where
    it is not that of the phase before, the engine restarts with it. `drafting` is False where tokens flow
    without a draft, `possible` False where the page claims more accepted tokens than were drafted. `slides`
    is True, in a day alone, where it goes over into the next phase bit by bit.
    """

    start: float
    conditional: tuple[float, ...]
    prompt_tokens: float = 300.0
    answer_tokens: float = MEDIAN_TOKENS
    slots: int = 24
    version: str = VERSION
    drafting: bool = True
    possible: bool = True
    slides: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One engine of the demo: how its target is called, the model it claims to serve, and what happens.

    `phases` are live and begin anew every `CYCLE_SECONDS`. `day` is what it lived through before, each phase
    from `start` seconds (negative) before the first page on.
    """

    name: str
    model_name: str
    phases: tuple[Phase, ...]
    day: tuple[Phase, ...] = ()


@dataclass(slots=True)
class SimulatedTotals:
    """What the engine has counted since its start; lists of observations wait to be put into histograms."""

    drafts: int = 0
    accepted: Floats = field(default_factory=lambda: np.zeros(0))
    steps: int = 0
    decode_outputs: int = 0
    decode_seconds: float = 0.0
    generation_tokens: int = 0
    prompt_tokens: float = 0.0
    running: int = 0
    started: list[tuple[float, float]] = field(default_factory=list)  # prompt tokens, seconds to first token
    finished: list[tuple[float, float, float]] = field(default_factory=list)  # prompt, output tokens, seconds


class SimulatedEngine:
    """The simulation of one scenario; `advance` moves it on, `totals` is what it has counted."""

    def __init__(self, scenario: Scenario, rng: np.random.Generator) -> None:
        slots = max(phase.slots for phase in scenario.phases)
        self._phases = scenario.phases
        self._rng = rng
        self.version = scenario.phases[0].version
        self.began_at = math.nan  # seconds after the first page, of the last restart; NaN before the first
        self._now = -WARM_UP_SECONDS
        self._left = np.zeros(slots)  # tokens until the request is done; 0 or less between requests
        self._made = np.zeros(slots)
        self._prompt = np.zeros(slots)
        self._begun = np.zeros(slots)
        self._skill = np.zeros(slots)
        self.totals = SimulatedTotals(accepted=np.zeros(len(scenario.phases[0].conditional)))
        self.advance(0.0)

    def advance(self, seconds: float) -> None:
        """Simulate up to `seconds` after the first page."""
        while self._now + TICK_SECONDS <= seconds:
            phase = self._phase()
            if phase.version != self.version:
                self._restart(phase.version)
            self._begin_requests(phase)
            self._decode(phase)
            self._now += TICK_SECONDS

    def _phase(self) -> Phase:
        within = self._now % CYCLE_SECONDS if self._now >= 0 else self._now
        begun = [phase for phase in self._phases if phase.start <= within]
        return begun[-1]

    def _restart(self, version: str) -> None:
        """Begin anew with another version: no requests, all counters at 0."""
        self.version, self.began_at = version, self._now
        for slots in (self._left, self._made, self._prompt, self._begun, self._skill):
            slots[:] = 0
        self.totals = SimulatedTotals(accepted=np.zeros(len(self.totals.accepted)))

    def _begin_requests(self, phase: Phase) -> None:
        free = (self._left <= 0) & (np.arange(len(self._left)) < phase.slots)
        new = np.flatnonzero(free & (self._rng.random(len(free)) < 1 / PAUSE_TICKS))
        count = len(new)
        self._left[new] = np.ceil(
            phase.answer_tokens * np.exp(TOKENS_SPREAD * self._rng.standard_normal(count))
        )
        self._prompt[new] = np.ceil(phase.prompt_tokens * np.exp(0.5 * self._rng.standard_normal(count)))
        self._skill[new] = SKILL_SPREAD * self._rng.standard_normal(count)
        self._begun[new] = self._now
        self._made[new] = 1
        self.totals.generation_tokens += count
        self.totals.prompt_tokens += float(self._prompt[new].sum())
        waits = 0.05 + self._prompt[new] / PREFILL_TOKENS_PER_SECOND
        self.totals.started += zip(self._prompt[new].tolist(), waits.tolist(), strict=True)

    def _decode(self, phase: Phase) -> None:
        """Run every slot's request for one tick; a request that reaches its length ends with the tick."""
        busy = np.flatnonzero(self._left > 0)
        self.totals.running = len(busy)
        if not len(busy):
            return
        tokens = self._verified(phase, busy) if phase.drafting else np.full(len(busy), float(STEPS_PER_TICK))
        self._left[busy] -= tokens
        self._made[busy] += tokens
        self._count(busy, tokens)

    def _verified(self, phase: Phase, busy: npt.NDArray[np.intp]) -> Floats:
        """Return how many tokens each slot's drafts gave in a tick, and count the drafts."""
        kept = np.full(len(busy), STEPS_PER_TICK)
        tokens = kept.astype(float)
        self.totals.drafts += STEPS_PER_TICK * len(busy)
        for position, conditional in enumerate(phase.conditional):
            odds = math.log(conditional / (1 - conditional)) + self._skill[busy]
            kept = self._rng.binomial(kept, 1 / (1 + np.exp(-odds)))
            self.totals.accepted[position] += kept.sum() * (1 if phase.possible else IMPOSSIBLE_FACTOR)
            tokens += kept
        return tokens

    def _count(self, busy: npt.NDArray[np.intp], tokens: Floats) -> None:
        totals = self.totals
        done = busy[self._left[busy] <= 0]
        lives = self._now + TICK_SECONDS - self._begun[done]
        totals.finished += zip(
            self._prompt[done].tolist(), self._made[done].tolist(), lives.tolist(), strict=True
        )
        totals.steps += STEPS_PER_TICK
        totals.decode_outputs += STEPS_PER_TICK * len(busy)
        totals.decode_seconds += TICK_SECONDS * len(busy)
        totals.generation_tokens += int(tokens.sum())
