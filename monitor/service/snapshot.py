"""One look at the running service, for the pages and for `/metrics`.

Made in a moment on the event loop; what costs time (the estimates of all streams) is made when it is asked
for, on the reader's own thread, and kept for the rest of the request. The pipeline's state is only read
while `SnapshotParts.lock` is held; a step goes before all who wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

import numpy as np

import monitor
from monitor import metrics
from monitor.core import events, streams
from monitor.core.counts import estimates, windows
from monitor.core.events import event_records
from monitor.core.streams import advising, closeups, history, reference_files, summaries, told, worth
from monitor.core.vocabulary import DIRECTION_OF, EVENT_KINDS, STATES
from monitor.metrics import changes as open_changes
from monitor.service import open_events, rollouts, spending, stream_views
from monitor.settings import quantities
from monitor.sources import targets
from monitor.web import view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import numpy.typing as npt

    from monitor.core.pages import scrapes
    from monitor.core.pipeline import Plan
    from monitor.core.streams import State
    from monitor.metrics.textformat import Family
    from monitor.service.locking import StateLock
    from monitor.store import Store

FIRST_EXPORTED = 1  # of the plan's windows: what happened in a shorter one, rate() over the counters tells


@dataclass(slots=True)
class SnapshotParts:
    """What a snapshot is made from: the service's parts, and the lock that guards the state."""

    plan: Plan
    state: State
    store: Store
    lock: StateLock
    urls: Mapping[str, str]
    config: Callable[[], str]
    ready: Callable[[], tuple[bool, str]]
    self_families: Callable[[], Iterable[Family]]
    started_at: float
    revision: str = ""
    simulated: bool = False
    shown: stream_views.Shown = field(default_factory=stream_views.Shown)
    external_url: str = ""
    progress: Callable[[], str] = str


