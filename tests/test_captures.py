"""Recorded runs of a real vLLM give its own numbers: its counters', its log's and those of the runs' table."""

from __future__ import annotations

import calendar
import itertools
import json
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline, streams
from monitor.core.counts import estimates, windows
from monitor.core.pages.engines.base import Counter
from monitor.core.streams import summaries
from monitor.core.vocabulary import STATES
from tests import captures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from monitor.core.counts.estimates import Estimates
    from monitor.core.events import Event
    from monitor.core.pages.scrapes import Scrape

COUNTED = ("drafts", "draft_tokens", "accepted_tokens")


@dataclass(frozen=True, slots=True)
class Figures:
    """A row of the runs' table, NaN where the run has none; times in milliseconds."""

    drafts: float
    mal: float
    marginal: tuple[float, ...]
    coverage: float
    tokens_per_step: float
    step: float
    tpot: float


NAN = float("nan")
TABLE = {
    ("ngram", "proseA_t0"): Figures(20819, 2.044, (0.438, 0.277, 0.199, 0.129), 0.857, 1.884, 8.39, 4.45),
    ("ngram", "random_t1"): Figures(5901, 1.042, (0.029, 0.007, 0.004, 0.002), 0.320, 1.013, 12.29, 12.13),
    ("ngram", "proseA_again"): Figures(16210, 2.044, (0.437, 0.277, 0.199, 0.131), 0.863, 1.890, 7.86, 4.16),
    ("ngram", "k2_proseA_t0"): Figures(28707, 1.776, (0.468, 0.308), 0.870, 1.669, 4.87, 2.92),
    ("ngram", "k2_random_t1"): Figures(1567, 1.022, (0.019, 0.003), 0.359, 1.008, 21.56, 21.39),
    ("draftmodel", "proseA_t0"): Figures(16870, 1.335, (0.244, 0.063, 0.021, 0.007), 1, 1.333, 10.94, 8.21),
    ("draftmodel", "codeB_t0"): Figures(12044, 1.042, (0.037, 0.005, 0.001, 0), 1, 1.042, 20.41, 19.59),
    ("draftmodel", "proseA_t1"): Figures(2753, 1.011, (0.010, 0.001, 0, 0), 1, 1.011, 60.3, 59.7),
    ("draftchange", "good_proseA_t0"): Figures(
        13295, 4.522, (0.950, 0.902, 0.856, 0.814), 1, 4.468, 13.19, 2.95
    ),
    ("draftchange", "good_proseA_t1"): Figures(
        15964, 1.095, (0.027, 0.024, 0.023, 0.021), 1, 1.094, 7.78, 7.11
    ),
    ("draftchange", "good_codeB_t0"): Figures(
        12121, 4.577, (0.958, 0.914, 0.872, 0.833), 1, 4.523, 8.07, 1.78
    ),
    ("draftchange", "noisy_proseA_t0"): Figures(
        4842, 3.285, (0.759, 0.608, 0.499, 0.419), 1, 3.258, 32.9, 10.1
    ),
    ("draftchange", "noisy_mix_short"): Figures(
        16745, 1.337, (0.113, 0.090, 0.074, 0.060), 1, 1.332, 8.45, 6.34
    ),
    ("draftchange", "noisy_proseA_again"): Figures(
        10348, 3.462, (0.817, 0.659, 0.543, 0.443), 1, 3.425, 8.47, 2.47
    ),
    ("dynamic", "conc1"): Figures(1209, 4.545, (0.964, 0.899, 0.864, 0.817), 1, 4.492, 17.4, 3.87),
    ("dynamic", "conc4"): Figures(3866, 2.906, (0.974, 0.920, 0.006, 0.006), 1, 2.888, 23.6, 8.16),
    ("dynamic", "conc8"): Figures(45, 4.733, (1.0, 0.956, 0.911, 0.867), 0.004, 1.014, 16.4, 16.14),
    ("nospec", "base_proseA_t0"): Figures(NAN, NAN, (), NAN, 1.0, 7.65, 7.65),
    ("nospec", "base_proseA_t1"): Figures(NAN, NAN, (), NAN, 1.0, 3.14, 3.14),
    ("multiapi", "m_proseA_t0"): Figures(10250, 1.943, (0.459, 0.284, 0.201), 0.866, 1.808, 11.4, 6.30),
}


