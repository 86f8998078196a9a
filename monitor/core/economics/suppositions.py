"""What speculation would give under numbers that somebody supposes: another k, batch, draft or precision.

The formulas are those of the advice (`advice.StepModel`, `advice.options`); nothing is measured here. Two
things come on top:

- Quantised weights (fp8, NVFP4) make the target's own work cheaper by `weights_ratio`: the plain step, what a
  further request adds and what a token to verify adds. The draft's step stays, so the two speed-ups multiply
  only where drafting is free.
- A draft's memory is taken from the KV cache, so fewer requests fit beside each other; where the load fills
  the cache, tokens per second of the whole replica are what counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from monitor.core.economics import advice

if TYPE_CHECKING:
    from monitor.core.economics.advice import Option, StepModel


@dataclass(frozen=True, slots=True)
class CacheMemory:
    """GPU memory in GiB: of the KV cache without a draft, of one request in it, and what the draft takes."""

    cache: float
    request: float
    draft: float


@dataclass(frozen=True, slots=True)
class Supposition:
    """Conditional acceptances [P] (the last stands for deeper positions), k, batch size and costs of a step.

    `weights_ratio` is the step time of the target with its supposed weights ÷ that of `steps`; 1 leaves it.
    """

    conditional: tuple[float, ...]
    num_speculative_tokens: int
    batch_size: float
    steps: StepModel
    weights_ratio: float = 1.0
    memory: CacheMemory | None = None


@dataclass(frozen=True, slots=True)
class Full:
    """A replica whose KV cache is full: requests that fit and tokens per second of all, with and without."""

    requests: int
    plain_requests: int
    tokens_per_second: float
    plain_tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Prospect:
    """What follows: seconds of steps and per token, speed-ups, every k at this batch, every batch at this k.

    `speedup` is against plain steps with the same weights, `speedup_of_both` against plain steps with the
    weights of now. `pays_below` is the batch size up to which this k is faster than plain steps: 0 where it
    never is, infinite where it always is. `by_batch` has (batch size, speed-up).
    """

    mal: float
    step_seconds: float
    plain_step_seconds: float
    tpot_seconds: float
    speedup: float
    speedup_of_both: float
    tokens_per_second: float
    options: tuple[Option, ...]
    best: int
    by_batch: tuple[tuple[int, float], ...]
    pays_below: float
    full: Full | None


def outcome(supposed: Supposition) -> Prospect:
    """Return what a supposition would give."""
    steps, tokens, size = _with_weights(supposed), supposed.num_speculative_tokens, supposed.batch_size
    mal = advice.mal_of(supposed.conditional, tokens)
    seconds, plain = steps.step(size, tokens), steps.plain(size)
    options = advice.options(supposed.conditional, steps, size)
    return Prospect(
        mal=mal,
        step_seconds=seconds,
        plain_step_seconds=plain,
        tpot_seconds=seconds / mal,
        speedup=mal * plain / seconds,
        speedup_of_both=mal * supposed.steps.plain(size) / seconds,
        tokens_per_second=size * mal / seconds,
        options=options,
        best=advice.best(options, tokens),
        by_batch=tuple((b, mal * steps.plain(b) / steps.step(b, tokens)) for b in advice.BATCH_SIZES),
        pays_below=pays_below(mal, steps, tokens),
        full=_full(supposed, steps, mal),
    )


def pays_below(mal: float, steps: StepModel, num_speculative_tokens: int) -> float:
    """Return the batch size b at which mal × plain(b) = step(b, k); 0 where it never pays, inf where always.

    With (mal − 1)·plain(b) the gain and k·(draft + verify·b) the cost of a step, both are straight in b.
    """
    gain_once = (mal - 1.0) * steps.base_seconds - num_speculative_tokens * steps.draft_seconds
    gain_each = (mal - 1.0) * steps.per_request_seconds - num_speculative_tokens * steps.verify_seconds
    if gain_once + gain_each <= 0.0:
        return 0.0
    if gain_each >= 0.0:
        return math.inf
    return gain_once / -gain_each


def _with_weights(supposed: Supposition) -> StepModel:
    ratio, steps = supposed.weights_ratio, supposed.steps
    return replace(
        steps,
        base_seconds=steps.base_seconds * ratio,
        per_request_seconds=steps.per_request_seconds * ratio,
        verify_seconds=steps.verify_seconds * ratio,
    )


def _full(supposed: Supposition, steps: StepModel, mal: float) -> Full | None:
    memory = supposed.memory
    if memory is None:
        return None
    with_draft = math.floor(max(memory.cache - memory.draft, 0.0) / memory.request)
    without = math.floor(memory.cache / memory.request)
    tokens = supposed.num_speculative_tokens
    return Full(
        with_draft,
        without,
        with_draft * mal / steps.step(max(with_draft, 1), tokens),
        without / steps.plain(max(without, 1)),
    )
