"""llama.cpp's `llama-server` (b11xxx, August 2026 and newer): counters that move when a request ends.

The page has no labels and no model: `/props` has both. Its doubles are printed with six digits, so above a
million the last ones are lost; the counts per position are integers, absent before the first request with a
draft has ended. Without speculation the families are there and stay 0.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core.pages.engines import base, columns, identity
from monitor.core.pages.engines.base import Counter, Engine, Evidence, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Series


COUNTERS: dict[str, Counter] = {
    "spec_decode_num_drafts_total": Counter.DRAFTS,
    "spec_decode_num_draft_tokens_total": Counter.DRAFT_TOKENS,
    "spec_decode_num_accepted_tokens_total": Counter.ACCEPTED_TOKENS,
    "tokens_predicted_total": Counter.GENERATION_TOKENS,
    "tokens_predicted_seconds_total": Counter.DECODE_SECONDS,
    "n_decode_total": Counter.ENGINE_STEPS,
}
NAMES = columns.Names(
    counters=COUNTERS,
    second_choice={name.removesuffix("_total"): counter for name, counter in COUNTERS.items()},
    per_position=(
        "spec_decode_num_accepted_tokens_per_pos_total",
        "spec_decode_num_accepted_tokens_per_pos",
    ),
    running="requests_processing",
    labelled=False,
    evidence=Evidence.REQUEST_END,
)


def prepare(series: Sequence[Series], prefix: str) -> Reader:
    """Return the reader of pages with these series."""
    page = columns.page(NAMES, series, prefix)

    def read(values: Sequence[float], beside: Mapping[str, bytes]) -> tuple[Reading, ...]:
        name = identity.facts(beside).model_name
        return tuple(_widened(reading, name) for reading in page.read(values, beside))

    return read


def _widened(reading: Reading, model_name: str) -> Reading:
    """Return the reading with what the page's few digits allow, named as `/props` names the model."""
    counters = list(reading.counters)
    if reading.accepted:
        counters[Counter.ACCEPTED_TOKENS] = sum(reading.accepted)  # exact, which the total is not
    counters[Counter.OUTPUT_TOKENS] = counters[Counter.GENERATION_TOKENS]
    counters[Counter.REQUEST_DECODE_SECONDS] = counters[Counter.DECODE_SECONDS]
    drafts = counters[Counter.DRAFTS]
    off = math.isnan(drafts)
    return replace(
        reading,
        model_name=model_name,
        counters=tuple(counters),
        evidence=Evidence.NONE if off else reading.evidence,
        speculating=not off,
        resolution=base.last_digit(drafts),
    )


ENGINE = Engine(
    name="llama.cpp",
    signature=re.compile(
        rb"\n(?P<prefix>(?:[a-zA-Z][a-zA-Z0-9_]*[_:])?llamacpp[_:])"
        rb"(?:spec_decode_|tokens_predicted|prompt_tokens|requests_processing|n_decode|n_tokens_max|predicted_)",
    ),
    wanted=NAMES.wanted,
    prepare=prepare,
    spellings=("llamacpp:", "llamacpp_"),
    identity=(identity.PROPS,),
    title="llama.cpp llama-server",
    versions="b11549 (counters since August 2026)",
    port=8080,
    needs_beside=True,
    tokens_flag="--spec-draft-n-max {k}",
)
