"""Simulated engines whose step cost is known: what specmon advises them against what would be best.

    python -m tests.acceptbench.costed [--engines N] [--seed N]

Every engine has its own acceptance by position, its own cost of a step (`advice.StepModel`) and its own k, and
is watched through the product's pipeline for an hour and a half. Its steps scatter, its acceptance is counted
request by request, and its positions beyond k are as the others: neither is told to the advice. What counts is
the speed of the advised k by the true cost, as a share of the fastest k's.
"""

from __future__ import annotations

import argparse
from collections import Counter as Tally
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import pipeline
from monitor.core.counts import estimates, windows
from monitor.core.economics import advice
from monitor.core.economics.advice import StepModel
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence, Reading
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import advising
from monitor.core.streams.worth import Told

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from monitor.core.streams import State

SCRAPES, INTERVAL = 360, 15.0
STEP_NOISE = 0.01
"""Relative scatter of an interval's mean step time."""
REQUEST_TOKENS = 200
"""Drafts that share one request's acceptance."""
REQUEST_SPREAD = 0.4
"""Standard deviation of a request's acceptance in logits."""
GOAL = 1.0 / (1.0 + advice.WORTH_CHANGING)
"""Share of the fastest k's tokens per second that the advised k has at least."""


@dataclass(frozen=True, slots=True)
class Costed:
    """An engine: seconds of its steps, conditional acceptance [DEEPEST], the depths and batch sizes it goes round."""

    steps: StepModel
    conditional: tuple[float, ...]
    depths: tuple[int, ...]
    batch_sizes: tuple[int, ...]

    @property
    def num_speculative_tokens(self) -> int:
        """Its k: the deepest it drafts."""
        return max(self.depths)

    def speed(self, num_speculative_tokens: int, batch_size: float) -> float:
        """Return the true tokens per second of one request with another k."""
        mal = advice.mal_of(self.conditional, num_speculative_tokens)
        return mal / self.steps.step(batch_size, num_speculative_tokens)

    def scrapes(self, seed: int, number: int = SCRAPES) -> Iterator[Scrape]:
        """Yield what its page says, `number` scrapes of `INTERVAL` seconds."""
        rng = np.random.default_rng(seed)
        counters, accepted = np.zeros(NUM_COUNTERS), np.zeros(self.num_speculative_tokens)
        for n in range(number):
            depth = self.depths[n % len(self.depths)]
            size = self.batch_sizes[n // len(self.depths) % len(self.batch_sizes)]
            self._run(rng, counters, accepted, depth, size)
            yield Scrape("one", INTERVAL * n, readings=(self._reading(counters, accepted),))

    def _run(
        self, rng: np.random.Generator, counters: np.ndarray, accepted: np.ndarray, depth: int, size: int
    ) -> None:
        seconds = self.steps.step(size, depth)
        steps = round(INTERVAL / seconds)
        outputs = float(steps * size)
        reached = _accepted(rng, self.conditional[:depth], int(outputs))
        accepted[:depth] += reached
        counters[[Counter.ENGINE_STEPS, Counter.DECODE_OUTPUTS]] += steps, outputs
        counters[Counter.DECODE_SECONDS] += outputs * seconds * rng.normal(1.0, STEP_NOISE)
        if depth:
            counters[[Counter.DRAFTS, Counter.DRAFT_TOKENS]] += outputs, depth * outputs
        counters[Counter.ACCEPTED_TOKENS] += reached.sum()
        counters[Counter.GENERATION_TOKENS] += outputs + reached.sum()

    def _reading(self, counters: np.ndarray, accepted: np.ndarray) -> Reading:
        return Reading(
            "m",
            "0",
            Evidence.STEPS,
            tuple(counters.tolist()),
            tuple(accepted.tolist()),
            num_speculative_tokens=self.num_speculative_tokens,
        )


def _accepted(rng: np.random.Generator, conditional: Sequence[float], drafts: int) -> np.ndarray:
    """Return accepted tokens by position: requests differ, and each draft stops where it is first refused."""
    requests = max(drafts // REQUEST_TOKENS, 1)
    shift = rng.normal(0.0, REQUEST_SPREAD, requests)
    left = np.full(requests, drafts // requests)
    reached = []
    for rate in conditional:
        logit = np.log(rate / (1.0 - rate)) + shift
        left = rng.binomial(left, 1.0 / (1.0 + np.exp(-logit)))
        reached.append(left.sum())
    return np.array(reached, float)


def watched(plan: pipeline.Plan, engine: Costed, seed: int, number: int = SCRAPES) -> State:
    """Return the state after an engine's scrapes."""
    state = pipeline.begin(plan)
    for scrape in engine.scrapes(seed, number):
        state = pipeline.step(plan, state, [scrape]).state
    state.identities[0].engine = "vllm"
    return state


def advised(plan: pipeline.Plan, state: State) -> dict[str, object]:
    """Return the advice over the only stream's whole life."""
    return advising.of_row(plan, state, estimates.from_sums(windows.total(state.sums)), 0)


def some(rng: np.random.Generator, *, varying: bool) -> Costed:
    """Return an engine drawn at random; one that varies drafts each depth up to its k, at many batch sizes."""
    ranges = ((6e-3, 3e-2), (1e-5, 4e-4), (3e-4, 4e-3), (1e-6, 2e-4))
    deepest = int(rng.integers(2, 8))
    first = rng.uniform(0.55, 0.93)
    conditional = np.clip(first * np.cumprod(rng.uniform(0.95, 1.02, advice.DEEPEST)), 0.05, 0.97)
    size = int(rng.integers(2, 40))
    return Costed(
        steps=StepModel(*(float(rng.uniform(low, high)) for low, high in ranges)),
        conditional=tuple(conditional.tolist()),
        depths=tuple(range(1, deepest + 1)) if varying else (deepest,),
        batch_sizes=tuple(sorted({max(size // 2, 1), size, 2 * size})) if varying else (size,),
    )


def share(engine: Costed, seed: int, number: int = SCRAPES) -> float | None:
    """Return the advised k's true speed as a share of the fastest's, None where no k was advised.

    An engine that does not vary is told its plain step time, as a calibration would.
    """
    size = float(np.mean(engine.batch_sizes))
    plain = {} if len(engine.depths) > 1 else {"m": Told(plain_step_seconds=engine.steps.plain(size))}
    plan = pipeline.Plan(told=plain)
    found = advised(plan, watched(plan, engine, seed, number))
    best = found["best"]
    if not isinstance(best, int):
        return None
    size = float(str(found["batch_size"]))
    fastest = max(engine.speed(tokens, size) for tokens in range(advice.DEEPEST + 1))
    return engine.speed(best, size) / fastest


def main() -> None:
    """Print how often the advised k is the fastest or within 2 % of it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--engines", type=int, default=200, help="of each kind (default: 200)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    for varying, words in ((True, "depths and batch sizes vary"), (False, "one k, plain step time told")):
        rng = np.random.default_rng((asked.seed, varying))
        found = [share(some(rng, varying=varying), seed) for seed in range(asked.engines)]
        tally = Tally("none" if each is None else "good" if each >= GOAL else "worse" for each in found)
        worst = min((each for each in found if each is not None), default=float("nan"))
        print(
            f"{words}: best k or within 2 % of it in {tally['good']} of {asked.engines}, "
            f"no advice {tally['none']}, the worst has {worst:.1%} of the fastest's tokens per second"
        )


if __name__ == "__main__":
    main()
