"""What an engine does not count but its other counters imply, on the differences of one interval.

Where an engine counts drafts, accepted tokens and decode steps itself, nothing is done here. The rules work
on differences and not on the counters, because a difference of two counters may fall for a moment and would
look like a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.pages.engines.base import Counter, Evidence

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.readings import Readings

    Floats = npt.NDArray[np.float64]
    Booleans = npt.NDArray[np.bool_]

MOST_GAUGE_DRAFTS = 320.0  # a mean of unknown weight is never worth more than eight requests over 40 steps
RESOLVED_STEPS = 16.0  # an interval with less than so many of the steps that the counters can show waits

FIELDS = [
    ("evidence", "i8"),  # what the last reading counted, an `Evidence`
    ("paused", "?"),  # it said that no drafts are made
    ("gauge", "f8"),  # the mean that it showed, NaN: none
    ("unseen", "f8"),  # tokens since that mean last changed
]


def clear(state: npt.NDArray[np.void]) -> None:
    """Make `state` (rows with `FIELDS`) that of streams that were never read."""
    state["evidence"] = Evidence.NONE
    state["gauge"] = np.nan


def switched(state: npt.NDArray[np.void], now: Readings) -> Booleans | None:
    """Return which readings count other things than the stream's last one did, None where none does.

    The two have no difference.
    """
    before: npt.NDArray[np.int64] = state["evidence"]
    differs: Booleans = now.evidence != before
    if not differs.any():
        return None
    known: Booleans = (now.evidence != Evidence.NONE) & (before != Evidence.NONE)
    return differs & known


def unresolved(state: npt.NDArray[np.void], now: Readings) -> Booleans:
    """Return which readings moved by so few of the steps they can show that the next one must be awaited."""
    if not now.resolution.any():
        return np.zeros(len(state), bool)
    columns = [Counter.DRAFTS, Counter.ACCEPTED_TOKENS]
    growth: Floats = now.counters[:, columns] - state["growing"][:, columns]
    few: Booleans = (growth[:, 0] >= 0) & (growth[:, 0] < RESOLVED_STEPS * now.resolution)
    return few & (growth > 0).any(1)


def complete(values: Floats, state: npt.NDArray[np.void], now: Readings, restarted: Booleans) -> None:
    """Fill in `values` [B, C] (differences, changed in place) what the engines did not count.

    `state` holds the last readings, `now` these. Rows whose engine counts everything stay as they are.
    """
    _void_pauses(values, state, now, restarted)
    partial = np.isnan(values[:, Counter.DRAFTS]) | np.isnan(values[:, Counter.DECODE_OUTPUTS])
    partial |= np.isnan(values[:, Counter.ACCEPTED_TOKENS])
    partial &= now.evidence != Evidence.NONE
    if partial.any():
        _deliveries(values, partial)
        _drafts_of_known_length(values, now, partial)
        _accepted_of_requests(values, now, partial)
        _steps_of_requests(values, now, partial)
        _gauges(values, state, now)


def remember(state: npt.NDArray[np.void], now: Readings, tokens: Floats, kept: Booleans) -> None:
    """Keep with `state` what the next reading is compared with; `tokens` are those of the interval."""
    if not ((now.evidence != state["evidence"]) | state["paused"] | (now.evidence == Evidence.GAUGE)).any():
        return
    counted = now.evidence != Evidence.NONE
    state["evidence"] = np.where(kept & counted, now.evidence, state["evidence"])
    state["paused"] = np.where(kept, ~counted & ~np.isnan(now.counters[:, Counter.DRAFTS]), state["paused"])
    gauge = now.evidence == Evidence.GAUGE
    if gauge.any():
        state["unseen"] = np.where(
            kept, np.where(_news(state, now, tokens), 0.0, _unseen(state, tokens)), state["unseen"]
        )
        state["gauge"] = np.where(kept & gauge, now.gauge, state["gauge"])


def _void_pauses(values: Floats, state: npt.NDArray[np.void], now: Readings, restarted: Booleans) -> None:
    """Count no drafts in an interval that begins or ends where the engine says that it makes none."""
    paused = (now.evidence == Evidence.NONE) | (state["paused"] & ~restarted)
    if paused.any():
        columns = [Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS]
        values[:, columns] = np.where(
            paused[:, None] & ~np.isnan(values[:, columns]), 0.0, values[:, columns]
        )


def _deliveries(values: Floats, partial: Booleans) -> None:
    """Take the deliveries without the first of each request as decode steps, and each as a draft.

    For an engine that counts all deliveries and the tokens beyond one in them, but no drafts.
    """
    drafts, outputs = values[:, Counter.DRAFTS], values[:, Counter.DECODE_OUTPUTS]
    firsts, accepted = values[:, Counter.FIRST_TOKENS], values[:, Counter.ACCEPTED_TOKENS]
    chosen = partial & np.isnan(drafts) & np.isnan(values[:, Counter.DRAFT_TOKENS])
    chosen &= ~np.isnan(outputs) & ~np.isnan(firsts) & ~np.isnan(accepted)
    steps = np.maximum(outputs - firsts, 0.0)
    np.copyto(outputs, steps, where=chosen)
    np.copyto(drafts, steps, where=chosen)


def _drafts_of_known_length(values: Floats, now: Readings, partial: Booleans) -> None:
    """Take draft tokens ÷ k as drafts, for an engine whose drafts all have the k tokens that are known."""
    tokens, known = values[:, Counter.DRAFT_TOKENS], now.num_speculative_tokens
    chosen = partial & np.isnan(values[:, Counter.DRAFTS]) & ~np.isnan(tokens) & (known > 0)
    np.copyto(values[:, Counter.DRAFTS], tokens / np.maximum(known, 1), where=chosen)


def _accepted_of_requests(values: Floats, now: Readings, partial: Booleans) -> None:
    """Take as accepted what requests got beyond one token from prefill and one from each verification."""
    drafts, requests = values[:, Counter.DRAFTS], values[:, Counter.FINISHED_REQUESTS]
    beyond = np.maximum(values[:, Counter.GENERATION_TOKENS] - requests - drafts, 0.0)
    chosen = partial & (now.evidence == Evidence.REQUEST_END) & np.isnan(values[:, Counter.ACCEPTED_TOKENS])
    np.copyto(values[:, Counter.ACCEPTED_TOKENS], beyond, where=chosen)


def _steps_of_requests(values: Floats, now: Readings, partial: Booleans) -> None:
    """Take as decode steps what requests got without accepted tokens and without the token from prefill."""
    finished = values[:, Counter.FINISHED_REQUESTS]
    plain = (
        values[:, Counter.GENERATION_TOKENS] - np.nan_to_num(finished) - values[:, Counter.ACCEPTED_TOKENS]
    )
    # Live counts need the requests, whose first tokens are no decode step.
    told = (now.evidence == Evidence.REQUEST_END) | ((now.evidence == Evidence.STEPS) & ~np.isnan(finished))
    chosen = partial & told & np.isnan(values[:, Counter.DECODE_OUTPUTS])
    np.copyto(values[:, Counter.DECODE_OUTPUTS], np.maximum(plain, values[:, Counter.DRAFTS]), where=chosen)


def _gauges(values: Floats, state: npt.NDArray[np.void], now: Readings) -> None:
    """Turn a mean that tells something new into the drafts it is worth, and one that does not into none."""
    gauge = now.evidence == Evidence.GAUGE
    if gauge.any():
        news = _news(state, now, values[:, Counter.GENERATION_TOKENS])
        drafts = np.where(news, np.minimum(now.window_drafts, MOST_GAUGE_DRAFTS), 0.0)
        np.copyto(values[:, Counter.DRAFTS], drafts, where=gauge)
        accepted = drafts * np.maximum(np.nan_to_num(now.gauge) - 1.0, 0.0)
        np.copyto(values[:, Counter.ACCEPTED_TOKENS], accepted, where=gauge)


def _news(state: npt.NDArray[np.void], now: Readings, tokens: Floats) -> Booleans:
    """Return which gauges tell something new.

    A changed value does, if tokens flow. A repeated one only after as many tokens as its window covers, by
    when it must have been set anew: a draft that is never accepted reads exactly 1 for ever.
    """
    changed: Booleans = now.gauge != state["gauge"]
    flowing = (tokens > 0) | (now.running > 0) | (np.isnan(tokens) & np.isnan(now.running))
    repeated = _unseen(state, tokens) >= np.maximum(now.window_drafts, 1.0) * now.gauge
    known: Booleans = (now.evidence == Evidence.GAUGE) & (now.gauge > 0) & (now.window_drafts > 0)
    return known & ((changed & flowing) | (~changed & repeated & (tokens > 0)))


def _unseen(state: npt.NDArray[np.void], tokens: Floats) -> Floats:
    unseen: Floats = state["unseen"] + np.nan_to_num(tokens)
    return unseen