class Snapshot:
    """Implements `web.view.View` over `SnapshotParts` at one time."""

    def __init__(self, facts: SnapshotParts, now: float) -> None:
        self._facts = facts
        self.now = now
        self.version = monitor.__version__
        self.revision = facts.revision
        self.started_at = facts.started_at
        self.simulated = facts.simulated

    def streams(self) -> Sequence[view.StreamView]:
        """The streams of the listed targets; one of a target that is gone keeps its own page for a while."""
        return [stream for stream in self._streams if stream.target in self._facts.urls]

    def stream(self, stream_id: str) -> view.StreamView | None:
        """One stream by its id, or by its labels joined by `~`: rules and dashboards cannot make an id."""
        return next(
            (
                stream
                for stream in self._streams
                if stream_id in (stream.id, f"{stream.target}~{stream.model_name}~{stream.replica}")
            ),
            None,
        )

    def events(self, **wanted: Unpack[view.EventFilter]) -> Sequence[Mapping[str, object]]:
        """Events, newest first."""
        return [
            event_records.as_json(self._spending.at_present(each))
            for each in self._facts.store.events(**wanted)
        ]

    def event(self, event_id: str) -> Mapping[str, object] | None:
        """One event by its id."""
        found = self._facts.store.event(event_id)
        return None if found is None else event_records.as_json(self._spending.at_present(found))

    def changes(self) -> Sequence[Mapping[str, object]]:
        """What changed, newest first, of the streams that are shown."""
        with self._facts.lock:
            found = told.timeline(self._facts.state)
        return [each for each in found if each["stream"] is None or each["target"] in self._facts.urls]

    def history(self, stream_id: str, start: float, end: float) -> Sequence[view.ShownBucket]:
        """The buckets of a stream between two times, oldest first."""
        kept = self._facts.store.history(stream_id, start, end)
        made = estimates.from_sums(history.as_sums(kept))
        return [_bucket(bucket, made, row) for row, bucket in enumerate(kept)]

    def model_history(self, model_name: str, start: float, end: float) -> Sequence[view.ShownBucket]:
        """The buckets of all streams of a model together; of its only one where there is one."""
        alone = [stream.id for stream in self._streams if stream.model_name == model_name]
        key = history.model_key(model_name)
        together = self.history(key, start, end)
        return together or (self.history(alone[0], start, end) if len(alone) == 1 else [])

    def advice(self, stream_id: str) -> Mapping[str, object]:
        """The advice for one stream, from its longest window."""
        facts = self._facts
        with facts.lock:
            row = self._row(stream_id)
            longest = len(facts.plan.windows) - 1
            at = np.full(len(facts.state.identities), self.now)
            sums = windows.over(facts.state.sums, longest, facts.plan.windows[longest], at)
            return advising.of_row(facts.plan, facts.state, estimates.from_sums(sums), row)

    def references(self, model_name: str) -> Sequence[Mapping[str, object]]:
        """The model's references as people read them."""
        with self._facts.lock:
            known = self._facts.state.references.known.values()
            found = [each for each in known if each.key.model_name == model_name]
            return [reference_files.described(each) for each in reversed(found)]

    def closeup(self, stream_id: str) -> Mapping[str, object]:
        """The close look at one stream."""
        facts = self._facts
        with facts.lock:
            row = self._row(stream_id)
            return closeups.of_row(facts.plan, facts.state, row, self.now, stream_views.ENOUGH_DRAFTS)

    def verdict(
        self, sides: tuple[Sequence[str], Sequence[str]], since: float | None, margin: float
    ) -> Mapping[str, object]:
        """The word on the second side's streams against the first's, from their history."""
        kept = rollouts.StateAndHistory(self._facts.state, self._facts.lock, self._facts.store)
        return rollouts.compared(kept, sides, (since, self.now), margin)

    def targets(self) -> Sequence[view.TargetView]:
        """All scrape targets, those that were never scraped too."""
        facts = self._facts
        with facts.lock:
            return [_target(facts, name) for name in facts.urls]

    def config(self) -> str:
        """The effective settings as YAML, secrets masked."""
        return self._facts.config()

    @property
    def progress(self) -> str:
        """How far the past has been read, while it is."""
        return self._facts.progress()

    def ready(self) -> tuple[bool, str]:
        """Whether all loops run."""
        return self._facts.ready()

    def families(self, target: str | None = None) -> Iterable[Family]:
        """The metric families, of one target if asked."""
        facts = self._facts
        with facts.lock:
            names = [name for name in facts.state.targets if name in facts.urls and target in (None, name)]
            rows = sorted(row for name in names for row in facts.state.targets[name].rows)
            table = _stream_table(facts, self.now, np.array(rows, np.intp))
            looked = [_target_row(facts, name) for name in names]
            of_streams = open_events.of_streams(facts.state, rows, facts.external_url)
            of_models = open_events.of_models(facts.state, facts.external_url) if target is None else []
        yield from metrics.stream_families(table)
        yield from open_changes.families(of_streams, of_models)
        yield from metrics.target_families(looked)
        if target is None:
            metrics.forget_labels(len(rows), len(names))
            yield from facts.self_families()

    def _row(self, stream_id: str) -> int:
        found = self.stream(stream_id)
        return next(n for n, each in enumerate(self._facts.state.identities) if found and each.id == found.id)

    @cached_property
    def _streams(self) -> list[view.StreamView]:
        facts = self._facts
        source = stream_views.StateNow(facts.plan, facts.state, facts.lock)
        return stream_views.now(source, facts.shown, self.now)

    @cached_property
    def _spending(self) -> spending.Spending:
        with self._facts.lock:
            return spending.Spending(self._facts.plan, self._facts.state)


def _target(facts: SnapshotParts, name: str) -> view.TargetView:
    target = facts.state.targets.get(name)
    url = targets.shown(facts.urls[name]) if name in facts.urls else ""
    if target is None:
        return view.TargetView(name, url, up=False)
    schema = target.memory.schema
    reason = target.failure.reason if target.failure else ""
    detail = target.failure.detail if target.failure else ""
    return view.TargetView(
        name=name,
        url=url,
        up=target.failure is None,
        engine=schema.engine.name if schema else "",
        last_scrape_at=events.number(target.last_at),
        last_success_at=events.number(target.good_at),
        duration=events.number(target.duration),
        error_reason=reason,
        error_detail=detail,
        failures=dict(target.failures),
        unrecognised=detail if reason in ("unrecognised", "unsupported") else "",
        streams=[facts.state.identities[row].id for row in sorted(target.rows)],
    )


def _target_row(facts: SnapshotParts, name: str) -> metrics.TargetRow:
    target = facts.state.targets[name]
    return metrics.TargetRow(
        name=name,
        up=target.failure is None and target.scrapes > 0,
        duration=target.duration,
        last_success_at=target.good_at,
        scrapes=target.scrapes,
        failures=dict(target.failures),
        dropped=target.dropped,
    )


