"""README's table of engines: what is read from each, told by reading the fixtures and not by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import estimates, windows
from monitor.core.pages import engines
from monitor.core.pages.engines.base import Counter, Evidence
from tests.engines import runs

if TYPE_CHECKING:
    from monitor.core.pages.engines.base import Reading

KINDS = {
    Evidence.STEPS: "every step",
    Evidence.ITERATIONS: "every iteration",
    Evidence.REQUEST_END: "at request end",
    Evidence.GAUGE: "gauge",
}
YES, NO = "yes", "–"


def table() -> str:
    """A row per engine: where its drafts come from, what else its page says, and how that was verified."""
    head = "engine | versions | drafts counted | per position | step time | observed TPOT | change markers | verified"
    rows = [f"| {head} |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    rows += [f"| {' | '.join(_row(name))} |" for name in engines.ENGINES]
    return "\n".join(rows) + "\n"


def _row(name: str) -> list[str]:
    engine = engines.ENGINES[name]
    read = [each for run in runs.of(name) if not run.unsupported for each in runs.streams(run)]
    last = [reading for _, _, _, reading in read]
    kinds = [kind for evidence, kind in KINDS.items() if any(each.evidence is evidence for each in last)]
    found = [_estimates(first, reading) for _, _, first, reading in read]
    return [
        f"{engine.title} (`{name}`)",
        engine.versions,
        ", else ".join(kinds),
        YES if any(each.accepted for each in last) else NO,
        YES if any(math.isfinite(each.step_seconds[0]) for each in found) else NO,
        YES if any(math.isfinite(each.counters[Counter.REQUEST_DECODE_SECONDS]) for each in last) else NO,
        ", ".join(_markers(last)) or NO,
        runs.of(name)[0].verified,
    ]


def _estimates(first: Reading | None, last: Reading) -> estimates.Estimates:
    sums = np.zeros(1, windows.dtype(1, runs.NUM_POSITIONS))
    windows.add(sums, runs.counted(first, last), (60.0,))
    return estimates.from_sums(windows.total(sums))


def _markers(readings: list[Reading]) -> list[str]:
    """What tells that something was changed: times of start, k, and what the other pages say."""
    names = []
    if any(math.isfinite(each.started_at) or math.isfinite(each.created_at) for each in readings):
        names.append("start time")
    if any(each.num_speculative_tokens for each in readings):
        names.append("k")
    if any(each.engine_version for each in readings):
        names.append("engine version")
    known = {name for each in readings for name, _ in each.config}
    labels = {
        "draft_model": "draft",
        "method": "method",
        "target_model": "target model",
        "quantization": "quantization",
        "weight_version": "weight version",
    }
    return names + [text for name, text in labels.items() if name in known]
