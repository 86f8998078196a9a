"""What is said of a stream as JSON: an estimate over a window, and the summary of everything counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events, streams
from monitor.core.counts import estimates, windows
from monitor.core.economics import payoff
from monitor.core.streams import worth
from monitor.core.vocabulary import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from monitor.core.counts.estimates import Estimates
    from monitor.core.streams import State
    from monitor.core.streams.plans import Plan
    from monitor.core.streams.worth import PlainSteps

Record = dict[str, object]

NUMBERS = (
    "mal",
    "mal_low",
    "mal_high",
    "alpha",
    "coverage",
    "tokens_per_step",
    "step_seconds",
    "implied_tpot_seconds",
    "observed_tpot_seconds",
    "batch_size",
)


def over_window(plan: Plan, state: State, window: int, now: float) -> list[Record]:
    """Return an estimate record of every stream over one of the plan's windows that ends at `now`."""
    return _over(plan, state, (window,), now, 0.0)


def over_shortest(plan: Plan, state: State, now: float, least_drafts: float) -> list[Record]:
    """Return an estimate record of every stream over the shortest window with so many drafts, else the last.

    Windows end at `now`.
    """
    return _over(plan, state, range(len(plan.windows)), now, least_drafts)


def _over(plan: Plan, state: State, choices: Sequence[int], now: float, least_drafts: float) -> list[Record]:
    """Return a record of every stream over the first of the windows with enough drafts, else the last."""
    at = np.full(len(state.identities), now)
    codes = streams.states(state, at, plan.limits)
    made = [
        estimates.from_sums(windows.over(state.sums, window, plan.windows[window], at)) for window in choices
    ]
    plain = [_plain_steps(plan, state, each) for each in made]
    enough = np.array([np.nan_to_num(each.drafts) >= least_drafts for each in made])
    enough[-1] = True
    return [
        {"type": "estimate", "at": events.number(now)}
        | _estimate(state, made[first], codes, row, plain[first])
        for row, first in enumerate(enough.argmax(0).tolist())
    ]


def totals(plan: Plan, state: State) -> list[Record]:
    """Return the summary record of every stream, and of every target that never gave one.

    Counts are summed over process lives. The state is that at the stream's last scrape.
    """
    codes = streams.states(state, _last_looks(state), plan.limits)
    made = estimates.from_sums(windows.total(state.sums))
    plain = _plain_steps(plan, state, made)
    records = [
        {"type": "summary", "at": events.number(state.status["last_at"][row])}
        | _estimate(state, made, codes, row, plain)
        | _life(state, row)
        for row in range(len(state.identities))
    ]
    return records + [
        _without_stream(state, name) for name, target in state.targets.items() if not target.rows
    ]


def _last_looks(state: State) -> npt.NDArray[np.float64]:
    """Return when the target of each stream was last looked at, whether the look gave a page or not."""
    return np.array([state.targets[identity.key.target].last_at for identity in state.identities], float)


def _plain_steps(plan: Plan, state: State, made: Estimates) -> PlainSteps:
    return worth.plain_steps(plan.told, state, np.arange(len(state.identities)), made.batch_size)


def payoff_record(plain: PlainSteps, made: Estimates, row: int) -> Record:
    """Return whether one stream's speculation pays, as JSON: the verdict, its interval and a sentence."""
    found = worth.verdict(plain, made, row)
    return {
        "outcome": found.outcome,
        "speedup": events.number(found.speedup),
        "speedup_low": events.number(found.low),
        "speedup_high": events.number(found.high),
        "plain_step_seconds": events.number(plain.seconds[row]),
        "origin": found.origin,
        "sentence": payoff.sentence(found),
    }


def _estimate(
    state: State,
    made: Estimates,
    codes: Sequence[int] | npt.NDArray[np.int64],
    row: int,
    plain: PlainSteps,
) -> Record:
    identity, status = state.identities[row], state.status[row]
    positions = int(np.isfinite(made.accepted[row]).sum())
    return {
        "stream": identity.id,
        "target": identity.key.target,
        "model_name": identity.key.model_name,
        "replica": identity.key.replica,
        "window_seconds": events.number(made.seconds[row]),
        "drafts": count(made.drafts[row]),
        "draft_tokens": count(made.draft_tokens[row]),
        "accepted_tokens": count(made.accepted_tokens[row]),
        "accepted": [count(value) for value in made.accepted[row, :positions]],
        "marginal": [events.number(value) for value in made.marginal[row, :positions]],
        "conditional": [events.number(value) for value in made.conditional[row, :positions]],
        **{name: events.number(getattr(made, name)[row]) for name in NUMBERS},
        "draft_token_acceptance_ratio": events.number(made.draft_token_acceptance_ratio[row]),
        "baseline_mal": events.number(status["baseline_mal"]),
        "score_down": events.number(status["score_down"]),
        "score_up": events.number(status["score_up"]),
        "payoff": payoff_record(plain, made, row),
        "state": STATES[codes[row]],
        "reason": streams.reason(state, row, STATES[codes[row]]) or None,
    }


def _life(state: State, row: int) -> Record:
    identity = state.identities[row]
    target = state.targets[identity.key.target]
    return {
        "engine": identity.engine or None,
        "engine_version": identity.engine_version or None,
        "num_speculative_tokens": identity.num_speculative_tokens or None,
        "scrapes_read": target.scrapes - sum(target.failures.values()),
        "scrapes_refused": dict(sorted(target.failures.items())),
        "restarts": int(state.ledger["restarts"][row]),
        "regimes": identity.regimes,
        "events": int(state.status["events"][row]),
        "violations": violations(state, row),
    }


def violations(state: State, row: int) -> dict[str, int]:
    """Return how often each data-quality check failed for a stream, checks that never did left out."""
    identity, status = state.identities[row], state.status[row]
    target = state.targets[identity.key.target]
    found = dict(
        zip(
            streams.CHECKS,
            (*status["violations"].tolist(), int(status["decreases"]), int(status["late"])),
            strict=False,
        )
    )
    found |= target.problems
    return {check: int(times) for check, times in found.items() if times}


def _without_stream(state: State, name: str) -> Record:
    target = state.targets[name]
    failure = target.failure
    schema = target.memory.schema
    return {
        "type": "summary",
        "at": events.number(target.last_at),
        "stream": None,
        "target": name,
        "model_name": None,
        "replica": None,
        "state": "unsupported" if failure is not None and failure.reason == "unsupported" else "stale",
        "reason": failure.detail if failure is not None else None,
        "engine": schema.engine.name if schema is not None else None,
        "scrapes_read": target.scrapes - sum(target.failures.values()),
        "scrapes_refused": dict(sorted(target.failures.items())),
    }


def count(value: float) -> int | float | None:
    """Return a count for JSON: an integer where it is one, None where unknown."""
    rounded = events.number(value)
    return int(rounded) if rounded is not None and rounded == int(rounded) else rounded
