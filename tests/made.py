"""Readings and scrapes for tests, with only what a test is about spelt out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from monitor.core import pipeline
from monitor.core.counts import windows
from monitor.core.counts.deltas import Counts
from monitor.core.pages.engines.base import NUM_COUNTERS, UNKNOWN, Counter, Evidence, Reading
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.core.streams import checkpoint
from monitor.service import snapshot
from monitor.service.locking import StateLock
from monitor.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from monitor.core.events import Event
    from monitor.core.pipeline import Plan
    from monitor.core.streams import State

MODEL_NAME = "org/model"
START = 1_700_000_000.0
INTERVAL = 15.0


class Marks(TypedDict, total=False):
    """What a page says of when its counters began, unix seconds."""

    started_at: float
    created_at: float


def reading(
    accepted: Sequence[float] = (),
    *,
    drafts: float = UNKNOWN,
    started_at: float = UNKNOWN,
    created_at: float = UNKNOWN,
    replica: str = "0",
    more: Mapping[Counter, float] | None = None,
) -> Reading:
    """Return a reading: `accepted` per position, draft tokens and the sum of accepted ones derived, `more` on top."""
    counters = [UNKNOWN] * NUM_COUNTERS
    counters[Counter.DRAFTS] = drafts
    counters[Counter.DRAFT_TOKENS] = drafts * len(accepted) if accepted else UNKNOWN
    counters[Counter.ACCEPTED_TOKENS] = sum(accepted) if accepted else UNKNOWN
    for counter, value in (more or {}).items():
        counters[counter] = value
    speculating = not math.isnan(drafts)
    return Reading(
        model_name=MODEL_NAME,
        replica=replica,
        evidence=Evidence.STEPS if speculating else Evidence.NONE,
        counters=tuple(counters),
        accepted=tuple(accepted),
        num_speculative_tokens=len(accepted),
        speculating=speculating,
        started_at=started_at,
        created_at=created_at,
    )


def page(
    accepted: Sequence[float] = (),
    *,
    drafts: float | None = None,
    draft_tokens: float | None = None,
    more: Mapping[str, float] | None = None,
    started_at: float | None = None,
    model_name: str = MODEL_NAME,
    replica: str = "0",
) -> bytes:
    """Return a vLLM page with these counters; `more` by sample name without the prefix."""
    labels = f'engine="{replica}",model_name="{model_name}"'
    values = dict(more or {})
    if drafts is not None:
        values["spec_decode_num_drafts_total"] = drafts
        values["spec_decode_num_draft_tokens_total"] = (
            drafts * len(accepted) if draft_tokens is None else draft_tokens
        )
        values["spec_decode_num_accepted_tokens_total"] = sum(accepted)
    lines = [f"vllm:{name}{{{labels}}} {float(value)!r}" for name, value in values.items()]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},position="{j}"}} {float(value)!r}'
        for j, value in enumerate(accepted)
    ]
    if started_at is not None:
        lines.append(f"process_start_time_seconds {started_at!r}")
    return ("# HELP vllm:num_requests_running .\n" + "\n".join(lines) + "\n").encode()


def steady(n: int) -> bytes:
    """Return the n-th page of a steady stream: 100 drafts a page, 3 positions."""
    return page((80 * n, 60 * n, 40 * n), drafts=100 * n, more={"generation_tokens_total": 280 * n})


def looks(bodies: Sequence[bytes | Failure], target: str = "t") -> list[Scrape]:
    """Return looks at one target, INTERVAL apart."""
    return [
        Scrape(target, START + INTERVAL * n, failure=body)
        if isinstance(body, Failure)
        else Scrape(target, START + INTERVAL * n, body=body)
        for n, body in enumerate(bodies)
    ]


def counts(
    accepted: npt.ArrayLike,
    drafts: npt.ArrayLike,
    *,
    at: float = 0.0,
    seconds: float = 15.0,
    num_positions: int = 8,
    more: Mapping[Counter, npt.ArrayLike] | None = None,
) -> Counts:
    """Return the counts of one interval: `drafts` [B], `accepted` [B, k] or empty where there are no positions."""
    num_rows, per_position = np.size(drafts), np.asarray(accepted)
    positions = per_position.shape[1] if per_position.size else 0
    values = np.full((num_rows, NUM_COUNTERS), UNKNOWN)
    padded = np.zeros((num_rows, num_positions))
    values[:, Counter.DRAFTS] = drafts
    if positions:
        padded[:, :positions] = accepted
        values[:, Counter.DRAFT_TOKENS] = np.asarray(drafts) * positions
        values[:, Counter.ACCEPTED_TOKENS] = padded.sum(1)
    for counter, column in (more or {}).items():
        values[:, counter] = column
    no = np.zeros(num_rows, bool)
    return Counts(
        rows=np.arange(num_rows),
        at=np.full(num_rows, at),
        seconds=np.full(num_rows, seconds),
        values=values,
        accepted=padded,
        positions=np.full(num_rows, positions),
        num_speculative_tokens=np.full(num_rows, positions),
        evidence=np.full(num_rows, int(Evidence.STEPS)),
        restarted=no,
        gap=no,
        new_regime=no,
    )


def sums(counted: Counts) -> windows.Sums:
    """Return the sums of a window that holds one interval."""
    state = np.zeros(len(counted.rows), windows.dtype(1, counted.accepted.shape[1]))
    windows.add(state, counted, (60.0,))
    return windows.total(state)


def parts(
    plan: Plan, state: State, urls: Mapping[str, str], kept: Store | None = None, *, started_at: float = START
) -> snapshot.SnapshotParts:
    """Return what a look at a service would be made from that has this state."""
    return snapshot.SnapshotParts(
        plan=plan,
        state=state,
        store=kept or Store(""),
        lock=StateLock(),
        urls=urls,
        config=str,
        ready=lambda: (True, ""),
        self_families=list,
        started_at=started_at,
    )


def array(values: Sequence[float]) -> npt.NDArray[np.float64]:
    """Return numbers as the core takes them."""
    return np.array(values, np.float64)


def events(ticks: Sequence[Sequence[Scrape]], *, cut: int | None = None) -> list[Event]:
    """Return the events of a history; the state is saved and restored before tick `cut`."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    found: list[Event] = []
    for number, tick in enumerate(ticks):
        if number == cut:
            state = checkpoint.thaw(plan, checkpoint.freeze(state))
        found += pipeline.step(plan, state, tick).events
    return found
