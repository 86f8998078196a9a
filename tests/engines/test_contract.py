"""What every engine must do, checked on every run of its fixtures; a new engine is picked up by itself."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.counts import estimates, windows
from monitor.core.pages import engines, exposition
from monitor.core.pages.engines.base import Counter, Evidence, Unsupported
from tests.engines import runs

if TYPE_CHECKING:
    from monitor.core.counts import deltas
    from monitor.core.pages.engines.base import Reading
    from tests.engines.runs import Expected, Run

RUNS = runs.all_runs()
JUDGED = [run for run in RUNS if not run.unsupported]
LABELLED = [run for run in JUDGED if b"model_name=" in run.pages[-1]]
PAIRS = [run for run in JUDGED if len(run.pages) > 1]


def by_id(run: Run) -> str:
    """The name of a test case."""
    return run.id


def state_of(counts: deltas.Counts, reading: Reading) -> str:
    """How an interval looks: off, unknown, idle, silent or drafting."""
    values = counts.values[0]
    drafts, tokens = values[Counter.DRAFTS], values[Counter.GENERATION_TOKENS]
    if not reading.speculating:
        return "off"
    if math.isnan(drafts) and reading.evidence is Evidence.NONE:
        return "unknown"
    if drafts > 0:
        return "drafting"
    return "silent" if tokens > 0 else "idle"


def estimated(counts: deltas.Counts) -> estimates.Estimates:
    """The estimates of one interval."""
    table = np.zeros(1, windows.dtype(1, runs.NUM_POSITIONS))
    windows.add(table, counts, (60.0,))
    return estimates.from_sums(windows.total(table))


@pytest.mark.parametrize("run", JUDGED, ids=by_id)
def test_a_run_reads_to_its_values(run: Run) -> None:
    """Counts, acceptance, times, configuration and state of each stream are what the fixtures say."""
    for name, expected, first, last in runs.streams(run):
        counts = runs.counted(first, last)
        assert last.evidence.name == expected["evidence"], name
        assert state_of(counts, last) == expected.get(
            "state", "drafting" if expected.get("drafts") else "idle"
        )
        _compare_counts(expected, counts, last)
        _compare_estimates(expected, counts)
        assert last.engine_version == expected.get("engine_version", last.engine_version)
        assert dict(last.config) == expected.get("config", dict(last.config))


def _compare_counts(expected: Expected, counts: deltas.Counts, last: Reading) -> None:
    values = counts.values[0]
    if "drafts" in expected:
        drafts = expected["drafts"]
        assert values[Counter.DRAFTS] == pytest.approx(math.nan if drafts is None else drafts, nan_ok=True)
    if "accepted_tokens" in expected:
        assert values[Counter.ACCEPTED_TOKENS] == pytest.approx(expected["accepted_tokens"])
    if "accepted" in expected:
        depth = len(expected["accepted"])
        assert counts.accepted[0, :depth].tolist() == expected["accepted"]
        assert counts.positions[0] == depth
    assert last.num_speculative_tokens == expected.get("k", last.num_speculative_tokens)


def _compare_estimates(expected: Expected, counts: deltas.Counts) -> None:
    found = estimated(counts)
    mal = expected.get("mal")
    if mal is not None:
        assert found.mal[0] == pytest.approx(mal, abs=1e-4)
    tolerance = expected.get("tolerance", 0.005)
    if "readme_mal" in expected:
        assert found.mal[0] == pytest.approx(expected["readme_mal"], abs=tolerance)
    if "readme_conditional" in expected:
        depth = len(expected["readme_conditional"])
        assert found.conditional[0, :depth] == pytest.approx(expected["readme_conditional"], abs=tolerance)
    for field in ("step_seconds", "observed_tpot_seconds"):
        if field in expected:
            assert getattr(found, field)[0] == pytest.approx(expected[field], rel=1e-4)


@pytest.mark.parametrize("run", [run for run in RUNS if run.unsupported], ids=by_id)
def test_a_page_that_cannot_be_judged_is_refused_with_the_reason(run: Run) -> None:
    """The reason names what is wrong with the page."""
    found = runs.look(run.pages[-1], run.beside[-1])
    assert isinstance(found, Unsupported)
    assert run.unsupported in found.detail


@pytest.mark.parametrize("run", RUNS, ids=by_id)
def test_a_page_is_recognised_as_its_engine(run: Run) -> None:
    """No engine takes another one's page, although several have the same names behind their prefix."""
    for page in run.pages:
        assert runs.recognised(page).engine.name == run.engine


