"""Recorded vLLM runs for tests: a few pages of each here, all of them where the shared captures are at hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from monitor.core import pipeline
from monitor.sources import folders

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.events import Event
    from monitor.core.pages.scrapes import Scrape
    from monitor.core.streams import State

THINNED = Path(__file__).parent / "fixtures" / "runs"
WHOLE = Path(__file__).parents[2] / "shared" / "captures" / "vllm-0.32.0"
RUNS = ("draftchange", "draftmodel", "dynamic", "multiapi", "ngram", "nospec")

# Every test of a run is made once with the pages here and once with all of them.
SETS = [pytest.param(THINNED, id="thinned"), pytest.param(WHOLE, id="whole")]


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a run's load: from `start` to `end`, unix seconds."""

    name: str
    start: float
    end: float


def folder(captures: Path, run: str) -> Path:
    """Return a run's folder; skips the test where the captures are not at hand."""
    if not (captures / run).is_dir():
        pytest.skip(f"the whole captures are not beside this repository ({WHOLE.parent.name}/{WHOLE.name})")
    return captures / run


def scrapes(captures: Path, run: str) -> list[Scrape]:
    """Return a run's pages in time order."""
    pages, _ = folders.scrapes(folder(captures, run))
    return list(pages)


def phases(captures: Path, run: str) -> list[Phase]:
    """Return what the load did and when, the closing "end" left out."""
    lines = [json.loads(line) for line in (folder(captures, run) / "phases.jsonl").read_text().splitlines()]
    starts = [line["start_ms"] / 1000 for line in lines]
    return [
        Phase(line["phase"], start, end)
        for line, start, end in zip(lines, starts, [*starts[1:], starts[-1]], strict=True)
        if line["phase"] != "end"
    ]


def replay(
    pages: Sequence[Scrape], plan: pipeline.Plan | None = None, state: State | None = None
) -> tuple[State, list[Event]]:
    """Return the state and the events after stepping through pages one by one."""
    plan = plan or pipeline.Plan()
    state = pipeline.begin(plan) if state is None else state
    events: list[Event] = []
    for page in pages:
        events += pipeline.step(plan, state, [page]).events
    return state, events
