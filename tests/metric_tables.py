"""Tables of streams for tests and benchmarks of the metrics page."""

from __future__ import annotations

import numpy as np

from monitor import metrics
from monitor.core.vocabulary import DIRECTION_OF, STATES, TROUBLES
from monitor.metrics import changes

KINDS = tuple((kind, DIRECTION_OF[kind]) for kind in TROUBLES)


def stream_table(
    streams: int, window_names: tuple[str, ...] = ("5m",), positions: int = 4
) -> metrics.StreamTable:
    """Return a table of `streams` healthy streams with every value known and drawn from a fixed seed."""
    rng = np.random.default_rng(7)
    labels = [
        metrics.stream_labels(f"vllm-{row:04d}.serving:8000", "meta-llama/Llama-3.3-70B-Instruct", "0")
        for row in range(streams)
    ]
    drafts = rng.integers(10_000, 90_000_000, streams).astype(np.float64)
    conditional = rng.uniform(0.5, 0.9, (streams, positions))
    marginal = np.cumprod(conditional, axis=1, dtype=np.float64)
    accepted = np.rint(marginal * drafts[:, None])
    return metrics.StreamTable(
        labels=labels,
        info=[info_block(block, positions) for block in labels],
        state_names=STATES,
        state=np.ones(streams, dtype=np.int64),
        drafts=drafts,
        draft_tokens=drafts * positions,
        accepted_tokens=accepted.sum(axis=1),
        position_accepted_tokens=accepted,
        window=window_names[0],
        windows=[window_table(name, marginal, conditional, rng) for name in window_names],
        baseline_mal=1 + marginal.sum(axis=1),
        score_down=rng.uniform(0, 0.5, streams),
        score_up=rng.uniform(0, 0.5, streams),
        last_change_at=np.full(streams, 1.7e9),
        changes={key: np.zeros(streams) for key in KINDS},
        violations={"accepted_sum": np.zeros(streams)},
    )


def open_change(labels: str, scope: str = "replica") -> changes.Change:
    """Return an open collapse of what the labels name, of which everything is known."""
    return changes.Change(
        labels=labels,
        event="c0ffee",
        kind="collapse",
        severity="critical",
        scope=scope,
        report="https://specmon.example/report/events/c0ffee",
        before=3.31,
        after=1.24,
        since=1.7e9,
        benefit_lost_ratio=0.9,
        slowdown=2.6,
        causes={"draft": 1.0},
    )


def info_block(stream: str, positions: int) -> str:
    """Return the labels of what a stream runs on."""
    return metrics.info_labels(
        stream,
        engine="vllm",
        engine_version="0.32.0",
        draft_model="yuhuili/EAGLE3-LLaMA3.3-Instruct-70B",
        method="eagle3",
        num_speculative_tokens=positions,
        regime="9f2c41d0",
    )


def window_table(
    name: str, marginal: metrics.Floats, conditional: metrics.Floats, rng: np.random.Generator
) -> metrics.WindowTable:
    """Return estimates that agree with each other, one row per stream."""
    mal: metrics.Floats = 1 + marginal.sum(axis=1)
    step_seconds = rng.uniform(0.01, 0.03, len(mal))
    return metrics.WindowTable(
        name=name,
        drafts=np.rint(rng.uniform(1e3, 1e5, len(mal))),
        mal=mal,
        mal_low=mal - 0.01,
        mal_high=mal + 0.01,
        marginal=marginal,
        conditional=conditional,
        draft_token_acceptance_ratio=marginal.mean(axis=1),
        alpha=conditional.mean(axis=1),
        coverage=rng.uniform(0.9, 1.0, len(mal)),
        tokens_per_step=mal * 0.97,
        step_seconds=step_seconds,
        implied_tpot_seconds=step_seconds / mal,
        observed_tpot_seconds=step_seconds / mal * 1.05,
        speedup=mal * 0.8,
    )


def loss_table() -> metrics.LossTable:
    """Return what the open change of one stream costs: twelve GPU-hours a day, an hour so far."""
    return metrics.LossTable(
        tokens_per_second=np.array([450.0]),
        gpu_seconds_per_million_tokens=np.array([2000.0]),
        gpu_hours_per_day=np.array([12.0]),
        money_per_day=np.array([30.0]),
        tokens=np.array([1.5e6]),
        gpu_hours=np.array([1.0]),
        money=np.array([2.5]),
        tpot_log_shares={"acceptance": np.array([0.4]), "batch": np.array([-0.1])},
    )
