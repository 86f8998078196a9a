"""LMDeploy 0.16 to 0.18: vLLM's counters under its own prefix, live at every step.

`iter_token_latency` is observed once per request and step, as vLLM's inter-token latency is;
`iteration_tokens_total` is, too, so it counts no engine steps. The mean gauges are averages over the
engine's life and are not read. Positions appear with the first draft, and without speculation the counters
are there and stay 0.
"""

from __future__ import annotations

import re

from monitor.core.pages.engines import columns, identity
from monitor.core.pages.engines.base import Counter, Engine

NAMES = columns.Names(
    counters={
        "spec_decode_num_drafts_total": Counter.DRAFTS,
        "spec_decode_num_draft_tokens_total": Counter.DRAFT_TOKENS,
        "spec_decode_num_accepted_tokens_total": Counter.ACCEPTED_TOKENS,
        "generation_tokens_total": Counter.GENERATION_TOKENS,
        "time_to_first_token_seconds_count": Counter.FIRST_TOKENS,
        "iter_token_latency_count": Counter.DECODE_OUTPUTS,
        "iter_token_latency_sum": Counter.DECODE_SECONDS,
        "request_prompt_tokens_sum": Counter.PROMPT_TOKENS,
        "request_generation_tokens_sum": Counter.OUTPUT_TOKENS,
        "request_generation_tokens_count": Counter.FINISHED_REQUESTS,
        "request_decode_time_seconds_sum": Counter.REQUEST_DECODE_SECONDS,
    },
    per_position=("spec_decode_num_accepted_tokens_per_pos_total",),
    running="num_requests_running",
)


ENGINE = Engine(
    name="lmdeploy",
    signature=re.compile(
        rb"\n(?P<prefix>(?:[a-zA-Z][a-zA-Z0-9_]*[_:])?lmdeploy[_:])"
        rb"(?:spec_decode_|generation_tokens|num_requests_|iteration_tokens|iter_token_latency|time_to_first_token)",
    ),
    wanted=NAMES.wanted,
    prepare=columns.preparing(NAMES),
    spellings=("lmdeploy:", "lmdeploy_"),
    identity=(identity.MODELS,),
    title="LMDeploy",
    versions="0.16 … 0.18",
    port=23333,
    tokens_flag="--speculative-num-draft-tokens {k}",
)
