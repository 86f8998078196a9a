"""Fleets whose acceptance falls for a known cause, as readings: what the table of likelihoods is learnt from.

Replicas of one model serve a mix of two kinds of request, short prompts that are easy to predict and long ones
that are not; the mix wanders for all of them together and a little for each. What each cause does besides the
fall is written down in the function that is called by its name. All chances are drawn from one seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import vocabulary
from monitor.core.pages.engines.base import UNKNOWN, Counter, Evidence, Reading
from monitor.core.pages.scrapes import Scrape

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from monitor.core.vocabulary import CauseName

    Floats = npt.NDArray[np.float64]

CAUSES: tuple[CauseName, ...] = tuple(
    cause for cause in vocabulary.CAUSES if cause not in ("restart", "data_quality")
)
"""The causes that are simulated; the others are told by what they are."""

SIZES = {"small": 0.6, "medium": 1.1, "large": 2.0}
"""How far acceptance falls, in logits of each position that is hit."""

TRAFFIC = {"quiet": 500.0, "busy": 5000.0}
"""Drafts of one replica in a scrape interval."""

INTERVAL = 15.0
START = 1_760_000_000.0
HISTORY, AFTERWARDS = 260, 110
"""Scrapes before the change, 65 minutes, and after it, 27."""

PROMPTS, ANSWERS = (400.0, 3000.0), (220.0, 500.0)
"""Mean lengths of the two kinds of request, in tokens; log-normal with LENGTH_SIGMA."""

KIND_LOGITS = (0.3, -0.4)
LENGTH_SIGMA = 0.8
STEP_SECONDS, STEP_PER_SLOT = 0.012, 0.0004


@dataclass(slots=True)
class Replica:
    """What one replica is made of, and what of it changes when (scrape number): `shift` [n, k] logits.

    `prompt`, `answer` and `batch` multiply, `dead` is the share of drafts that keep nothing, `depth` the share
    of the draft length that is drafted, `cover` the share of steps with a draft; [n] each. `restarts` are
    scrape numbers; `said` what the page says of the configuration from a scrape on.
    """

    shift: Floats
    prompt: Floats
    answer: Floats
    hits: Floats
    batch: Floats
    dead: Floats
    cover: Floats
    k: npt.NDArray[np.int64]
    restarts: list[int] = field(default_factory=list)
    said: list[tuple[int, str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Case:
    """One fleet: its cause, how far acceptance falls, how busy it is, how many replicas, and its number."""

    cause: CauseName
    size: str
    traffic: str
    replicas: int
    number: int
    second: CauseName | None = None


class Fleet:
    """A fleet with its change at scrape HISTORY: `scrapes` gives its pages in time order."""

    def __init__(self, case: Case, seed: int) -> None:
        """Draw everything of a case."""
        words = [
            seed,
            CAUSES.index(case.cause),
            list(SIZES).index(case.size),
            list(TRAFFIC).index(case.traffic),
        ]
        second = 0 if case.second is None else 1 + CAUSES.index(case.second)
        self.random = np.random.default_rng([*words, case.replicas, case.number, second])
        self.case = case
        self.n = HISTORY + AFTERWARDS
        self.k = int(self.random.integers(3, 6))
        self.replicas = [self._replica() for _ in range(case.replicas)]
        self.logits = self.random.normal(1.0, 0.3) + np.array([0.5, 0.2, 0.0, -0.1, -0.2])
        self.mix = 1.0 / (1.0 + np.exp(-self._wander(3600.0, 0.5) + 0.4))
        self._happen(case.cause)
        if case.second is not None:
            self._happen(case.second)
        self._nuisance()

    def _replica(self) -> Replica:
        ones = np.ones(self.n)
        return Replica(
            shift=np.zeros((self.n, 5)),
            prompt=ones.copy(),
            answer=ones.copy(),
            hits=np.full(self.n, 0.5),
            batch=ones * np.exp(self._wander(900.0, 0.08)),
            dead=np.zeros(self.n),
            cover=ones.copy(),
            k=np.full(self.n, self.k),
        )

    def _wander(self, seconds: float, spread: float) -> Floats:
        """Return an Ornstein-Uhlenbeck path of this time constant and standard deviation."""
        kept = np.exp(-INTERVAL / seconds)
        noise = self.random.normal(0.0, spread * np.sqrt(1.0 - kept * kept), self.n)
        path = np.empty(self.n)
        value = self.random.normal(0.0, spread)
        for row, step in enumerate(noise.tolist()):
            value = kept * value + step
            path[row] = value
        return path

    def _chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def _ramp(self, begins: int, sudden: float) -> Floats:
        """Return 0 before and 1 after: at once with the chance `sudden`, or over 5 to 30 minutes."""
        length = 1 if self._chance(sudden) else int(self.random.integers(20, 120))
        return np.clip((np.arange(self.n) - begins + 1) / length, 0.0, 1.0)

    def _hit(self, whole: float) -> list[tuple[Replica, int]]:
        """Return whom a release reaches and when: the whole model with this chance, else a part of it."""
        number = len(self.replicas)
        reached = number if self._chance(whole) else max(1, number // 2)
        apart = int(self.random.integers(0, 4))
        return [(replica, HISTORY + apart * order) for order, replica in enumerate(self.replicas[:reached])]

    def _size(self) -> float:
        return SIZES[self.case.size] * float(self.random.uniform(0.9, 1.1))

    def _happen(self, cause: CauseName) -> None:
        {
            "traffic": self._traffic,
            "draft": self._draft,
            "target_model": self._target,
            "engine": self._engine,
            "config": self._config,
            "load": self._load,
            "replica": self._one,
            "context_limit": self._context,
            "tail": self._tail,
            "unknown": self._hidden,
        }[cause]()

    def _released(
        self, whole: float, *, restart: float, mark: tuple[str, float], fact: float
    ) -> list[tuple[Replica, int]]:
        """Return whom a release reached, with the marks that it left on their pages."""
        restarted, shown, imaged = self._chance(restart), self._chance(mark[1]), self._chance(fact)
        reached = self._hit(whole)
        for replica, begins in reached:
            if restarted:
                replica.restarts.append(begins)
            if shown:
                replica.said.append((begins, mark[0], "two"))
            if imaged:
                replica.said.append((begins, "image", "two"))
        return reached

    def _draft(self) -> None:
        """Another draft: all positions from the first on; by a restart as a rule, named on the page at times."""
        size = self._size()
        by_position = -size * self.random.uniform(0.8, 1.2, 5)
        for replica, begins in self._released(0.75, restart=0.9, mark=("draft_model", 0.45), fact=0.3):
            replica.shift[begins:] += by_position

    def _target(self) -> None:
        """Another target under the same draft: the same picture; weights are updated without a restart, too."""
        by_position = -self._size() * self.random.uniform(0.8, 1.2, 5)
        for replica, begins in self._released(0.85, restart=0.6, mark=("target_model", 0.75), fact=0.2):
            replica.shift[begins:] += by_position

    def _engine(self) -> None:
        """Another engine build: its verify path hurts all positions, or those after the first."""
        shape = np.ones(5) if self._chance(0.6) else np.array([0.1, 0.7, 1.0, 1.0, 1.0])
        size = self._size()
        for replica, begins in self._released(0.7, restart=1.0, mark=("engine_version", 0.75), fact=0.6):
            replica.shift[begins:] -= size * shape

    def _config(self) -> None:
        """Another configuration: a smaller k with every position as good, or an argument that hurts them all."""
        shorter = self._chance(0.5)
        size = self._size()
        mark = ("k", 0.0) if shorter else ("quantization", 0.8)
        for replica, begins in self._released(0.7, restart=1.0, mark=mark, fact=0.2):
            if shorter:
                replica.k[begins:] = max(1, self.k - (1 if self.case.size == "small" else 2))
            else:
                replica.shift[begins:] -= size

    def _traffic(self) -> None:
        """Another kind of request: lengths and cache hits move with acceptance, on the whole model mostly."""
        size, ramp = self._size(), self._ramp(HISTORY, 0.4)
        longer = float(np.exp(self.random.choice([-1.0, 1.0]) * self.random.uniform(0.4, 3.0)))
        answers = float(np.exp(self.random.uniform(-1.5, 1.5)))
        hits = float(self.random.uniform(-0.4, 0.4))
        batch = float(np.exp(self.random.uniform(-0.7, 0.5)))
        reached = self.replicas if self._chance(0.85) else self.replicas[:1]
        cover = self._matches()
        for replica in reached:
            replica.cover *= cover**ramp
            replica.shift -= (size * ramp)[:, None]
            replica.prompt *= longer**ramp
            replica.answer *= answers**ramp
            replica.hits += hits * ramp
            replica.batch *= batch**ramp

    def _hidden(self) -> None:
        """What no page shows, temperature or language: acceptance moves, at times as whole drafts."""
        size, ramp = self._size(), self._ramp(HISTORY, 0.5)
        cover, blank = self._matches(), self._chance(0.35)
        reached = self.replicas if self._chance(0.8) else self.replicas[: max(1, len(self.replicas) // 2)]
        for replica in reached:
            replica.cover *= cover**ramp
            if blank:
                replica.dead += (1.0 - np.exp(-0.7 * size)) * ramp
            else:
                replica.shift -= (size * ramp)[:, None]

    def _matches(self) -> float:
        """Return by what the share of steps with a draft falls: n-gram and suffix drafts need a match."""
        return float(self.random.uniform(0.3, 0.9)) if self._chance(0.35) else 1.0

    def _load(self) -> None:
        """More at once than before: shorter drafts or fewer steps with one, and acceptance with them."""
        size, ramp = self._size(), self._ramp(HISTORY, 0.5)
        more = float(self.random.uniform(2.0, 6.0))
        less = float(self.random.uniform(0.3, 0.8))
        for replica in self.replicas:
            replica.batch *= more**ramp
            replica.shift -= (size * ramp)[:, None]
            replica.cover *= less**ramp if self._chance(0.7) else 1.0

    def _one(self) -> None:
        """One bad replica of several: a broken copy of the weights, a bad card; at times after its own restart."""
        replica = self.replicas[int(self.random.integers(len(self.replicas)))]
        if self._chance(0.4):
            replica.restarts.append(HISTORY)
        replica.shift[HISTORY:] -= self._size() * self.random.uniform(0.9, 1.1, 5)

    def _context(self) -> None:
        """Contexts beyond what the draft was trained for: a share of the drafts keeps nothing at all."""
        share = {"small": 0.25, "medium": 0.45, "large": 0.8}[self.case.size]
        ramp = self._ramp(HISTORY, 0.5)
        longer = float(self.random.uniform(5.0, 60.0))
        for replica in self.replicas:
            replica.dead += share * ramp
            replica.prompt *= (1.0 + share * (longer - 1.0)) ** ramp
            replica.batch *= float(self.random.uniform(0.4, 1.0)) ** ramp

    def _tail(self) -> None:
        """Late positions are dead: a head of the draft that was not loaded, after a restart at times."""
        first = int(self.random.integers(1, self.k)) if self.k > 1 else 1
        fall = {"small": 1.5, "medium": 3.0, "large": 6.0}[self.case.size]
        for replica, begins in self._released(0.6, restart=0.5, mark=("engine_version", 0.15), fact=0.2):
            replica.shift[begins:, first:] -= fall

    def _nuisance(self) -> None:
        """Let other things happen near by, that are not the cause."""
        if self._chance(0.15):
            replica = self.replicas[int(self.random.integers(len(self.replicas)))]
            replica.restarts.append(HISTORY + int(self.random.integers(-60, 60)))
        if self._chance(0.2):
            ramp = self._ramp(HISTORY + int(self.random.integers(-60, 60)), 0.5)
            factor = float(np.exp(self.random.uniform(-0.5, 0.5)))
            for replica in self.replicas:
                replica.batch *= factor**ramp

    def scrapes(self) -> Iterator[list[Scrape]]:
        """Yield the pages of all replicas, tick by tick."""
        streams = [self._readings(number, replica) for number, replica in enumerate(self.replicas)]
        for row, readings in enumerate(zip(*streams, strict=True)):
            at = START + row * INTERVAL
            yield [
                Scrape(f"replica-{number}", at, readings=(reading,))
                for number, reading in enumerate(readings)
            ]

    def _readings(self, number: int, replica: Replica) -> Iterator[Reading]:
        own = self._wander(1800.0, 0.06)
        totals = np.zeros(len(Counter))
        accepted = np.zeros(self.k)
        began = START - 86400.0
        said = {"draft_model": "one", "target_model": "one", "quantization": "one"}
        version, image = "1.0", "one"
        for row in range(self.n):
            if row in replica.restarts:
                totals, accepted = np.zeros(len(Counter)), np.zeros(int(replica.k[row]))
                began = START + row * INTERVAL - 5.0
            for begins, name, value in replica.said:
                if begins == row and name == "engine_version":
                    version = value
                elif begins == row and name == "image":
                    image = value
                elif begins == row:
                    said[name] = value
            self._grow(row, replica, own[row], totals, accepted)
            yield Reading(
                model_name="m",
                replica=str(number),
                evidence=Evidence.STEPS,
                counters=tuple(totals.tolist()),
                accepted=tuple(accepted.tolist()),
                num_speculative_tokens=len(accepted),
                started_at=began,
                created_at=UNKNOWN,
                engine_version=version,
                config=tuple(said.items()),
                facts=(("image", image),),
            )

    def _grow(self, row: int, replica: Replica, own: float, totals: Floats, accepted: Floats) -> None:
        """Add what one interval counts."""
        random, k = self.random, len(accepted)
        share = float(self.mix[row])
        drafts = int(random.poisson(TRAFFIC[self.case.traffic] * replica.batch[row] ** 0.3))
        kind = KIND_LOGITS[0] * (1.0 - share) + KIND_LOGITS[1] * share
        requests = max(1.0, drafts / 80.0)
        noise = own + random.normal(0.0, 0.5 / np.sqrt(requests))
        rates = 1.0 / (1.0 + np.exp(-(self.logits[:k] + kind + noise + replica.shift[row, :k])))
        left = int(random.binomial(drafts, 1.0 - replica.dead[row]))
        kept = []
        for rate in rates.tolist():
            left = int(random.binomial(left, rate))
            kept.append(left)
        accepted += kept
        steps = drafts / replica.cover[row]
        tokens = steps + sum(kept)
        finished = self._finished(row, replica, tokens)
        batch = 8.0 * replica.batch[row]
        step_seconds = STEP_SECONDS + STEP_PER_SLOT * batch
        for counter, value in {
            Counter.DRAFTS: drafts,
            Counter.DRAFT_TOKENS: drafts * k,
            Counter.ACCEPTED_TOKENS: sum(kept),
            Counter.GENERATION_TOKENS: tokens,
            Counter.FIRST_TOKENS: finished[0],
            Counter.DECODE_OUTPUTS: steps,
            Counter.DECODE_SECONDS: steps * step_seconds,
            Counter.ENGINE_STEPS: (steps + finished[0]) / batch,
            Counter.ENGINE_STEP_SECONDS: (steps + finished[0]) / batch * step_seconds,
            Counter.PROMPT_TOKENS: finished[1],
            Counter.OUTPUT_TOKENS: finished[2],
            Counter.FINISHED_REQUESTS: finished[0],
            Counter.REQUEST_DECODE_SECONDS: finished[2] / tokens * steps * step_seconds,
            Counter.CACHE_QUERIES: finished[1],
            Counter.CACHE_HITS: finished[1]
            * float(np.clip(replica.hits[row] + random.normal(0, 0.02), 0, 1)),
        }.items():
            totals[counter] += value

    def _finished(self, row: int, replica: Replica, tokens: float) -> tuple[int, float, float]:
        """Return the requests that finished, their prompt and their generated tokens; the traffic is a little ago's."""
        ago = max(0, row - 6)
        share = float(self.mix[ago])
        answer = (ANSWERS[0] * (1.0 - share) + ANSWERS[1] * share) * replica.answer[ago]
        number = int(self.random.poisson(tokens / answer))
        prompt = (PROMPTS[0] * (1.0 - share) + PROMPTS[1] * share) * replica.prompt[ago]
        spread = self.random.lognormal(-(LENGTH_SIGMA**2) / 2, LENGTH_SIGMA, (2, number)).sum(1)
        return number, prompt * float(spread[0]), answer * float(spread[1])
