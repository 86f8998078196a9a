"""xLLM, page `/brpc_metrics`: counters of every step, without labels.

Newer builds count drafts and accepted tokens per position. Older ones count only draft tokens and accepted
tokens; the number of drafts is then draft tokens ÷ k, which only the operator knows. Known from its source,
not from a run: the label `position` is an assumption, and with tensor parallelism each worker service may
count the same step. All are doubles printed with six digits: above a million the last ones are lost, of the
total before those of the positions.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core.pages.engines import base, columns
from monitor.core.pages.engines.base import Counter, Engine, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Series

NAMES = columns.Names(
    counters={
        "speculative_num_drafts_total": Counter.DRAFTS,
        "speculative_num_draft_tokens_total": Counter.DRAFT_TOKENS,
        "speculative_num_accepted_tokens_total": Counter.ACCEPTED_TOKENS,
        "num_processing_tokens_total_generated": Counter.GENERATION_TOKENS,
        "server_request_total_ok": Counter.FINISHED_REQUESTS,
    },
    per_position=("speculative_num_accepted_tokens_per_pos",),
    running="num_concurrent_requests",
    labelled=False,
)


def prepare(series: Sequence[Series], prefix: str) -> Reader:
    """Return the reader of pages with these series."""
    page = columns.page(NAMES, series, prefix)

    def read(values: Sequence[float], beside: Mapping[str, bytes]) -> tuple[Reading, ...]:
        return tuple(_widened(reading) for reading in page.read(values, beside))

    return read


def _widened(reading: Reading) -> Reading:
    """Return the reading with what the page's few digits allow."""
    counters = list(reading.counters)
    if reading.accepted:
        counters[Counter.ACCEPTED_TOKENS] = sum(reading.accepted)
    return replace(reading, counters=tuple(counters), resolution=base.last_digit(counters[Counter.DRAFTS]))


ENGINE = Engine(
    name="xllm",
    signature=re.compile(
        rb"\n(?P<prefix>(?:xllm_)?)"
        rb"(?:speculative_num_(?:drafts|draft_tokens|accepted_tokens)_total|xllm_(?:cpu|gpu)_(?:num|utilization)|"
        rb"server_request_total_(?:ok|limit|fail))[ \t{]",
    ),
    wanted=NAMES.wanted,
    prepare=prepare,
    spellings=("", "xllm_"),
    title="xLLM",
    versions="0.6 … (source of 2026)",
    port=8010,
    path="/brpc_metrics",
    tokens_flag="--num_speculative_tokens={k}",
)
