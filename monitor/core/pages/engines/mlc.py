"""MLC-LLM: the arrays of its speculation statistics, flattened into the text of `/metrics`.

Step 0 of both arrays is the token of the target model itself, which is always accepted: its draft count is
the number of verifications, and step j+1 is draft position j. The page has no model and shows the first
engine of the process only; its `accept_…` values are averages over the engine's life and are not read. Known
from its source, not from a run: that the flattened arrays have the label `step`, as those averages have, is
an assumption.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core.pages.engines import base, columns
from monitor.core.pages.engines.base import UNKNOWN, Counter, Engine, Evidence, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Series

DRAFTED = "spec_decode_draft_count"
ACCEPTED = "spec_decode_accept_count"
STEP = "step"

NAMES = columns.Names(
    counters={"decode_tokens_sum": Counter.GENERATION_TOKENS, "prompt_tokens_sum": Counter.PROMPT_TOKENS},
    per_position=(ACCEPTED,),
    position_label=STEP,
    labelled=False,
)


def wanted(prefix: str) -> frozenset[str]:
    """Return the sample names to read on a page whose names begin with `prefix`."""
    return NAMES.wanted(prefix, DRAFTED)


def prepare(series: Sequence[Series], prefix: str) -> Reader:
    """Return the reader of pages with these series."""
    page = columns.page(NAMES, series, prefix)
    drafted = {
        step: index
        for index, (name, each) in enumerate(zip(page.names, series, strict=True))
        if name == DRAFTED and (step := base.index(each.label(STEP))) >= 0
    }

    def read(values: Sequence[float], beside: Mapping[str, bytes]) -> tuple[Reading, ...]:
        steps = [
            values[drafted[step]] if step in drafted else 0.0 for step in range(max(drafted, default=0) + 1)
        ]
        return tuple(_by_position(reading, steps) for reading in page.read(values, beside))

    return read


def _by_position(reading: Reading, drafted: Sequence[float]) -> Reading:
    """Return the reading with step 0 taken as the drafts and the others as the positions."""
    on = drafted[0] > 0
    depth = len(drafted) - 1
    counters = list(reading.counters)
    counters[Counter.DRAFTS] = drafted[0] if on else UNKNOWN
    counters[Counter.DRAFT_TOKENS] = sum(drafted[1:]) if on else UNKNOWN
    return replace(
        reading,
        evidence=Evidence.STEPS if on else Evidence.NONE,
        counters=tuple(counters),
        accepted=(reading.accepted[1:] + (0.0,) * depth)[:depth] if on else (),
        num_speculative_tokens=depth,
        speculating=on,
    )


ENGINE = Engine(
    name="mlc-llm",
    signature=re.compile(
        rb"\n(?P<prefix>(?:mlc_)?)(?:spec_decode_(?:draft|accept)_count|engine_decode_time_sum|"
        rb"jump_forward_tokens_sum)[ \t{]",
    ),
    wanted=wanted,
    prepare=prepare,
    spellings=("", "mlc_"),
    signs=("engine_decode_time_sum", "jump_forward_tokens_sum"),
    title="MLC-LLM",
    versions="0.20 (source of 2026)",
    port=8000,
    when_silent="automatic mode drafts nothing from 30 running requests on",
    tokens_flag='--overrides "spec_draft_length={k}"',
)
