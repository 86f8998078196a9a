"""What one data-parallel rank of SGLang says by its gauges: whether it speculates, how deep, how well.

Tensor, pipeline and expert ranks of one data-parallel rank tell the same, so the lowest of them is read
and none is added to another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor.core.pages.engines import base
from monitor.core.pages.engines.base import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.pages.engines.identity import Facts
    from monitor.core.pages.exposition import Series

OTHER_RANKS = ("tp_rank", "pp_rank", "moe_ep_rank")
REPORT_STEPS = 40.0  # --decode-log-interval, by default

ACCEPT_LENGTH = "spec_accept_length"
NUM_STEPS = "spec_num_steps"
NUM_DRAFT_TOKENS = "spec_num_draft_tokens"
RUNNING = "num_running_reqs"
REALTIME_TOKENS = "realtime_tokens_total"
GRAPH_PASSES = "cuda_graph_passes_total"
CAPACITY = "max_total_num_tokens"  # says before the first request that there is a rank
NAMES = (ACCEPT_LENGTH, NUM_STEPS, NUM_DRAFT_TOKENS, RUNNING, REALTIME_TOKENS, GRAPH_PASSES, CAPACITY)
BY_MODE = (REALTIME_TOKENS, GRAPH_PASSES)


@dataclass(frozen=True, slots=True)
class RankState:
    """Whether a rank speculates, None before that is known; `paused` at zero steps; its other gauges."""

    on: bool | None
    paused: bool
    num_speculative_tokens: int
    running: float
    accept_length: float


@dataclass(slots=True)
class Rank:
    """Where the values of one rank stand on the page: name → places."""

    places: dict[str, list[int]] = field(default_factory=dict)
    lowest: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def place(self, index: int, name: str, series: Series) -> None:
        """Note that value `index` of the page is `name` of this rank."""
        if name not in NAMES or (name in BY_MODE and not series.label("mode").startswith("decode")):
            return
        ranks = tuple(max(base.index(series.label(rank)), 0) for rank in OTHER_RANKS)
        if name not in self.lowest or ranks < self.lowest[name]:
            self.lowest[name] = ranks
            self.places[name] = [index]
        elif ranks == self.lowest[name]:
            self.places[name].append(index)

    def value(self, name: str, values: Sequence[float]) -> float:
        """Return a gauge, or the sum of a counter's parts; NaN where the page has none, or several gauges."""
        places = self.places.get(name)
        if name not in BY_MODE and places and len(places) > 1:
            return UNKNOWN
        return total(places, values)

    def tells_steps(self) -> bool:
        """Return whether the page has the gauges of 0.5.13, the version that also counts verifications."""
        return NUM_STEPS in self.places

    def state(self, values: Sequence[float], facts: Facts, decoded: float = UNKNOWN) -> RankState:
        """Return what the gauges say; `decoded` are the decode steps so far where they are known better."""
        length = self.value(ACCEPT_LENGTH, values)
        steps, width = self.value(NUM_STEPS, values), self.value(NUM_DRAFT_TOKENS, values)
        if math.isnan(decoded):
            decoded = self.value(GRAPH_PASSES, values)
        on: bool | None = facts.speculating or None
        if length > 0:
            on = True
        elif length == 0 and not on and not decoded < 2 * REPORT_STEPS:
            on = False  # and it is not 0 only because no decode step was reported yet
        depth = steps if steps > 0 else width - 1 if width > 1 else 0
        known = depth if depth < base.MOST_POSITIONS else 0
        return RankState(
            on=on,
            # Adaptive speculation at zero steps verifies nothing: each step yields one token, by design.
            paused=length > 0 and steps == 0 and not width > 1,
            num_speculative_tokens=facts.num_speculative_tokens or int(known),
            running=self.value(RUNNING, values),
            accept_length=length,
        )


def total(places: Sequence[int] | None, values: Sequence[float]) -> float:
    """Return the sum of the values at `places`, NaN where there are none."""
    return sum([values[place] for place in places]) if places else UNKNOWN


def together(states: Sequence[RankState]) -> RankState:
    """Return the state of several ranks as one: means are weighted by running requests."""
    weights = [state.running if state.accept_length > 0 and state.running > 0 else 0.0 for state in states]
    weighted = sum(
        weight * state.accept_length for weight, state in zip(weights, states, strict=True) if weight
    )
    known = [state.on for state in states if state.on is not None]
    return RankState(
        on=any(known) if known else None,
        paused=all(state.paused for state in states),
        num_speculative_tokens=max(state.num_speculative_tokens for state in states),
        running=sum(state.running for state in states),
        accept_length=weighted / sum(weights) if sum(weights) else UNKNOWN,
    )
