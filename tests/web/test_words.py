"""The small parts behind the pages: words, numbers, series, parameters, markup."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.pages import engines
from monitor.core.vocabulary import EVENT_KINDS, STATES
from monitor.web import (
    answers,
    asking,
    fields,
    guidance,
    headlines,
    levels,
    sentences,
    series,
    standings,
    states,
    view,
    wording,
)
from monitor.web.markup import Markup, join, tag
from monitor.web.view import ShownBucket
from tests.web.fleet_of_five import COLLAPSE, NOW, PASSED, STREAMS, stream


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wording.length(3.3616), "3.36"),
        (wording.seconds(0.00431), "4.31 ms"),
        (wording.seconds(1.5), "1.5 s"),
        (wording.percent(0.896), "90 %"),
        (wording.change(1.24, 3.31), "−63 %"),
        (wording.change(3.301, 3.3), "0 %"),
        (wording.change(3.6, 3.3), "+9 %"),
        (wording.change(3.6, 0), "–"),
        (wording.times(2.64), "2.6×"),
        (wording.times(12.3), "12×"),
        (wording.count(12345.0), "12,345"),
        (wording.interval(3.28, 3.349), "3.28 to 3.35"),
        (wording.span(59.9), "60 s"),
        (wording.span(61), "1 min"),
        (wording.span(3600), "1 h"),
        (wording.span(12000), "3 h 20 min"),
        (wording.span(86400 * 2 + 3600), "2 d 1 h"),
        (wording.ago(100, 100.5), "now"),
        (wording.ago(105, 100), "in 5 s"),
        (wording.clock(NOW), "2026-05-01 12:15:00 UTC"),
        (wording.iso(NOW), "2026-05-01T12:15:00Z"),
        (wording.clock(1e18), "1e+18"),
        (wording.plural(1, "stream"), "1 stream"),
        (wording.plural(1200, "stream"), "1,200 streams"),
    ],
)
def test_wording(text: str, expected: str) -> None:
    """Numbers and times are written for people."""
    assert text == expected


@pytest.mark.parametrize(
    "write", [wording.length, wording.ratio, wording.percent, wording.times, wording.count, wording.seconds]
)
def test_unknown_is_a_dash(write: object) -> None:
    """Nothing unknown is written as a number."""
    assert callable(write)
    assert write(None) == wording.UNKNOWN


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        pytest.param((), "No stream has been seen yet.", id="none"),
        pytest.param(
            (STREAMS[0], STREAMS[2]),
            "1 of 2 streams speculates as well as the baseline or better; 1 idle.",
            id="quiet",
        ),
        pytest.param((STREAMS[3],), "Nothing to judge yet: 1 warming of 1 stream.", id="young"),
        pytest.param(
            (STREAMS[0], replace(STREAMS[0], state="stale", state_reason="connection refused.")),
            "1 of 2 streams cannot be judged: vllm-1:8000 (meta-llama/Llama-3.3-70B-Instruct) (connection refused).",
            id="stale",
        ),
        pytest.param(
            (stream("a", state="silent", state_since=NOW - 90, model_name="m"), STREAMS[0]),
            "1 of 2 streams has lost its speculation benefit: a (m), no drafts although configured, for 1 min.",
            id="silent",
        ),
        pytest.param(
            (
                stream("a", state="drifting", model_name="m", estimate={"mal": 2.9}, benefit_lost_ratio=0.17),
                stream(
                    "b",
                    state="drifting",
                    model_name="m",
                    replica="3",
                    estimate={"mal": 2.1},
                    benefit_lost_ratio=0.52,
                ),
            ),
            "2 of 2 streams speculate below their baselines: b (m, replica 3), MAL 3.31 → 2.10, for 3 d; "
            "52 % of the benefit is lost.",
            id="drifting-names-the-worse",
        ),
        pytest.param(
            (
                stream(
                    "a",
                    state="collapsed",
                    model_name="",
                    baseline_mal=None,
                    benefit_lost_ratio=None,
                    state_since=None,
                    estimate={"mal": 1.02},
                ),
            ),
            "1 of 1 stream has lost its speculation benefit: a, MAL 1.02 where 1 is no benefit at all.",
            id="dead-without-a-baseline",
        ),
    ],
)
def test_fleet_headline(shown: tuple[view.StreamView, ...], sentence: str) -> None:
    """The headline tells the worst that is true."""
    assert sentences.fleet(shown, NOW) == sentence


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        pytest.param((), "", id="no-target"),
        pytest.param((view.TargetView("a", "http://a", up=False),), "", id="not-asked-yet"),
        pytest.param(
            (view.TargetView("a", "http://a", up=False, last_scrape_at=NOW, streams=("a~m~0",)),),
            "",
            id="its-stream-is-a-row",
        ),
        pytest.param(
            (
                view.TargetView("a", "http://a", up=True, last_scrape_at=NOW, streams=("a~m~0",)),
                view.TargetView(
                    "b", "http://b", up=False, last_scrape_at=NOW, error_detail="http://b: no connection"
                ),
            ),
            "Nothing is seen of 1 of 2 targets: b (http://b: no connection).",
            id="down-from-the-start",
        ),
        pytest.param(
            (view.TargetView("a", "http://a", up=True, last_scrape_at=NOW, unrecognised="a router's page."),),
            "Nothing is seen of 1 of 1 target: a (a router's page).",
            id="no-engine's-page",
        ),
    ],
)
def test_targets_without_a_stream_are_named(targets: tuple[view.TargetView, ...], sentence: str) -> None:
    """A target that was asked and has no stream, and so no row, is named with the reason."""
    assert sentences.unseen(targets) == sentence


def test_a_silent_model_is_told_without_a_level() -> None:
    """What its drafts yielded before they ceased is no level of now, also not beside a replica that fell."""
    quiet = stream("a", state="silent", model_name="m", estimate={"mal": 3.3, "drafts": 900.0})
    fallen = stream("b", state="drifting", model_name="m", estimate={"mal": 2.1, "drafts": 900.0})
    alone, both = (_model_headline(*shown) for shown in ((quiet,), (quiet, fallen)))
    assert "has made no drafts, although configured" in alone
    assert "MAL" not in alone
    assert "benefit" not in alone
    assert "MAL 3.31 → 2.10" in both


def _model_headline(*shown: view.StreamView) -> str:
    class Nothing:
        """A view in which no event is open."""

        now = NOW

        def events(self, **_: object) -> list[object]:
            return []

    (standing,) = standings.of(cast("view.View", Nothing()), shown)
    return headlines.model(standing, NOW)


def test_event_headline_of_one_that_is_over() -> None:
    """A closed event says how long it lasted, and its cost from what is known."""
    assert sentences.event(PASSED, NOW) == (
        "Drop on vllm-2:8000 from 2026-05-01 08:15:00 UTC (4 h ago) for 56 min, MAL 3.31 → 2.61; "
        "30 % of the benefit is lost and each token takes 1.3× as long."
    )


def test_states_are_those_of_the_view() -> None:
    """Every state that a stream can be in has a word, a shape of its own and a place in the order."""
    assert set(states.STATES) == set(STATES)
    assert len({state.shape for state in states.STATES.values()}) == len(states.STATES)


def test_kinds_have_words_and_advice() -> None:
    """Every kind of event has its words and a first step."""
    assert set(sentences.KIND_WORDS) == set(EVENT_KINDS)
    for kind in EVENT_KINDS:
        assert guidance.steps({"kind": kind})


def test_advice_follows_the_causes() -> None:
    """Steps come from the kind, then from each cause, once."""
    assert len(guidance.steps(COLLAPSE)) == 2


def test_speculation_is_switched_off_as_the_engine_has_it() -> None:
    """Where switching it off may help the engine's own option is named, of engines that there are."""
    assert guidance.BY_ENGINE.keys() <= engines.ENGINES.keys()
    assert guidance.BY_ENGINE["sglang"] in guidance.steps(COLLAPSE, "sglang")
    assert guidance.BY_ENGINE["sglang"] not in guidance.steps({"kind": "improvement"}, "sglang")
    assert guidance.steps(COLLAPSE, "another") == guidance.steps(COLLAPSE)