@pytest.mark.parametrize("run", JUDGED, ids=by_id)
def test_accepted_tokens_are_possible(run: Run) -> None:
    """Positions do not rise, add up to the accepted tokens, and no more are accepted than drafted."""
    for _, _, first, last in runs.streams(run):
        counts = runs.counted(first, last)
        values, positions = counts.values[0], counts.accepted[0, : counts.positions[0]]
        if len(positions):
            assert (np.diff(positions, prepend=values[Counter.DRAFTS]) <= 0).all()
            assert positions.sum() == pytest.approx(values[Counter.ACCEPTED_TOKENS])
        assert not values[Counter.ACCEPTED_TOKENS] > values[Counter.DRAFT_TOKENS]
        assert not (values < 0).any()


@pytest.mark.parametrize("run", PAIRS, ids=by_id)
def test_the_remembered_layout_reads_the_same(run: Run) -> None:
    """A page read along the last one's layout gives what a search of the whole page gives."""
    before, after = run.pages[0], run.pages[-1]
    schema = runs.recognised(after)
    searched = exposition.read(after, schema.wanted)
    for hint in (exposition.read(before, schema.wanted).layout, searched.layout):
        walked = exposition.read(after, schema.wanted, hint)
        reader = schema.engine.prepare(walked.layout.series, schema.prefix)
        assert repr(runs.read_by(reader, walked.values, run.beside[-1])) == repr(
            runs.look(after, run.beside[-1])
        )


@pytest.mark.parametrize("run", LABELLED, ids=by_id)
def test_another_model_on_the_page_changes_nothing(run: Run) -> None:
    """The streams of a model read the same when the page has a second model with other values."""
    text = run.pages[-1].decode()
    alone = runs.readings(run.pages[-1])
    other = re.sub(r'model_name="[^"]*"', 'model_name="another"', text)
    other = re.sub(r"(?m)^([^#].*) (\S+)$", lambda line: f"{line[1]} {float(line[2]) * 3:g}", other)
    together = runs.readings((text + other).encode())
    for name, reading in alone.items():
        assert repr(together[name]) == repr(reading)
    assert {name.rpartition("/")[0] for name in together} == {each.model_name for each in alone.values()} | {
        "another"
    }


@pytest.mark.parametrize("run", JUDGED, ids=by_id)
def test_the_order_of_lines_does_not_matter(run: Run) -> None:
    """A page whose samples stand in reverse order says the same."""
    lines = [line for line in run.pages[-1].splitlines() if not line.startswith(b"#")]
    backwards = b"\n".join(reversed(lines)) + b"\n"
    told = {name: repr(each) for name, each in runs.readings(backwards, run.beside[-1]).items()}
    assert told == {name: repr(each) for name, each in runs.readings(run.pages[-1], run.beside[-1]).items()}


@pytest.mark.parametrize("run", JUDGED, ids=by_id)
def test_a_series_that_stands_there_twice_counts_once(run: Run) -> None:
    """A page that is concatenated with itself is read as it was."""
    told = {name: repr(each) for name, each in runs.readings(run.pages[-1] * 2, run.beside[-1]).items()}
    assert told == {name: repr(each) for name, each in runs.readings(run.pages[-1], run.beside[-1]).items()}


@pytest.mark.parametrize("run", PAIRS, ids=by_id)
def test_an_unchanged_page_is_no_evidence(run: Run) -> None:
    """Two equal pages give no drafts, no accepted tokens and no tokens: idle or off, never a collapse."""
    for _, _, _, last in runs.streams(run):
        counts = runs.counted(last, last)
        assert np.nan_to_num(counts.values[0]).sum() == 0
        assert counts.accepted.sum() == 0


@pytest.mark.parametrize("name", list(engines.ENGINES))
@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"", "empty"), (b"\n \n", "empty"), (b"<!doctype html><p>loading</p>", "html"), (b"[]", "json")],
    ids=["nothing", "blank", "html", "json"],
)
def test_what_is_no_page_is_refused(name: str, body: bytes, reason: str) -> None:
    """A web page, an empty body and JSON are failed scrapes, never zeros."""
    with pytest.raises(exposition.RefusedPageError) as refusal:
        exposition.read(body, runs.engine(name).wanted(""))
    assert refusal.value.reason == reason


@pytest.mark.parametrize("name", list(engines.ENGINES))
def test_an_engine_has_the_runs_that_tell_its_states_apart(name: str) -> None:
    """The fixtures of an engine have drafts that are counted and a page without speculation."""
    expected = [each for run in runs.of(name) for each in run.expect.values()]
    assert any(each.get("mal") for each in expected)
    assert any(each.get("state") == "off" for each in expected)


@pytest.mark.parametrize("name", list(engines.ENGINES))
def test_an_engine_says_where_it_is_found(name: str) -> None:
    """Each row of the table has what people read and what a target without a path is probed with."""
    engine = runs.engine(name)
    assert engine.title
    assert engine.versions
    assert engine.port
    assert engine.path in engines.PROBE_PATHS
    assert replace(engine) == engine