def _stream_table(facts: SnapshotParts, now: float, rows: npt.NDArray[np.intp]) -> metrics.StreamTable:
    state = facts.state
    at = np.full(len(rows), now)
    sums = state.sums[rows]
    status = state.status[rows]
    total = windows.total(sums)
    counters = np.where(total.known, total.vectors[:, windows.COUNTERS], np.nan)
    identities = [state.identities[row] for row in rows]
    blocks = [_labels(identity.key) for identity in identities]
    drafts, draft_tokens, accepted_tokens = counters[:, 0], counters[:, 1], counters[:, 2]
    return metrics.StreamTable(
        labels=blocks,
        info=[_info(identity, block) for identity, block in zip(identities, blocks, strict=True)],
        state_names=STATES,
        state=streams.states(state, np.full(len(state.identities), now), facts.plan.limits)[rows],
        drafts=drafts,
        draft_tokens=draft_tokens,
        accepted_tokens=accepted_tokens,
        position_accepted_tokens=estimates.from_sums(total).accepted,
        window=quantities.duration_text(facts.plan.windows[1]),
        windows=[
            _window(quantities.duration_text(length), windows.over(sums, window, length, at), facts, rows)
            for window, length in enumerate(facts.plan.windows)
            if window >= FIRST_EXPORTED
        ],
        baseline_mal=status["baseline_mal"],
        score_down=status["score_down"],
        score_up=status["score_up"],
        last_change_at=np.array([identity.last_change_at for identity in identities], float),
        changes=_changes(identities),
        violations=_violations(state, rows),
        losses=spending.Spending(facts.plan, state).table(rows),
    )


def _window(
    name: str, sums: windows.Sums, facts: SnapshotParts, rows: npt.NDArray[np.intp]
) -> metrics.WindowTable:
    made = estimates.from_sums(sums)
    return metrics.WindowTable(
        name=name,
        drafts=made.drafts,
        mal=made.mal,
        mal_low=made.mal_low,
        mal_high=made.mal_high,
        marginal=made.marginal,
        conditional=made.conditional,
        draft_token_acceptance_ratio=made.draft_token_acceptance_ratio,
        alpha=made.alpha,
        coverage=made.coverage,
        tokens_per_step=made.tokens_per_step,
        step_seconds=made.step_seconds,
        implied_tpot_seconds=made.implied_tpot_seconds,
        observed_tpot_seconds=made.observed_tpot_seconds,
        speedup=worth.speedups(
            worth.plain_steps(facts.plan.told, facts.state, rows, made.batch_size, made.coverage), made
        ),
    )


def _labels(key: scrapes.StreamKey) -> str:
    return metrics.stream_labels(key.target, key.model_name, key.replica)


def _info(identity: streams.Identity, block: str) -> str:
    return metrics.info_labels(
        block,
        engine=identity.engine,
        engine_version=identity.engine_version,
        draft_model=identity.config.get("draft_model", ""),
        method=identity.config.get("method", ""),
        num_speculative_tokens=identity.num_speculative_tokens,
        regime=str(identity.regimes),
    )


def _changes(identities: Sequence[streams.Identity]) -> dict[tuple[str, str], npt.NDArray[np.float64]]:
    """Return how often each (kind, direction) has begun on each stream, 0 included."""
    return {
        (kind, DIRECTION_OF[kind]): np.array(
            [identity.change_counts.get(kind, 0) for identity in identities], np.float64
        )
        for kind in EVENT_KINDS
    }


def _violations(state: State, rows: npt.NDArray[np.intp]) -> dict[str, npt.NDArray[np.float64]]:
    found = {check: np.zeros(len(rows)) for check in streams.CHECKS}
    for index, row in enumerate(rows):
        for check, times in summaries.violations(state, int(row)).items():
            found[check][index] = times
    return found


def _bucket(kept: history.HistoryBucket, made: estimates.Estimates, row: int) -> view.ShownBucket:
    return view.ShownBucket(
        at=kept.at,
        seconds=kept.seconds,
        drafts=events.number(kept.drafts),
        accepted_tokens=events.number(kept.accepted_tokens),
        mal=events.number(made.mal[row]),
        mal_low=events.number(made.mal_low[row]),
        mal_high=events.number(made.mal_high[row]),
        baseline_mal=events.number(kept.baseline_mal),
        tokens_per_step=events.number(made.tokens_per_step[row]),
        step_seconds=events.number(made.step_seconds[row]),
        coverage=events.number(made.coverage[row]),
        implied_tpot_seconds=events.number(made.implied_tpot_seconds[row]),
        state=kept.state,
    )