@pytest.mark.parametrize(
    ("kind", "cause", "step"),
    [
        ("collapse", "engine", guidance.BY_CAUSE["engine"]),
        ("drop", "", guidance.BY_KIND["drop"]),
        ("speculation_silent", "engine", guidance.BY_KIND["speculation_silent"]),
        ("data_quality", "data_quality", guidance.BY_KIND["data_quality"]),
        ("", "traffic", ""),
    ],
)
def test_the_first_step_is_that_of_the_cause_where_the_kind_says_only_how_much(
    kind: str, cause: str, step: str
) -> None:
    """A silent engine's log is read before anything is rolled back; without an event nothing is to be done."""
    assert guidance.first({"kind": kind}, cause) == step


def bucket(at: float, drafts: float, accepted: float, state: str = "ok") -> ShownBucket:
    """Return a minute with its counts."""
    return ShownBucket(at, 60, drafts, accepted, 1 + accepted / drafts if drafts else None, state=state)


def test_thinning_sums_counts() -> None:
    """Merged buckets have the acceptance length of their sums, not the mean of their ratios."""
    (merged,) = series.thinned([bucket(0, 100, 300), bucket(60, 900, 900, "collapsed")], 1)
    assert (merged.at, merged.seconds, merged.drafts, merged.mal) == (0, 120, 1000, 2.2)
    assert merged.state == "collapsed"


