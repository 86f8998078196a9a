"""Counters that contradict each other are never judged: it is said, with what was read, until they are sane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.__main__ import main
from monitor.core import pipeline, streams
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint, summaries
from monitor.core.vocabulary import STATES
from tests import made

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from monitor.core.events import Event
    from monitor.core.streams import State

PLAN = pipeline.Plan()


def pages(*phases: tuple[int, int, tuple[float, ...]]) -> Iterator[Scrape]:
    """Looks at one target: each phase is a number of pages, drafts a page, and accepted a draft by position."""
    drafts, accepted, number = 0.0, [0.0] * len(phases[0][2]), 0
    for count, each, rates in phases:
        for _ in range(count):
            drafts += each
            accepted = [total + each * rate for total, rate in zip(accepted, rates, strict=True)]
            body = made.page(
                [round(total) for total in accepted],
                drafts=drafts,
                more={"generation_tokens_total": drafts * 3},
            )
            yield Scrape("t", made.START + 15.0 * number, body=body)
            number += 1


def judged(scrapes: Iterator[Scrape]) -> tuple[State, list[Event], list[str]]:
    """What was said of the stream: the state, the events, and what it was called after each page."""
    state = pipeline.begin(PLAN)
    found: list[Event] = []
    called: list[str] = []
    for scrape in scrapes:
        found += pipeline.step(PLAN, state, [scrape]).events
        code = streams.states(state, made.array([scrape.at]), PLAN.limits)[0]
        called.append(STATES[code])
    return state, found, called


SANE, WRONG = (0.8, 0.6, 0.4, 0.3), (3.8, 0.7, 0.5, 0.3)


def test_a_position_that_accepts_more_than_was_drafted_is_no_fall_and_no_rise() -> None:
    """Position 0 accepting 3.8 tokens a draft opens data_quality only, names both numbers, and closes when sane."""
    state, found, called = judged(pages((240, 300, SANE), (40, 300, WRONG), (20, 300, SANE)))
    opened, closed = found
    assert (opened.kind, opened.severity, opened.status) == ("data_quality", "warning", "open")
    assert "position 0 accepted 1140 tokens, expected at most the 300 drafts" in opened.facts[0]
    assert "acceptance is not judged" in opened.facts[0]
    assert opened.causes[0].cause == "data_quality"
    assert opened.change_point_at == made.START + 15.0 * 239
    assert opened.raised_at == made.START + 15.0 * 242
    assert (closed.id, closed.status) == (opened.id, "closed")
    assert closed.closed_at == made.START + 15.0 * 282
    assert called[239] == "ok"
    assert set(called[242:282]) == {"unsupported"}
    assert called[-1] == "ok"
    assert state.status["baseline_mal"][0] == pytest.approx(1.0 + sum(SANE), abs=0.01)
    total = summaries.totals(PLAN, state)[0]
    assert total["mal"] == pytest.approx(1.0 + sum(SANE), abs=0.01)
    assert total["violations"] == dict.fromkeys(
        ("positions_order", "accepted_tokens", "acceptance_length"), 40
    )


def test_a_stream_that_is_impossible_from_birth_is_never_green() -> None:
    """A MAL of 6.24 with k = 4 from the first page on is unsupported with a reason, never warming into ok."""
    state, found, called = judged(pages((200, 300, (2.0, 1.6, 1.0, 0.64))))
    assert [event.kind for event in found] == ["data_quality"]
    assert set(called[4:]) == {"unsupported"}
    record = summaries.totals(PLAN, state)[0]
    assert record["mal"] is None
    assert "expected at most the 300 drafts" in str(record["reason"])


def test_where_requests_are_few_what_is_too_much_adds_up() -> None:
    """Ten drafts a page with 25 accepted at position 0: each page is within what a torn one may show, all are not."""
    _, found, called = judged(pages((60, 10, (2.5, 0.6, 0.4, 0.3))))
    assert [event.kind for event in found] == ["data_quality"]
    assert called[-1] == "unsupported"


def test_a_torn_page_is_no_trouble() -> None:
    """A position that runs ahead by twelve tokens on one page in five, and is caught up with, is nothing."""
    scrapes = []
    for number, scrape in enumerate(pages((200, 100, (0.99, 0.97, 0.95, 0.9)))):
        late = number % 5 == 4
        drafts = 100.0 * (number + 1) - 12.0 * late
        accepted = [round(100 * (number + 1) * rate) for rate in (0.99, 0.97, 0.95, 0.9)]
        scrapes.append(Scrape("t", scrape.at, body=made.page(accepted, drafts=drafts)))
    state, found, _ = judged(iter(scrapes))
    assert not found
    assert summaries.totals(PLAN, state)[0]["violations"] == {}


def test_a_gauge_above_what_k_allows_is_not_judged() -> None:
    """SGLang's spec_accept_length of 11.98 with four steps is data_quality, not ok."""
    labels = 'engine_type="unified",model_name="m",tp_rank="0"'
    scrapes = [
        Scrape(
            "t",
            made.START + 15.0 * number,
            body=(
                f"sglang:spec_accept_length{{{labels}}} {11.9 + number % 2 / 10}\n"
                f"sglang:spec_num_steps{{{labels}}} 4\nsglang:num_running_reqs{{{labels}}} 6\n"
                f"sglang:generation_tokens_total{{{labels}}} {3000 * (number + 1)}\n"
            ).encode(),
        )
        for number in range(80)
    ]
    _, found, called = judged(iter(scrapes))
    assert [event.kind for event in found] == ["data_quality"]
    assert "expected at most num_speculative_tokens 4" in found[0].facts[0]
    assert called[-1] == "unsupported"


def test_the_open_event_outlives_a_restart_of_specmon() -> None:
    """The event that counters contradict each other is saved, and closes after the state was restored."""
    scrapes = list(pages((100, 300, SANE), (10, 300, WRONG), (10, 300, SANE)))
    state = pipeline.begin(PLAN)
    found: list[Event] = []
    for number, scrape in enumerate(scrapes):
        if number == 105:
            state = checkpoint.thaw(PLAN, checkpoint.freeze(state))
        found += pipeline.step(PLAN, state, [scrape]).events
    assert [(event.kind, event.status) for event in found] == [
        ("data_quality", "open"),
        ("data_quality", "closed"),
    ]
    assert found[0].id == found[1].id


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 3000), st.lists(st.floats(0.0, 8.0), min_size=3, max_size=3)),
        min_size=2,
        max_size=4,
    )
)
def test_no_page_makes_the_arithmetic_complain(phases: Sequence[tuple[int, Sequence[float]]]) -> None:
    """Whatever the positions claim, nothing divides by zero or takes a logarithm of less: warnings are errors here."""
    _, found, _ = judged(pages(*[(25, drafts, tuple(rates)) for drafts, rates in phases]))
    assert all(0.0 <= event.before.mal <= 5.0 for event in found if event.before.drafts > 0)


def test_inspect_of_two_impossible_pages_says_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where one interval is all there is, it is unsupported with both numbers, not warming without a word."""
    for number, scrape in enumerate(pages((2, 300, WRONG)), 1):
        (tmp_path / f"{number}.prom").write_bytes(scrape.body or b"")
    assert main(["inspect", str(tmp_path / "1.prom"), str(tmp_path / "2.prom")]) == 0
    said = capsys.readouterr()
    assert "unsupported: position 0 accepted 1140 tokens, expected at most the 300 drafts" in said.out
    assert said.err == ""
