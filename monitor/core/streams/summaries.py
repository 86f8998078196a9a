"""What is said of a stream as JSON: an estimate over a window, and the summary of everything counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events, streams
from monitor.core.counts import estimates, windows
from monitor.core.economics import payoff
from monitor.core.pages.engines.base import Counter
from monitor.core.streams import worth
from monitor.core.vocabulary import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from monitor.core.counts.estimates import Estimates
    from monitor.core.counts.windows import Sums
    from monitor.core.streams import Identity, State
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

_SINGLE = {name: name for name in NUMBERS} | {"window_seconds": "seconds"}


def over_window(plan: Plan, state: State, window: int, now: float) -> list[Record]:
    """Return an estimate record of every stream over one of the plan's windows that ends at `now`."""
    at = np.full(len(state.identities), now)
    made = estimates.from_sums(windows.over(state.sums, window, plan.windows[window], at))
    look = _look(plan, state, made, streams.states(state, at, plan.limits))
    return [{"type": "estimate", "at": events.number(now)} | record for record in _records(state, look)]


def over_shortest(plan: Plan, state: State, now: float, least_drafts: float) -> list[Estimated]:
    """Return an estimate of every stream over the shortest window with so many drafts, else over the last.

    Windows end at `now`. The records are of this moment: a later step does not change them.
    """
    at = np.full(len(state.identities), now)
    made = estimates.from_sums(shortest(plan, state.sums, at, least_drafts))
    look = _look(plan, state, made, streams.states(state, at, plan.limits))
    identities = state.identities
    return [
        Estimated(look, row, identities[row], streams.reason(state, row, look.states[row]), now)
        for row in range(len(identities))
    ]


def shortest(plan: Plan, table: npt.NDArray[np.void], times: npt.NDArray[np.float64], least: float) -> Sums:
    """Return the sums of each row of `table` over the shortest window with so many drafts, else the last.

    Windows end at `times` [N].
    """
    each = [windows.over(table, window, length, times) for window, length in enumerate(plan.windows)]
    drafts = np.array([sums.vectors[:, windows.COUNTERS.start + Counter.DRAFTS] for sums in each])
    enough = drafts >= least
    enough[-1] = True
    return windows.picked(each, enough.argmax(0))


class Estimated(Mapping[str, object]):
    """An estimate record of a stream that is made when something of it is asked for.

    A page shows a few of thousands of streams, and of most others no more than one number.
    """

    __slots__ = ("_identity", "_look", "_made", "_now", "_row", "reason", "state")

    def __init__(self, look: _Look, row: int, identity: Identity, reason: str, now: float) -> None:
        self._look, self._row, self._identity, self._now = look, row, identity, now
        self.state, self.reason = look.states[row], reason
        self._made: Record | None = None

    def __getitem__(self, name: str) -> object:
        """Return a field; one number alone does not make the record."""
        if self._made is None and name in _SINGLE:
            return events.number(getattr(self._look.made, _SINGLE[name])[self._row])
        return self._record()[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the fields' names."""
        return iter(self._record())

    def __len__(self) -> int:
        """Return how many fields there are."""
        return len(self._record())

    def _record(self) -> Record:
        if self._made is None:
            head: Record = {"type": "estimate", "at": events.number(self._now)}
            self._made = head | _estimate(self._look, self._row, self._identity, self.reason)
        return self._made


@dataclass(frozen=True, slots=True)
class _Look:
    """What records of all streams are made from, of one moment; the status is a copy."""

    made: Estimates
    plain: PlainSteps
    states: Sequence[str]
    status: npt.NDArray[np.void]


def _look(plan: Plan, state: State, made: Estimates, codes: npt.NDArray[np.int64]) -> _Look:
    names = [STATES[code] for code in codes.tolist()]
    return _Look(made, _plain_steps(plan, state, made), names, state.status.copy())


def _records(state: State, look: _Look) -> Iterator[Record]:
    for row, identity in enumerate(state.identities):
        yield _estimate(look, row, identity, streams.reason(state, row, look.states[row]))


def totals(plan: Plan, state: State) -> list[Record]:
    """Return the summary record of every stream, and of every target that never gave one.

    Counts are summed over process lives. The state is that at the stream's last scrape.
    """
    codes = streams.states(state, _last_looks(state), plan.limits)
    made = estimates.from_sums(windows.total(state.sums))
    records = [
        {"type": "summary", "at": events.number(state.status["last_at"][row])} | record | _life(state, row)
        for row, record in enumerate(_records(state, _look(plan, state, made, codes)))
    ]
    return records + [
        _without_stream(state, name) for name, target in state.targets.items() if not target.rows
    ]


def _last_looks(state: State) -> npt.NDArray[np.float64]:
    """Return when the target of each stream was last looked at, whether the look gave a page or not."""
    return np.array([state.targets[identity.key.target].last_at for identity in state.identities], float)


def _plain_steps(plan: Plan, state: State, made: Estimates) -> PlainSteps:
    return worth.plain_steps(
        plan.told, state, np.arange(len(state.identities)), made.batch_size, made.coverage
    )


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


def _estimate(look: _Look, row: int, identity: Identity, reason: str) -> Record:
    made, status = look.made, look.status[row]
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
        "payoff": payoff_record(look.plain, made, row),
        "state": look.states[row],
        "reason": reason or None,
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
