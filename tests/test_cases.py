"""Public bug reports as tests: the pages and counters they give must read as their authors should have read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import pytest

from monitor.core import pipeline, streams
from monitor.core.counts import estimates, windows
from monitor.core.pages import looks
from monitor.core.pages.engines.base import UNKNOWN, Counter
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import summaries
from monitor.core.vocabulary import STATES
from tests import made

if TYPE_CHECKING:
    from monitor.core.counts.estimates import Estimates
    from monitor.core.streams import State


class Given(TypedDict):
    """The counts of one window of a report, None where it does not give them."""

    drafts: float
    accepted: float
    draft_tokens: float | None
    per_pos: list[float] | None


class Values(TypedDict):
    """What must be read of them, to four digits; a position that nothing reached is None."""

    mal: float
    draft_token_acceptance_ratio: float | None
    alpha: float | None
    marginal: list[float | None] | None
    conditional: list[float | None] | None


class Window(TypedDict):
    """One window of a report."""

    name: str
    counts: Given
    expected: Values


class Report(TypedDict):
    """One public report: its address, its pages in time order, its windows."""

    id: str
    report: str
    pages: list[str]
    windows: list[Window]


CASES = Path(__file__).parent / "fixtures" / "cases"
REPORTS: list[Report] = [json.loads(line) for line in (CASES / "cases.jsonl").read_text().splitlines()]
WINDOWS = [
    pytest.param(window, id=f"{report['id']} {window['name']}")
    for report in REPORTS
    for window in report["windows"]
]
WITH_PAGES = [pytest.param(report, id=report["id"]) for report in REPORTS if report["pages"]]


def body(name: str) -> bytes:
    """Return a case's page."""
    return (CASES / name).read_bytes()


def agrees(seen: Estimates, row: int, expected: Values) -> None:
    """Compare one row of estimates with a report's values."""
    found = (seen.mal[row], seen.draft_token_acceptance_ratio[row], seen.alpha[row])
    wanted = (expected["mal"], expected["draft_token_acceptance_ratio"], expected["alpha"])
    for value, figure in zip(found, wanted, strict=True):
        assert figure is None or value == pytest.approx(figure, abs=6e-5)
    for rates, figures in (
        (seen.marginal, expected["marginal"]),
        (seen.conditional, expected["conditional"]),
    ):
        known = [UNKNOWN if figure is None else figure for figure in figures or ()]
        assert rates[row, : len(known)] == pytest.approx(known, abs=6e-5, nan_ok=True)
        assert np.isnan(rates[row, len(known) :]).all()


@pytest.mark.parametrize("window", WINDOWS)
def test_counts_give_the_values_of_the_report(window: Window) -> None:
    """Length, rates per position, accepted ÷ drafted and α of each window of counts are the case's."""
    counts = window["counts"]
    more: dict[Counter, list[float]] = {Counter.ACCEPTED_TOKENS: [counts["accepted"]]}
    if counts["draft_tokens"] is not None:
        more[Counter.DRAFT_TOKENS] = [counts["draft_tokens"]]
    per_position = counts["per_pos"]
    counted = made.counts(
        [per_position] if per_position else [], [counts["drafts"]], num_positions=16, more=more
    )
    agrees(estimates.from_sums(made.sums(counted)), 0, window["expected"])


@pytest.mark.parametrize("report", WITH_PAGES)
def test_pages_give_the_values_of_the_report(report: Report) -> None:
    """The report's pages, read one after the other through the pipeline, give the same values window by window."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    seen = []
    for name in report["pages"]:
        at = 1_700_000_000.0 + float(Path(name).stem.rpartition("_t")[2])
        pipeline.step(plan, state, [Scrape("case", at, body=body(name))])
        last = estimates.from_sums(windows.last(state.sums))
        if last.drafts[0] > 0:
            seen.append(last)
    assert len(seen) == len(report["windows"])
    for last, window in zip(seen, report["windows"], strict=True):
        agrees(last, 0, window["expected"])
    assert all(not target.problems for target in state.targets.values())


def since_start(name: str) -> State:
    """Return the state after one page of a case whose counters count from zero."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    state.targets["case"] = streams.TargetState(good_at=1000.0)
    pipeline.step(plan, state, [Scrape("case", 1015.0, body=body(name))])
    return state


def test_replicas_are_never_mixed() -> None:
    """Two replicas on one page stay two streams with their own values, `_created` samples beside them (B01)."""
    (report,) = (report for report in REPORTS if report["id"] == "B01")
    for name in ("B01.prom", "B01_concatenated.prom"):
        state = since_start(name)
        seen = estimates.from_sums(windows.total(state.sums))
        by_replica = {identity.key.replica: row for row, identity in enumerate(state.identities)}
        for replica, window in zip("01", report["windows"], strict=True):
            agrees(seen, by_replica[replica], window["expected"])
        assert {identity.key.model_name for identity in state.identities if identity.key.replica in "01"} == {
            "/models/example-0.6B"
        }


