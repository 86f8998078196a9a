"""xLLM, page `/brpc_metrics`: counters of every step, without labels.

Newer builds count drafts and accepted tokens per position. Older ones count only draft tokens and accepted
tokens; the number of drafts is then draft tokens ÷ k, which only the operator knows. Known from its source,
not from a run: the label `position` is an assumption, and with tensor parallelism each worker service may
count the same step.
"""

from __future__ import annotations

import re

from monitor.core.pages.engines import columns
from monitor.core.pages.engines.base import Counter, Engine

NAMES = columns.Names(
    counters={
        "speculative_num_drafts_total": Counter.DRAFTS,
        "speculative_num_draft_tokens_total": Counter.DRAFT_TOKENS,
        "speculative_num_accepted_tokens_total": Counter.ACCEPTED_TOKENS,
        "server_request_total_ok": Counter.FINISHED_REQUESTS,
    },
    per_position=("speculative_num_accepted_tokens_per_pos",),
    running="num_concurrent_requests",
    labelled=False,
)


ENGINE = Engine(
    name="xllm",
    signature=re.compile(
        rb"\n(?P<prefix>(?:xllm_)?)"
        rb"(?:speculative_num_(?:drafts|draft_tokens|accepted_tokens)_total|xllm_(?:cpu|gpu)_(?:num|utilization)|"
        rb"server_request_total_(?:ok|limit|fail))[ \t{]",
    ),
    wanted=NAMES.wanted,
    prepare=columns.preparing(NAMES),
    title="xLLM",
    versions="0.6 … (source of 2026)",
    port=8010,
    path="/brpc_metrics",
    tokens_flag="--num_speculative_tokens={k}",
)
