"""Which num_speculative_tokens a stream should have, from its own acceptance and step times, as JSON.

The cost of a step is taken from the fit of the stream's history where its draft length and batch size varied
enough. Else the plain step time at the present batch size (`worth`) and the present step time give the cost
of a draft token there; how that grows with the batch is then not known, so no schedule is made, and it is
said. Without a plain step time only what each token gains is told.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events
from monitor.core.counts import estimates, windows
from monitor.core.detectors.measures import evidence
from monitor.core.economics import advice, fits, payoff
from monitor.core.economics.advice import StepModel
from monitor.core.pages import engines
from monitor.core.streams import worth

if TYPE_CHECKING:
    from monitor.core.counts.estimates import Estimates
    from monitor.core.economics.advice import Advice
    from monitor.core.economics.payoff import Plain
    from monitor.core.streams import State
    from monitor.core.streams.plans import Plan

Record = dict[str, object]

NO_SCHEDULE = (
    "how the cost of a draft token grows with the batch size is not known: it needs a stream whose batch "
    "size and draft length vary, or `specmon calibrate` at several concurrencies; no schedule is given"
)
NO_COST = "what a draft token costs is not known: "
_OF_A_STEP = ("base_seconds", "per_request_seconds", "draft_seconds", "verify_seconds")
EXTRAPOLATED = "positions beyond the deepest one drafted are taken to be accepted as that one is"
VARYING = (
    "drafts had {mean:.2f} tokens on the mean, and how often a position beyond {measured} was drafted is not "
    "on the page: acceptance there is not known"
)


def over_life(plan: Plan, state: State) -> list[Record]:
    """Return the advice for each stream by everything that was counted of it."""
    made = estimates.from_sums(windows.total(state.sums))
    return [of_row(plan, state, made, row) for row in range(len(state.identities))]


def of_row(plan: Plan, state: State, made: Estimates, row: int) -> Record:
    """Return the advice for one stream by its estimates `made` (all streams, one window).

    `best` is None and `notes` says why where no k can be advised.
    """
    identity = state.identities[row]
    told = list(takewhile(math.isfinite, made.conditional[row].tolist()))
    conditional = told[: _drafted(made, row, len(told))]
    tokens = identity.num_speculative_tokens or len(told)
    notes = [] if len(conditional) == len(told) else [_varying(made, row, len(conditional))]
    record: Record = {"stream": identity.id, "num_speculative_tokens": tokens or None}
    if not conditional:
        why = "the page has no accepted tokens per position, or no drafts were counted"
        return record | _without(f"no advice: {why}", notes)
    model, scaled = _model(plan, state, made, row)
    if model is None:
        found_out = payoff.of(worth.observed(made, row), _plain(plan, state, made, row))
        notes.append(NO_COST + found_out.reason)
        return record | _without(_gains(conditional, tokens), notes) | {"gains": _gain_list(conditional)}
    batch_size = float(made.batch_size[row])
    marginal = [float(value) for value in made.marginal[row, : len(conditional)]]
    found = advice.of(conditional, marginal, model, batch_size, tokens)
    notes += [EXTRAPOLATED] if any(option.extrapolated for option in found.options) else []
    notes += [] if scaled else [NO_SCHEDULE]
    return (
        record
        | _as_json(found, batch_size, identity.engine, notes, scaled=scaled)
        | {
            "wasted_ratio": events.number(1.0 - made.draft_token_acceptance_ratio[row]),
            "step_model": {name: getattr(model, name) for name in _OF_A_STEP},
        }
    )


def _drafted(made: Estimates, row: int, positions: int) -> int:
    """Return how many of the positions nearly every draft had: only there a refusal is one."""
    if not positions:
        return 0
    one = slice(row, row + 1)
    length = np.fmin(np.nan_to_num(estimates.draft_length(made)[one], nan=np.inf), positions)
    unusual = np.full(1, np.nan)
    drafts, accepted = made.drafts[one], made.accepted[one, :positions]
    found = evidence.positions_drafted(accepted, drafts, length, np.array([positions]), unusual)
    return int(found[0])


def _varying(made: Estimates, row: int, measured: int) -> str:
    mean = float(estimates.draft_length(made)[row])
    return VARYING.format(mean=mean, measured=measured - 1)


def _plain(plan: Plan, state: State, made: Estimates, row: int) -> Plain | None:
    one = np.array([row])
    return worth.plain_steps(plan.told, state, one, made.batch_size[one], made.coverage[one]).at(0)


def _model(plan: Plan, state: State, made: Estimates, row: int) -> tuple[StepModel | None, bool]:
    """Return the step model of a stream, and whether it holds at other batch sizes than the present one."""
    batch_size, step = float(made.batch_size[row]), float(made.step_seconds[row])
    if not (batch_size > 0.0 and step > 0.0):
        return None, False
    fitted = _fitted(state, batch_size, row)
    if fitted is not None:
        return fitted, True
    plain = _plain(plan, state, made, row)
    drafted = float(made.draft_tokens[row] / made.drafts[row]) if made.drafts[row] > 0 else 0.0
    if plain is None or not drafted > 0.0:
        return None, False
    cost = max(step - plain.seconds, 0.0) / drafted
    return StepModel(plain.seconds, 0.0, cost), False


def _fitted(state: State, batch_size: float, row: int) -> StepModel | None:
    """Return the model of the stream's own history, None where it does not tell all of it."""
    history = np.repeat(state.step_times[row : row + 1], 4)
    batches = np.array([batch_size, batch_size, 2.0 * batch_size, 2.0 * batch_size])
    seconds = fits.at(history, batches, np.array([0.0, 1.0, 0.0, 1.0])).seconds
    if not np.isfinite(seconds).all():
        return None
    plain, one, wide, wide_one = seconds.tolist()
    per_request = max(wide - plain, 0.0) / batch_size
    verify = max((wide_one - wide) - (one - plain), 0.0) / batch_size
    draft = max((one - plain) - verify * batch_size, 0.0)
    return StepModel(max(plain - per_request * batch_size, 0.0), per_request, draft, verify)