def total(pages: Sequence[Scrape]) -> Estimates:
    """Return the estimates over everything that pages of one stream count."""
    state, _ = captures.replay(pages)
    return estimates.from_sums(windows.total(state.sums))


@pytest.mark.parametrize("folder", captures.SETS)
@pytest.mark.parametrize(("run", "phase"), TABLE.keys(), ids=["-".join(row) for row in TABLE])
def test_each_phase_has_the_figures_of_the_table(folder: Path, run: str, phase: str) -> None:
    """Drafts are exact; lengths, rates, coverage, tokens per step and times are right to the table's last digit."""
    expected = TABLE[run, phase]
    span = next(each for each in captures.phases(folder, run) if each.name == phase)
    seen = total([page for page in captures.scrapes(folder, run) if span.start <= page.at <= span.end])
    assert len(seen.mal) == 1
    found = (seen.drafts[0], seen.mal[0], seen.coverage[0], seen.tokens_per_step[0])
    assert found == pytest.approx(
        (expected.drafts, expected.mal, expected.coverage, expected.tokens_per_step), abs=6e-4, nan_ok=True
    )
    assert np.isfinite(seen.marginal[0]).sum() == len(expected.marginal)
    assert seen.marginal[0, : len(expected.marginal)] == pytest.approx(expected.marginal, abs=6e-4)
    assert seen.step_seconds[0] * 1000 == pytest.approx(expected.step, rel=4e-3)
    assert seen.implied_tpot_seconds[0] * 1000 == pytest.approx(expected.tpot, rel=4e-3)


# Counts -------------------------------------------------------------------------------------------------


def counters(body: bytes) -> dict[str, float]:
    """Return the counters of speculation on a page, read with nothing of ours."""
    name = rb"vllm:spec_decode_num_(drafts|draft_tokens|accepted_tokens|accepted_tokens_per_pos)_total"
    found = re.findall(name + rb'\{[^\n]*?(?:position="(\d+)")?\} (\S+)', body)
    return {(kind + position).decode(): float(value) for kind, position, value in found}


def lives(pages: Sequence[Scrape]) -> list[list[dict[str, float]]]:
    """Return each page's counters, grouped by the start time of the process."""

    def started(page: Scrape) -> bytes:
        match = re.search(rb"\nprocess_start_time_seconds (\S+)", page.body or b"")
        return match[1] if match else b""

    return [[counters(page.body or b"") for page in group] for _, group in itertools.groupby(pages, started)]


@pytest.mark.parametrize("folder", captures.SETS)
@pytest.mark.parametrize("run", captures.RUNS)
def test_counts_are_the_counters_own_differences(folder: Path, run: str) -> None:
    """The summary counts exactly what the counters grew by, in every life of the process."""
    pages = captures.scrapes(folder, run)
    state, _ = captures.replay(pages)
    (summary,) = summaries.totals(pipeline.Plan(), state)
    found = lives(pages)
    grown = [life[-1] for life in found]
    base = found[0][0]
    for name in COUNTED:
        raw = name.removesuffix("_tokens") + "_tokens" if name != "drafts" else name
        expected = sum(life[raw] for life in grown) - base[raw] if base else None
        assert summary[name] == expected, name
    names = sorted({name for life in grown for name in life if name.startswith("accepted_tokens_per_pos")})
    positions = [sum(life.get(name, 0) for life in grown) - base.get(name, 0) for name in names]
    assert summary["accepted"] == positions
    assert summary["scrapes_read"] == len(pages)
    assert summary["scrapes_refused"] == {}


RESTARTS = {"draftchange": 1, "draftmodel": 0, "dynamic": 0, "multiapi": 0, "ngram": 1, "nospec": 0}
REGIMES = {"draftchange": 1, "draftmodel": 1, "dynamic": 1, "multiapi": 1, "ngram": 2, "nospec": 1}


@pytest.mark.parametrize("folder", captures.SETS)
@pytest.mark.parametrize("run", captures.RUNS)
def test_restarts_and_regimes_are_seen_as_such(folder: Path, run: str) -> None:
    """A restart is a restart, a restart with another k is a new regime too, and no page is held back or at odds."""
    state, _ = captures.replay(captures.scrapes(folder, run))
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert (summary["restarts"], summary["regimes"]) == (RESTARTS[run], REGIMES[run])
    assert summary["violations"] == {}
    assert summary["num_speculative_tokens"] == {"ngram": 2, "multiapi": 3, "nospec": None}.get(run, 4)