def test_a_page_of_vllm_v0_is_unsupported() -> None:
    """V0's counters mean other things: the page is recognised, and the reason says why it is not judged (B02)."""
    state = since_start("B02.prom")
    failure = state.targets["case"].failure
    assert failure is not None
    assert failure.reason == "unsupported"
    assert "V0" in failure.detail
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert summary["state"] == "unsupported"


def test_odd_label_values_are_names_like_others() -> None:
    """Quotes, braces, backslashes, line feeds and unicode in a model's name are read, not stumbled over (B18)."""
    state = since_start("B18.prom")
    seen = estimates.from_sums(windows.total(state.sums))
    found = {identity.key.model_name: float(seen.mal[row]) for row, identity in enumerate(state.identities)}
    assert found == {'org/m-7B "fast", {v2} C:\\models\\模型': 2.5, "two\nlines": 2.2}
    assert len({identity.id for identity in state.identities}) == 2


@pytest.mark.parametrize(
    ("name", "reason"), [("B17_a.prom", "json"), ("B17_b.prom", "json"), ("B17_c.prom", "empty")]
)
def test_answers_that_are_no_page_are_failed_scrapes(name: str, reason: str) -> None:
    """JSON-quoted text, a JSON list and an empty body are failures with a reason, and never zeros (B17)."""
    look = looks.read(looks.Memory(), body(name), {})
    assert look.failure is not None
    assert (look.failure.reason, look.readings) == (reason, ())


@pytest.mark.parametrize(("name", "step_seconds"), [("B20_a.prom", 0.010), ("B20_b.prom", 0.025)])
def test_step_time_has_two_names(name: str, step_seconds: float) -> None:
    """What vLLM calls time per output token, and later inter-token latency, is the time of a step in both (B20)."""
    seen = estimates.from_sums(windows.total(since_start(name).sums))
    assert seen.step_seconds[0] == pytest.approx(step_seconds)
    assert np.isnan(seen.mal[0])


def test_rays_prefix_and_labels_are_read() -> None:
    """A page of Ray Serve, with its prefix and its own replica label, gives the same length (B20)."""
    state = since_start("B20_c.prom")
    assert estimates.from_sums(windows.total(state.sums)).mal[0] == 2.5
    assert state.identities[0].key.replica == "r1"


def test_idle_is_told_from_a_measured_one() -> None:
    """Counters that stand still give no length at all, and the stream is idle (C04)."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    page = made.page((5000, 2500), drafts=5000, more={"generation_tokens_total": 20_000})
    for at in (0.0, 60.0, 120.0):
        pipeline.step(plan, state, [Scrape("case", at, body=page)])
    assert np.isnan(estimates.from_sums(windows.total(state.sums)).mal[0])
    (code,) = streams.states(state, np.array([120.0]), plan.limits)
    assert STATES[code] == "idle"


def test_a_crash_and_restart_mix_no_lives() -> None:
    """Down for two looks and back from zero: 2.5 before, 2.5 after, and nothing of the old life subtracted (B21)."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    lengths = []
    for at, drafts in ((0, 1000), (15, 1200), (60, 20), (75, 220)):
        page = made.page((drafts, drafts // 2), drafts=drafts)
        pipeline.step(plan, state, [Scrape("case", float(at), body=page)])
        if at:
            last = estimates.from_sums(windows.last(state.sums))
            lengths.append((float(last.drafts[0]), float(last.mal[0])))
    assert lengths == [(200, 2.5), (20, 2.5), (200, 2.5)]
    assert state.ledger["restarts"].tolist() == [1]


def test_the_bonus_token_is_counted_once() -> None:
    """1,300 accepted in 1,000 drafts are a length of 2.3: the bonus token belongs to it (B24, B07)."""
    seen = estimates.from_sums(
        made.sums(made.counts([], [1000.0, 188.0], more={Counter.ACCEPTED_TOKENS: [1300.0, 11.0]}))
    )
    assert seen.mal == pytest.approx([2.3, 1.0585], abs=5e-5)


def test_short_drafts_are_not_rebuilt_from_k() -> None:
    """259 draft tokens of 87 drafts are what was drafted, not 87 times three (B10)."""
    counted = made.counts([[70, 55, 42]], [87.0], more={Counter.DRAFT_TOKENS: [259.0]})
    assert estimates.from_sums(made.sums(counted)).draft_token_acceptance_ratio[0] == pytest.approx(
        0.6448, abs=5e-5
    )


def test_speculation_that_stops_while_tokens_flow_is_silent() -> None:
    """Drafts stand still while 25,000 tokens flow: `silent`, neither idle nor collapsed, and no length (A26)."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    for n in range(40):
        at, drafts = 15.0 * n, min(n, 10) * 200
        page = made.page(
            (drafts // 2, drafts // 4), drafts=drafts, more={"generation_tokens_total": 1000.0 * n}
        )
        pipeline.step(plan, state, [Scrape("case", at, body=page)])
    assert np.isnan(estimates.from_sums(windows.last(state.sums)).mal[0])
    (code,) = streams.states(state, np.array([15.0 * 39]), plan.limits)
    assert STATES[code] == "silent"