def _gain_list(conditional: list[float]) -> list[float | None]:
    return [events.number(gain) for gain in np.cumprod(conditional).tolist()]


def _gains(conditional: list[float], tokens: int) -> str:
    known = min(tokens, len(conditional))
    gain = float(np.prod(conditional[:known]))
    which = f"the last of {tokens} draft tokens" if known == tokens else f"draft token {known} of {tokens}"
    return f"{which} adds {gain:.2f} tokens to a step; whether it pays is not known"


def _without(sentence: str, notes: list[str]) -> Record:
    return {"best": None, "sentence": sentence, "options": [], "schedule": [], "notes": notes, "flag": None}


def _as_json(advised: Advice, batch_size: float, engine: str, notes: list[str], *, scaled: bool) -> Record:
    runs = advice.steps_of(advised.schedule) if scaled else ()
    kept = advised.best == advised.current
    best, now = advised.options[advised.best], advised.options[min(advised.current, advice.DEEPEST)]
    faster = best.tokens_per_second / now.tokens_per_second - 1.0
    sentence = (
        f"keep num_speculative_tokens = {advised.current}: "
        f"no other k is faster by 2 % at a batch of {batch_size:.1f}"
        if kept
        else f"set num_speculative_tokens = {advised.best} instead of {advised.current}: "
        f"{faster:.0%} more tokens per second at a batch of {batch_size:.1f}".replace("%", " %")
    )
    return {
        "best": advised.best,
        "sentence": sentence,
        "batch_size": events.number(batch_size),
        "options": [
            {
                "num_speculative_tokens": option.num_speculative_tokens,
                "mal": events.number(option.mal),
                "tokens_per_second": events.number(option.tokens_per_second),
                "speedup": events.number(option.speedup),
                "gain": events.number(option.gain),
                "extrapolated": option.extrapolated,
            }
            for option in advised.options
        ],
        "schedule": [list(run) for run in runs],
        "stops_paying_at": advised.stops_paying_at if scaled else None,
        "dead_tail_from": advised.dead_tail_from,
        "flag": engines.flag(engine, advised.best),
        "schedule_flag": engines.schedule_flag(engine, runs) if runs else None,
        "notes": notes,
    }
