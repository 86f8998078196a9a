"""The metric families of the latest steps, built anew on every collect from arrays with one row per stream.

Unknown is NaN in the arrays and absent on the page. Every family of streams carries `target`, `model_name`
and `replica`; every family of targets carries `target`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from monitor.metrics import expenses, textformat
from monitor.metrics.textformat import Column, Family

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LABELS_KEPT = 20_000
LABELS_SPARE = 500


@dataclass(frozen=True, slots=True)
class WindowTable:
    """Estimates over one window of every stream: [N] each, [N, P] by position, NaN where unknown.

    `name` is the window as Prometheus writes durations. Ratios are 0..1, times seconds.
    """

    name: str
    drafts: Floats
    mal: Floats
    mal_low: Floats
    mal_high: Floats
    marginal: Floats
    conditional: Floats
    draft_token_acceptance_ratio: Floats
    alpha: Floats
    coverage: Floats
    tokens_per_step: Floats
    step_seconds: Floats
    implied_tpot_seconds: Floats
    observed_tpot_seconds: Floats
    speedup: Floats


@dataclass(frozen=True, slots=True)
class LossTable:
    """What the open changes of N streams cost, [N] each, NaN where none is open: now and since the change.

    `tpot_log_shares` are the shares of ln(TPOT now ÷ before) by name.
    """

    tokens_per_second: Floats
    gpu_seconds_per_million_tokens: Floats
    gpu_hours_per_day: Floats
    money_per_day: Floats
    tokens: Floats
    gpu_hours: Floats
    money: Floats
    tpot_log_shares: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class StreamTable:
    """Everything the page says of N streams; arrays are [N] unless said otherwise, NaN where unknown.

    `labels` and `info` are label blocks (`stream_labels`, `info_labels`), made once per stream and kept.
    `drafts`, `draft_tokens`, `accepted_tokens` and `position_accepted_tokens` [N, P] are totals that never
    fall. `state` holds indices into `state_names`. `window` names the entry of `windows` whose interval is
    shown. `changes` counts by (kind, direction) and `violations` by check: name every key that can occur,
    zeros included, or the first occurrence is invisible to `increase()`.
    """

    labels: Sequence[str]
    info: Sequence[str]
    state_names: Sequence[str]
    state: NDArray[np.int64]
    drafts: Floats
    draft_tokens: Floats
    accepted_tokens: Floats
    position_accepted_tokens: Floats
    window: str
    windows: Sequence[WindowTable]
    baseline_mal: Floats
    score_down: Floats
    score_up: Floats
    last_change_at: Floats
    changes: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    violations: Mapping[str, Floats] = field(default_factory=dict)
    losses: LossTable | None = None


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One scrape target; times are unix seconds, `duration` seconds, NaN where there was no scrape yet."""

    name: str
    up: bool
    duration: float
    last_success_at: float
    scrapes: int
    failures: Mapping[str, int]
    dropped: int = 0


@lru_cache(maxsize=LABELS_KEPT)
def stream_labels(target: str, model_name: str, replica: str) -> str:
    """Return the label block that every sample of a stream starts with."""
    return textformat.labels({"target": target, "model_name": model_name, "replica": replica})


@lru_cache(maxsize=LABELS_KEPT)
def target_labels(target: str) -> str:
    """Return the label block of the families of a target."""
    return textformat.labels({"target": target})


@lru_cache(maxsize=LABELS_KEPT)
def info_labels(
    stream: str,
    *,
    engine: str,
    engine_version: str,
    draft_model: str,
    method: str,
    num_speculative_tokens: int,
    regime: str,
) -> str:
    """Return the label block of `specmon_target_info` after a stream's own; an unknown k (0) is empty."""
    pairs = {
        "engine": engine,
        "engine_version": engine_version,
        "draft_model": draft_model,
        "method": method,
        "num_speculative_tokens": str(num_speculative_tokens or ""),
        "regime": regime,
    }
    return f"{stream},{textformat.labels(pairs)}"


