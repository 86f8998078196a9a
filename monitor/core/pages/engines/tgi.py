"""Hugging Face TGI 3: an approximation from the tokens that came without a step of their own.

`tgi_request_skipped_tokens` is observed at every delivery of a request with the tokens beyond the first, the
delivery of prefill included. So its sum counts accepted tokens, and its count without one per finished
request the verifications. The page does not tell a draft that is never accepted from no speculation: a sum
that is still 0 is read as off unless `/info` says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core.pages.engines import columns, identity
from monitor.core.pages.engines.base import UNKNOWN, Counter, Engine, Evidence, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Series

DECODE_SECONDS = "batch_inference_duration_sum"
DECODE_STEPS = "batch_inference_duration_count"

NAMES = columns.Names(
    counters={
        "request_skipped_tokens_sum": Counter.ACCEPTED_TOKENS,
        "request_skipped_tokens_count": Counter.DECODE_OUTPUTS,
        "request_success": Counter.FIRST_TOKENS,
        "request_input_length_sum": Counter.PROMPT_TOKENS,
        "request_generated_tokens_sum": Counter.OUTPUT_TOKENS,
        "request_generated_tokens_count": Counter.FINISHED_REQUESTS,
        DECODE_SECONDS: Counter.ENGINE_STEP_SECONDS,
        DECODE_STEPS: Counter.ENGINE_STEPS,
    },
    second_choice={"request_success_total": Counter.FIRST_TOKENS},
    running="batch_current_size",
    labelled=False,
)


def prepare(series: Sequence[Series], prefix: str) -> Reader:
    """Return the reader of pages with these series."""
    # Prefill's steps stand beside those of decoding.
    kept = [
        index
        for index, each in enumerate(series)
        if each.name.removeprefix(prefix) not in (DECODE_SECONDS, DECODE_STEPS)
        or each.label("method") == "decode"
    ]
    page = columns.page(NAMES, [series[index] for index in kept], prefix)

    def read(values: Sequence[float], beside: Mapping[str, bytes]) -> tuple[Reading, ...]:
        facts = identity.facts(beside)
        return tuple(
            _approximate(each, facts) for each in page.read([values[index] for index in kept], beside)
        )

    return read


def _approximate(reading: Reading, facts: identity.Facts) -> Reading:
    counters = list(reading.counters)
    deliveries, skipped = counters[Counter.DECODE_OUTPUTS], counters[Counter.ACCEPTED_TOKENS]
    counters[Counter.GENERATION_TOKENS] = deliveries + skipped
    on = skipped > 0 if facts.speculating is None else facts.speculating
    if not on:
        counters[Counter.ACCEPTED_TOKENS] = UNKNOWN
    return replace(
        reading,
        model_name=facts.model_name,
        evidence=Evidence.STEPS if on else Evidence.NONE,
        counters=tuple(counters),
        speculating=on,
    )


ENGINE = Engine(
    name="tgi",
    signature=re.compile(rb"\n(?P<prefix>(?:[a-zA-Z][a-zA-Z0-9_]*[_:])?tgi_)(?:request_|batch_|queue_size)"),
    wanted=NAMES.wanted,
    prepare=prepare,
    spellings=("tgi_",),
    identity=(identity.INFO,),
    title="Hugging Face TGI",
    versions="3.x",
    port=8080,
    needs_beside=True,
    tokens_flag="--speculate {k}",
)