# The engine's own log -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """What the engine said of its last ten seconds, at `at` (unix seconds, whole)."""

    at: float
    accepted: int
    drafted: int


def log(folder: Path, run: str, year: int) -> list[list[Line]]:
    """Return the lines of the engine's log by process life, in time order."""
    servers: dict[str, list[Line]] = {}
    for text in (captures.folder(folder, run) / "engine_log.jsonl").read_text().splitlines():
        line = json.loads(text)
        at = calendar.timegm(time.strptime(f"{year}-{line['clock']}", "%Y-%m-%d %H:%M:%S"))
        servers.setdefault(line["server"], []).append(Line(at, line["accepted"], line["drafted"]))
    return sorted(servers.values(), key=lambda lines: lines[0].at)


def running_sums(pages: Sequence[Scrape]) -> list[list[tuple[float, float, float]]]:
    """Return (at, accepted, drafted) since the life's start after each page, by life, as the pipeline counts."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    found: list[list[tuple[float, float, float]]] = [[]]
    accepted = drafted = 0.0
    for page in pages:
        for observation in pipeline.step(plan, state, [page]).observations:
            counts = observation.counts
            for row in range(len(counts.rows)):
                if counts.restarted[row]:
                    found.append([])
                    accepted = drafted = 0.0
                accepted += counts.values[row, Counter.ACCEPTED_TOKENS]
                drafted += counts.values[row, Counter.DRAFT_TOKENS]
        found[-1].append((page.at, accepted, drafted))
    return found


@pytest.mark.parametrize("folder", captures.SETS)
@pytest.mark.parametrize("run", ["draftchange", "draftmodel", "dynamic", "ngram"])
def test_the_engines_log_agrees(folder: Path, run: str) -> None:
    """Its running sums lie between the counts of the pages before and after each line, and add up per life."""
    pages = captures.scrapes(folder, run)
    assert all(value == 0 for value in counters(pages[0].body or b"").values())
    year = time.gmtime(pages[0].at).tm_year
    for lines, pages_of_life in zip(log(folder, run, year), running_sums(pages), strict=True):
        for count, line in enumerate(lines, 1):
            said = (sum(each.accepted for each in lines[:count]), sum(each.drafted for each in lines[:count]))
            before = [page for page in pages_of_life if page[0] <= line.at][-1:] or [(0.0, 0.0, 0.0)]
            after = [page for page in pages_of_life if page[0] >= line.at + 1][:1] or pages_of_life[-1:]
            assert before[0][1] <= said[0] <= after[0][1], line
            assert before[0][2] <= said[1] <= after[0][2], line
        # A request that ended after the last line: the good draft's life has one of four accepted tokens.
        later = 4 if run == "draftchange" and lines[0].accepted == 1973 else 0
        assert pages_of_life[-1][1] - said[0] == later
        assert pages_of_life[-1][2] - said[1] == later


# States and events --------------------------------------------------------------------------------------


def test_speculation_that_is_not_configured_is_off() -> None:
    """A page without the family of speculation is `off`, and no event comes of it."""
    state, events = captures.replay(captures.scrapes(captures.THINNED, "nospec"))
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert (summary["state"], summary["mal"], summary["drafts"], summary["accepted"]) == (
        "off",
        None,
        None,
        [],
    )
    assert events == []


@pytest.mark.parametrize("folder", captures.SETS)
@pytest.mark.parametrize("run", ["multiapi", "dynamic"])
def test_what_is_well_raises_nothing(folder: Path, run: str) -> None:
    """A steady run, and k falling with the load by design, raise no event at all."""
    _, events = captures.replay(captures.scrapes(folder, run))
    assert [event.kind for event in events] == []


@pytest.mark.parametrize("folder", captures.SETS)
def test_the_wrong_tpot_is_never_shown(folder: Path) -> None:
    """With eight clients hardly a step has a draft: the implied TPOT stays near 16 ms, never near 3.5."""
    span = next(phase for phase in captures.phases(folder, "dynamic") if phase.name == "conc8")
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    shown = []
    for page in captures.scrapes(folder, "dynamic"):
        pipeline.step(plan, state, [page])
        if span.start + 4 <= page.at <= span.end:
            seen = estimates.from_sums(windows.last(state.sums))
            shown.append(float(seen.implied_tpot_seconds[0]))
            assert seen.tokens_per_step[0] < 1.5
    assert shown
    assert min(shown) > 0.008


@pytest.mark.parametrize("folder", captures.SETS)
def test_another_k_is_a_regime_change_and_no_collapse(folder: Path) -> None:
    """The restart with k 2 for 4 is one note of a new regime, at its time, and nothing else is said there (ngram)."""
    pages = captures.scrapes(folder, "ngram")
    _, events = captures.replay(pages)
    change, *filled = [event for event in events if event.kind == "regime_change"]
    assert (change.severity, change.status) == ("info", "closed")
    assert {each.id for each in filled} <= {change.id}
    begun = next(page.at for page in pages if b'position="2"' not in (page.body or b""))
    assert change.change_point_at == begun
    assert any("from 4 to 2" in fact for fact in change.facts)
    assert any("restart" in fact for fact in change.facts)
    near = [event.kind for event in events if abs(event.raised_at - begun) < 60 and event.id != change.id]
    assert near == []


FALLS = {
    # run, the phase in which acceptance is lost, and the phase in which it is back, if it ever is
    "prose to code": ("draftmodel", "codeB_t0", None),
    "temperature 1 on a broken build": ("draftchange", "good_proseA_t1", "good_codeB_t0"),
    # its stream is two minutes old; the 25 s that are recorded of its end are too few to prove it over
    "one client with long prompts": ("draftchange", "noisy_mix_short", None),
}


@pytest.mark.parametrize(("run", "lost", "back"), FALLS.values(), ids=FALLS.keys())
def test_a_real_collapse_raises_and_closes_an_event(run: str, lost: str, back: str | None) -> None:
    """A real collapse is raised within the phase that has it, dated to its begin, and closed once it is over."""
    spans = {phase.name: phase for phase in captures.phases(captures.WHOLE, run)}
    _, events = captures.replay(captures.scrapes(captures.WHOLE, run))
    span = spans[lost]
    raised = [event for event in events if span.start <= event.raised_at <= span.end]
    assert {event.severity for event in raised} <= {"critical", "warning"}
    assert raised[-1].kind in ("collapse", "dead_draft")
    last = raised[-1]
    assert last.raised_at - span.start <= 36
    assert last.change_point_low - 12 <= span.start <= last.change_point_high + 12
    assert last.after.mal < 1.2
    closings = [event.closed_at for event in events if event.id == last.id and event.closed_at is not None]
    if back is None:
        assert closings == []
    else:
        assert len(closings) == 1
        assert spans[back].start <= closings[0] <= spans[back].end + 2


@pytest.mark.parametrize("run", captures.RUNS)
def test_states_are_of_the_known_ones(run: str) -> None:
    """At every page each stream is in exactly one of the states, stale long after the last page."""
    pages = captures.scrapes(captures.THINNED, run)
    state, _ = captures.replay(pages)
    for later, expected in ((1.0, None), (900.0, "stale")):
        (code,) = streams.states(state, np.array([pages[-1].at + later]), streams.Limits()).tolist()
        assert expected in (None, STATES[code])


@pytest.mark.parametrize("folder", captures.SETS)
@pytest.mark.parametrize(
    ("run", "allowed"),
    [
        ("draftchange", {"unknown", "draft", "target_model", "restart"}),
        ("draftmodel", {"unknown", "traffic"}),
        ("ngram", {"unknown", "traffic", "config"}),
    ],
)
def test_no_cause_is_named_that_was_none(folder: Path, run: str, allowed: set[str]) -> None:
    """What changed in the recorded runs (temperature, text, draft, k) comes first or nothing does; k 4 → 2 is config."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    latest: dict[str, Event] = {}
    for scrape in captures.scrapes(folder, run):
        latest |= {event.id: event for event in pipeline.step(plan, state, [scrape]).events}
    assert {event.causes[0].cause for event in latest.values()} <= allowed
    changes = [event for event in latest.values() if event.kind == "regime_change"]
    assert all(event.causes[0].cause == "config" for event in changes)