def forget_labels(streams: int, targets: int) -> None:
    """Begin the label blocks anew where far more are kept than there are streams and targets.

    Names that come and go for days would fill them: 20 MB for a page of twenty streams.
    """
    for blocks, shown in ((stream_labels, streams), (info_labels, streams), (target_labels, targets)):
        if blocks.cache_info().currsize > 2 * shown + LABELS_SPARE:
            blocks.cache_clear()


def stream_families(table: StreamTable) -> Iterator[Family]:
    """Yield the families of all streams in `table`."""
    yield Family(
        "specmon_target",
        "info",
        "What a stream runs on, always 1; other values for the same stream are a new regime.",
        (Column(table.info, np.ones(len(table.info))),),
    )
    yield from _totals(table)
    yield from _estimates(table)
    yield from _judgements(table)
    yield from _changes(table)
    yield from expenses.families(table.labels, table.losses)


def target_families(rows: Sequence[TargetRow]) -> Iterator[Family]:
    """Yield the families of the scrape targets themselves."""
    blocks = [target_labels(row.name) for row in rows]
    gauges = (
        (
            "up",
            "1 if the last scrape of the target gave a page that could be read.",
            [row.up for row in rows],
        ),
        ("scrape_duration_seconds", "Time that the last scrape took.", [row.duration for row in rows]),
        (
            "last_success_timestamp_seconds",
            "Unix time of the last scrape that gave a page that could be read.",
            [row.last_success_at for row in rows],
        ),
    )
    for name, help_text, values in gauges:
        yield Family(f"specmon_target_{name}", "gauge", help_text, (Column(blocks, values),))
    scrapes = Column(blocks, [row.scrapes for row in rows])
    yield Family("specmon_target_scrapes", "counter", "Scrapes of the target, good and failed.", (scrapes,))
    yield Family(
        "specmon_streams_dropped",
        "counter",
        "Streams without room, above scrape.max_streams_per_target or that of all; counted with every page.",
        (Column(blocks, [row.dropped for row in rows]),),
    )
    reasons = sorted({reason for row in rows for reason in row.failures})
    yield Family(
        "specmon_target_scrape_failures",
        "counter",
        "Scrapes that gave no page that could be read, by reason.",
        [
            Column(
                blocks,
                [row.failures.get(reason, np.nan) for row in rows],
                textformat.labels({"reason": reason}),
            )
            for reason in reasons
        ],
    )


_WINDOWED = (
    ("drafts", "window_drafts", "Drafts in the window: the evidence behind its estimates."),
    (
        "mal",
        "mean_acceptance_length",
        "1 + accepted tokens / drafts in the window, the bonus token included.",
    ),
    ("marginal", "position_acceptance_ratio", "Accepted at the position / drafts in the window."),
    (
        "conditional",
        "position_conditional_acceptance_ratio",
        "Accepted at the position / accepted at the one before it (at 0: / drafts) in the window.",
    ),
    (
        "draft_token_acceptance_ratio",
        "draft_token_acceptance_ratio",
        "Accepted tokens / draft tokens in the window; moves with k, is never judged and is not alpha.",
    ),
    (
        "alpha",
        "acceptance_alpha",
        "Model value: the constant conditional acceptance a with the same MAL, from (1-a^(k+1))/(1-a) = MAL.",
    ),
    ("coverage", "draft_coverage_ratio", "Share of decode steps in the window that carried a draft."),
    (
        "tokens_per_step",
        "tokens_per_step",
        "Tokens delivered / decode steps in the window, with or without a draft.",
    ),
    (
        "step_seconds",
        "step_seconds",
        "Mean time of one engine step in the window, draft and verification included.",
    ),
    ("implied_tpot_seconds", "implied_tpot_seconds", "Step time / tokens per step in the window."),
    (
        "observed_tpot_seconds",
        "observed_tpot_seconds",
        "Time per output token from the latencies of requests that finished in the window.",
    ),
    (
        "speedup",
        "speculation_speedup_ratio",
        "Plain step time / implied time per output token; only where the plain step time is known.",
    ),
)


