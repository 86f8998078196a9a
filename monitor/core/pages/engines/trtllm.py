"""TensorRT-LLM 1.3 and newer, page `/prometheus/metrics`.

Two sets of counters: per position, drafted and accepted, credited when a request ends (position 0 drafted is
the number of drafts); and totals of every iteration, without the number of drafts, which is then draft tokens
÷ k as long as k is constant. The first is exact and is read as soon as a request has ended. A series that
is missing is 0: the client makes it with its first count. An early build had the totals as gauges of the last
iteration. `/metrics` of this engine is another thing: see `iterations`.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core.pages.engines import base, columns, identity
from monitor.core.pages.engines.base import UNKNOWN, Counter, Engine, Evidence, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Series

    _Named = tuple[int, str, Series]  # where a value stands, its name without the prefix, its series

DRAFTED = "spec_decode_drafted_tokens_total"
ACCEPTED = "spec_decode_accepted_tokens_total"
ACCEPTANCE_LENGTH = "spec_decode_acceptance_length"
GAUGES_OF_TOKENS = ("spec_decode_num_draft_tokens", "spec_decode_num_accepted_tokens")
SPECULATION_INFO = "speculative_config_info"
MODEL_INFO = "model_config_info"
POSITION = "token_position"
TRUE = frozenset({"true", "1"})

# Totals of every iteration; the rest of the page is credited when a request ends.
TOTALS: dict[str, Counter] = {
    "spec_decode_num_draft_tokens_total": Counter.DRAFT_TOKENS,
    "spec_decode_num_accepted_tokens_total": Counter.ACCEPTED_TOKENS,
}
NAMES = columns.Names(
    counters=TOTALS
    | {
        "generation_tokens_total": Counter.GENERATION_TOKENS,
        "time_to_first_token_seconds_count": Counter.FIRST_TOKENS,
        "request_success_total": Counter.FINISHED_REQUESTS,
        "prompt_tokens_total": Counter.PROMPT_TOKENS,
        "request_decode_time_seconds_sum": Counter.REQUEST_DECODE_SECONDS,
    },
    per_position=(ACCEPTED,),
    position_label=POSITION,
    running="num_requests_running",
)


def wanted(prefix: str) -> frozenset[str]:
    """Return the sample names to read on a page whose names begin with `prefix`."""
    return NAMES.wanted(
        prefix,
        DRAFTED,
        ACCEPTANCE_LENGTH,
        SPECULATION_INFO,
        MODEL_INFO,
        "kv_cache_utilization",
        *GAUGES_OF_TOKENS,
    )


def prepare(series: Sequence[Series], prefix: str) -> Reader:
    """Return the reader of pages with these series."""
    page = columns.page(NAMES, series, prefix)
    named = list(zip(range(len(series)), page.names, series, strict=True))
    plans = [
        _Plan(stream, [each for each in named if _is_of(stream, page.keys[each[0]], each[1])])
        for stream in page.streams
    ]

    def read(values: Sequence[float], beside: Mapping[str, bytes]) -> tuple[Reading, ...]:
        readings = page.read(values, beside)
        return tuple(plan.complete(reading, values) for plan, reading in zip(plans, readings, strict=True))

    return read


def _is_of(stream: columns.Stream, key: tuple[str, str], name: str) -> bool:
    """Return whether a sample says something of a stream; what is configured is said of a whole model."""
    return key == (stream.model_name, stream.replica) or (
        name in (SPECULATION_INFO, MODEL_INFO) and key[0] == stream.model_name
    )


class _Plan:
    """Where the rest of one model's values stands, and what its page says of the configuration."""

    def __init__(self, stream: columns.Stream, own: Sequence[_Named]) -> None:
        labels = {name: dict(each.labels) for _, name, each in own}
        speculation, model = labels.get(SPECULATION_INFO, {}), labels.get(MODEL_INFO, {})
        self.drafted = {
            position: index
            for index, name, each in own
            if name == DRAFTED and (position := base.index(each.label(POSITION))) >= 0
        }
        self.length = next((index for index, name, _ in own if name == ACCEPTANCE_LENGTH), None)
        self.enabled = speculation["spec_enabled"].lower() in TRUE if "spec_enabled" in speculation else None
        self.counted = any(name in TOTALS for name in stream.places)
        self.early = not self.counted and any(name in GAUGES_OF_TOKENS for _, name, _ in own)
        self.num_speculative_tokens = max(base.index(speculation.get("spec_num_tokens", "")), 0)
        known = {
            "draft_model": speculation.get("spec_draft_model", ""),
            "method": speculation.get("spec_method", ""),
            "target_model": model.get("model", ""),
            "quantization": model.get("quantization", ""),
        }
        self.config = tuple(
            (name, value) for name, value in known.items() if value and value.lower() != "none"
        )

    def complete(self, reading: Reading, values: Sequence[float]) -> Reading:
        """Return the reading with its drafts, from the best of what the page has."""
        counters = list(reading.counters)
        counters[Counter.OUTPUT_TOKENS] = counters[Counter.GENERATION_TOKENS]
        off = self.enabled is False or not (self.enabled or reading.speculating or self.early or self.drafted)
        by_position = 0 in self.drafted and values[self.drafted[0]] > 0
        depth = max(self.drafted, default=-1) + 1
        evidence, length = Evidence.STEPS, UNKNOWN
        accepted: tuple[float, ...] = ()
        if off:
            evidence = Evidence.NONE
        elif by_position:
            evidence = Evidence.REQUEST_END
            accepted = (reading.accepted + (0.0,) * depth)[:depth]
            counters[Counter.DRAFTS] = values[self.drafted[0]]
            counters[Counter.DRAFT_TOKENS] = sum([values[place] for place in self.drafted.values()])
            counters[Counter.ACCEPTED_TOKENS] = sum(accepted)
            counters[Counter.DECODE_SECONDS] = counters[Counter.REQUEST_DECODE_SECONDS]
        elif self.early and self.length is not None:
            evidence, length = Evidence.GAUGE, values[self.length]
        else:
            for column in TOTALS.values():
                counters[column] = 0.0 if math.isnan(counters[column]) else counters[column]
        return replace(
            reading,
            evidence=evidence,
            counters=tuple(counters),
            accepted=accepted,
            num_speculative_tokens=self.num_speculative_tokens or depth,
            speculating=not off,
            mean_acceptance_length=length,
            window_drafts=reading.running if evidence is Evidence.GAUGE else UNKNOWN,
            config=self.config or reading.config,
        )


ENGINE = Engine(
    name="trtllm",
    signature=re.compile(
        rb"\n(?P<prefix>(?:[a-zA-Z][a-zA-Z0-9_]*[_:])?trtllm[_:])"
        rb"(?:spec_decode_|speculative_config_info|model_config_info|generation_tokens|request_success|"
        rb"num_requests_|kv_cache_|time_to_first_token_seconds|e2e_request_latency_seconds|iteration_latency)",
    ),
    wanted=wanted,
    prepare=prepare,
    spellings=("trtllm_", "trtllm:"),
    identity=(identity.VERSION,),
    title="TensorRT-LLM",
    versions="1.3 and newer",
    port=8000,
    path="/prometheus/metrics",
    when_silent=(
        "acceptance_rate_threshold switches speculation off for good when acceptance falls below it, "
        "max_concurrency and draft_len_schedule while the batch is large"
    ),
    tokens_flag="speculative_config: {max_draft_len: {k}}",
    schedule_flag="speculative_config: {draft_len_schedule: {firsts}}",
)