def test_thinning_keeps_gaps_and_unknown() -> None:
    """A gap is never merged over, and nothing known stays unknown."""
    merged = series.thinned([bucket(0, 0, 0), bucket(60, 0, 0), bucket(600, 10, 10), bucket(660, 10, 10)], 2)
    assert [(each.at, each.seconds, each.mal) for each in merged] == [(0, 120, None), (600, 120, 2.0)]


@given(st.integers(0, 800), st.integers(1, 100))
def test_thinning_loses_no_draft(number: int, limit: int) -> None:
    """Whatever the limit, the total stays the same and the limit holds where there are no gaps."""
    made = [bucket(60.0 * index, index % 5, index % 3) for index in range(number)]
    merged = series.thinned(made, limit)
    assert sum(each.drafts or 0 for each in merged) == sum(each.drafts or 0 for each in made)
    assert len(merged) <= limit


def test_time_per_token_needs_both_numbers() -> None:
    """Where buckets are merged the implied time per token is unknown without a step time or without tokens."""
    pairs: list[list[ShownBucket]] = [
        [ShownBucket(0, 60, tokens_per_step=2.0, step_seconds=0.01), ShownBucket(60, 60, step_seconds=0.03)],
        [ShownBucket(0, 60, step_seconds=0.01), ShownBucket(60, 60)],
        [ShownBucket(0, 60), ShownBucket(60, 60)],
    ]
    merged = [series.thinned(pair, 1)[0].implied_tpot_seconds for pair in pairs]
    assert merged == [pytest.approx(0.01), None, None]


@pytest.mark.parametrize(
    ("accept", "best"),
    [
        ("", None),
        ("*/*", "text/html"),
        ("application/json", "application/json"),
        ("text/*;q=0.5, application/json;q=0.4", "text/html"),
        ("text/html;q=0, */*", "application/json"),
        ("image/png", None),
        ("application/json;q=oops", None),
        (" , ;q=1", None),
    ],
)
def test_best_media_type(accept: str, best: str | None) -> None:
    """Qualities, wildcards and refusals of the Accept header are honoured."""
    assert asking.best_media_type(accept, ["text/html", "application/json"]) == best


@given(st.text(max_size=60))
def test_no_header_is_an_error(header: str) -> None:
    """Whatever a client sends as Accept or Accept-Encoding, there is an answer."""
    assert asking.best_media_type(header, ["text/html"]) in {None, "text/html"}
    assert asking.accepts_gzip(header) in {True, False}


@given(st.text())
def test_text_is_escaped(text: str) -> None:
    """No text becomes markup, neither between tags nor in an attribute."""
    made = tag("p", text, title=text)
    assert made.count("<") == 2
    assert made.count('"') == 2


def test_markup() -> None:
    """What was built is kept, None is left out, lists are joined, flags and names become attributes."""
    made = tag(
        "a", None, ["x", tag("b", 1)], class_="c", aria_label="l", hidden=True, href=None, data_x=False
    )
    assert made == '<a class="c" aria-label="l" hidden>x<b>1</b></a>'
    assert isinstance(join([made]), Markup)
    assert tag("br") == "<br>"


@pytest.mark.parametrize("value", [None, "3", True, math.nan, math.inf, [1]])
def test_numbers_of_another_type_are_unknown(value: object) -> None:
    """A field that is absent, not a number or not finite is unknown, never an error or 0."""
    assert fields.number({"x": value}, "x") is None
    assert fields.number({}, "x") is None


def test_json_is_always_valid() -> None:
    """Records become objects, NaN becomes null, and what JSON cannot say is refused."""
    assert answers.plain({"a": (ShownBucket(0, 1, mal=math.nan),)})["a"][0]["mal"] is None  # type: ignore[index]
    with pytest.raises(TypeError, match="no JSON for set"):
        answers.plain({"a": {1}})


@pytest.mark.parametrize(
    ("changed", "mal"),
    [
        pytest.param(NOW - 60, 1.24, id="the-window-mixes-two-levels"),
        pytest.param(NOW - 400, 1.24, id="the-window-is-all-after"),
    ],
)
def test_level_now(changed: float, mal: float) -> None:
    """While a change is open the level is the one that its event says, as in notifications."""
    mixed = {"window_seconds": 300.0, "mal": 2.2}
    shown = stream("a", estimate=mixed, open_event={**COLLAPSE, "change_point_at": changed})
    assert fields.number(levels.of_stream(shown, NOW), "mal") == mal


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ("worse", ": worse than before (confidence 99.9 %)"),
        ("no_difference", ": no difference that the evidence shows"),
    ],
)
def test_a_release_verdict_is_in_the_headline(outcome: str, words: str) -> None:
    """The headline of a new regime says what it did to acceptance."""
    record = {
        "kind": "regime_change",
        "target": "a",
        "raised_at": 1000.0,
        "closed_at": 1000.0,
        "verdict": {"outcome": outcome, "confidence": 0.999},
    }
    assert words.replace(" %", "%") in sentences.event(record, 2000.0)