def _totals(table: StreamTable) -> Iterator[Family]:
    scope = "since specmon has watched, across restarts of the engine"
    for name, help_text, values in (
        ("drafts", f"Proposals that the target model verified, {scope}.", table.drafts),
        ("draft_tokens", f"Tokens proposed in drafts, {scope}.", table.draft_tokens),
        ("accepted_tokens", f"Draft tokens that the target model kept, {scope}.", table.accepted_tokens),
        (
            "position_accepted_tokens",
            f"Draft tokens kept by position (0 first), {scope}.",
            table.position_accepted_tokens,
        ),
    ):
        yield Family(f"specmon_{name}", "counter", help_text, _columns(table.labels, values))


def _estimates(table: StreamTable) -> Iterator[Family]:
    for attribute, name, help_text in _WINDOWED:
        columns: list[Column] = []
        for window in table.windows:
            more = textformat.labels({"window": window.name})
            columns += _columns(table.labels, getattr(window, attribute), more)
        yield Family(f"specmon_{name}", "gauge", help_text, columns)
    shown = next((window for window in table.windows if window.name == table.window), None)
    if shown is None:
        names = [window.name for window in table.windows]
        msg = f"the interval's window is {table.window!r}, expected one of {names}"
        raise ValueError(msg)
    for end, values in (("low", shown.mal_low), ("high", shown.mal_high)):
        help_text = (
            f"{end.capitalize()} end of the 95 % interval of the mean acceptance length over {table.window}."
        )
        yield Family(
            f"specmon_mean_acceptance_length_{end}", "gauge", help_text, _columns(table.labels, values)
        )


def _judgements(table: StreamTable) -> Iterator[Family]:
    labels = table.labels
    yield Family(
        "specmon_baseline_mean_acceptance_length",
        "gauge",
        "Mean acceptance length of the regime in control; never follows a fall.",
        _columns(labels, table.baseline_mal),
    )
    yield Family(
        "specmon_drift_score",
        "gauge",
        "Evidence of a change / the limit of its detector: above 1 is an alarm, whatever the detector.",
        [
            Column(labels, table.score_down, 'direction="down"'),
            Column(labels, table.score_up, 'direction="up"'),
        ],
    )
    yield Family(
        "specmon_state",
        "gauge",
        "1 for the state that the stream is in, 0 for all others.",
        [
            Column(labels, table.state == code, textformat.labels({"state": name}))
            for code, name in enumerate(table.state_names)
        ],
    )


def _changes(table: StreamTable) -> Iterator[Family]:
    labels = table.labels
    changes = [
        Column(labels, values, textformat.labels({"kind": kind, "direction": direction}))
        for (kind, direction), values in table.changes.items()
    ]
    yield Family("specmon_changes", "counter", "Changes raised since specmon has watched.", changes)
    yield Family(
        "specmon_last_change_timestamp_seconds",
        "gauge",
        "Unix time at which the last change was raised.",
        _columns(labels, table.last_change_at),
    )
    violations = [
        Column(labels, values, textformat.labels({"check": check}))
        for check, values in table.violations.items()
    ]
    help_text = "Pages whose counters contradict each other, by the identity that they break."
    yield Family("specmon_data_quality_violations", "counter", help_text, violations)


def _columns(labels: Sequence[str], values: Floats, more: str = "") -> list[Column]:
    """Return one column for [N] values, one per position for [N, P]."""
    if values.ndim == 1:
        return [Column(labels, values, more)]
    after = f",{more}" if more else ""
    return [
        Column(labels, values[:, position], f'position="{position}"{after}')
        for position in range(values.shape[1])
    ]
