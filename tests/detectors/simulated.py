"""Streams of counts with a known truth: requests that come and go, and a change put in where a test wants it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import detectors
from monitor.core.counts.deltas import Counts
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from monitor.core.detectors.base import Alarm, Bools, Findings, Floats, State

START = 1_700_000_000.0
CONDITIONAL = (0.80, 0.76, 0.73, 0.70, 0.68)


@dataclass(frozen=True)
class Traffic:
    """How busy streams are: drafts an interval, how much the requests at hand move the level, and for how long."""

    drafts: float = 5000.0
    interval: float = 15.0
    request_sd: float = 0.11
    keeps: float = 0.6
    conditional: Sequence[float] = CONDITIONAL


def counts(
    at: float,
    interval: float,
    drafts: Floats,
    accepted: Floats,
    *,
    draft_tokens: Floats | None = None,
    generation_tokens: Floats | None = None,
    by_position: bool = True,
) -> Counts:
    """Return the counts of one interval of some streams, from drafts [B] and accepted tokens [B, P]."""
    size, width = accepted.shape
    values = np.full((size, NUM_COUNTERS), np.nan)
    values[:, Counter.DRAFTS] = drafts
    values[:, Counter.DRAFT_TOKENS] = drafts * width if draft_tokens is None else draft_tokens
    values[:, Counter.ACCEPTED_TOKENS] = accepted.sum(1)
    if generation_tokens is not None:
        values[:, Counter.GENERATION_TOKENS] = generation_tokens
    return Counts(
        rows=np.arange(size),
        at=np.full(size, at),
        seconds=np.full(size, interval),
        values=values,
        accepted=accepted if by_position else np.zeros_like(accepted),
        positions=np.full(size, width if by_position else 0),
        num_speculative_tokens=np.full(size, width),
        evidence=np.full(size, int(Evidence.STEPS)),
        restarted=np.zeros(size, bool),
        gap=np.zeros(size, bool),
        new_regime=np.zeros(size, bool),
    )


def intervals(
    traffic: Traffic,
    steps: int,
    streams: int = 1,
    seed: int = 1,
    change: Callable[[int, Floats], Floats] = lambda _step, rate: rate,
) -> Iterator[Counts]:
    """Yield the counts of `steps` intervals; `change` turns the conditional acceptances [B, P] of an interval."""
    rng = np.random.default_rng(seed)
    base = np.log(np.array(traffic.conditional)) - np.log1p(-np.array(traffic.conditional))
    mood = rng.normal(size=streams)
    for step in range(steps):
        mood = traffic.keeps * mood + np.sqrt(1.0 - traffic.keeps**2) * rng.normal(size=streams)
        rate = 1.0 / (1.0 + np.exp(-(base + traffic.request_sd * mood[:, None])))
        rate = change(step, rate)
        drafts = rng.poisson(traffic.drafts, streams)
        accepted = np.zeros((streams, len(base)))
        left = drafts
        for position in range(len(base)):
            left = rng.binomial(left, rate[:, position])
            accepted[:, position] = left
        at = START + traffic.interval * (step + 1)
        yield counts(at, traffic.interval, drafts.astype(np.float64), accepted)


@dataclass
class Watched:
    """What detectors said of streams: every alarm by row, and the state to go on from."""

    state: State
    plan: detectors.DetectionPlan = field(default_factory=detectors.DetectionPlan)
    alarms: list[Alarm] = field(default_factory=list)
    findings: Findings | None = None

    def see(self, news: Iterator[Counts] | Sequence[Counts]) -> Watched:
        """Take in counts of all streams, interval by interval."""
        for each in news:
            self.findings = detectors.step(self.plan, self.state, each)
            self.alarms.extend(self.findings.alarms)
        return self

    def opened(self, *kinds: str) -> list[Alarm]:
        """Return the alarms that opened (of some kinds)."""
        return [
            alarm for alarm in self.alarms if alarm.action == "open" and (not kinds or alarm.kind in kinds)
        ]

    def closed(self) -> list[Alarm]:
        """Return the alarms that closed."""
        return [alarm for alarm in self.alarms if alarm.action == "close"]


def watched(streams: int = 1, plan: detectors.DetectionPlan | None = None) -> Watched:
    """Return fresh streams under the detectors."""
    plan = plan or detectors.DetectionPlan()
    return Watched(detectors.allocate(plan, streams), plan)


def shifted(rate: Floats, logits: float, positions: slice = slice(None)) -> Floats:
    """Return rates [B, P] with some positions moved by as many logits."""
    odds = rate / (1.0 - rate)
    odds[:, positions] *= np.exp(logits)
    moved: Floats = odds / (1.0 + odds)
    return moved


def some(which: Bools, changed: Floats, rate: Floats) -> Floats:
    """Return `changed` in the rows of `which`, `rate` elsewhere."""
    result: Floats = np.where(which[:, None], changed, rate)
    return result
