"""What else changed around a change point is told as facts with numbers, and weighed against the unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.events import attribution
from monitor.core.events.attribution import Mark
from monitor.core.pages.engines.base import Counter
from tests import made

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.counts.windows import Sums
    from monitor.core.events.attribution import Attribution, MarkKind

CHANGE = (1000.0, 1010.0)
INTERVAL = 15.0


def traffic(**changed: float) -> Sums:
    """Return the sums of a window of steady traffic, with some of its figures changed."""
    figures = {
        "requests": 50.0,
        "prompt": 300.0,
        "output": 160.0,
        "batch": 4.0,
        "step": 0.010,
        "drafted": 1.0,
        "hits": 0.5,
    }
    figures |= changed
    outputs, requests = 4000.0, figures["requests"]
    more: Mapping[Counter, list[float]] = {
        Counter.DECODE_OUTPUTS: [outputs],
        Counter.DECODE_SECONDS: [outputs * figures["step"]],
        Counter.ENGINE_STEPS: [(outputs + requests) / figures["batch"]],
        Counter.FIRST_TOKENS: [requests],
        Counter.PROMPT_TOKENS: [requests * figures["prompt"]],
        Counter.OUTPUT_TOKENS: [requests * figures["output"]],
        Counter.FINISHED_REQUESTS: [requests],
        Counter.CACHE_QUERIES: [10_000.0],
        Counter.CACHE_HITS: [10_000.0 * figures["hits"]],
    }
    drafts = outputs * figures["drafted"]
    return made.sums(made.counts([[drafts * 0.8, drafts * 0.5]], [drafts], more=more))


def why(*marks: Mark, **changed: float) -> Attribution:
    """Return what is said of a change with these marks and traffic that changed so."""
    return attribution.around(CHANGE, INTERVAL, marks, traffic(), traffic(**changed))


def test_nothing_that_moved_leaves_the_unknown() -> None:
    """Where nothing exported moved, the cause is unknown with full weight, and says what is never exported."""
    found = why()
    assert found.facts == ()
    assert [(cause.cause, cause.weight) for cause in found.causes] == [("unknown", 1.0)]
    assert "temperature" in found.causes[0].evidence


@pytest.mark.parametrize(
    ("changed", "cause", "fact"),
    [
        ({"prompt": 900.0}, "traffic", "mean prompt length went from 300 to 900 tokens"),
        ({"output": 40.0}, "traffic", "mean generation length went from 160 to 40 tokens"),
        ({"hits": 0.9}, "traffic", "prefix cache hit ratio went from 0.5 to 0.9"),
        ({"batch": 16.0}, "load", "mean batch size went from 4 to 16"),
        ({"drafted": 0.5}, "load", "share of decode steps with a draft went from 1 to 0.5"),
        ({"step": 0.025}, "load", "step time went from 0.01 to 0.025 s"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_moved_is_a_fact_with_both_values(changed: dict[str, float], cause: str, fact: str) -> None:
    """Each traffic and load figure that moved is named with its values and speaks for its cause."""
    found = why(**changed)
    assert found.facts == (fact,)
    assert cause in [each.cause for each in found.causes]
    assert [each.evidence for each in found.causes if each.cause == cause] == [fact]


@pytest.mark.parametrize("changed", [{"prompt": 330.0}, {"batch": 4.6}, {"step": 0.0115}], ids=str)
def test_small_movements_are_no_facts(changed: dict[str, float]) -> None:
    """What moved by less than a fifth is not mentioned."""
    assert why(**changed).facts == ()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"requests": 3.0, "output": 64.0}, False),
        ({"requests": 3.0, "prompt": 3000.0}, True),
        ({"requests": 500.0, "output": 90.0}, True),
        ({"requests": 0.0}, False),
    ],
    ids=["few", "few-but-tenfold", "many", "none"],
)
def test_lengths_of_few_requests_move_by_chance(changed: dict[str, float], *, told: bool) -> None:
    """A mean length is a fact only where it moved further than means of so many requests do by chance."""
    assert any("length" in fact for fact in why(**changed).facts) is told


def test_what_the_page_does_not_have_is_no_fact() -> None:
    """A page with nothing but speculation's counters gives no fact and no error."""
    bare = made.sums(made.counts([[8, 5]], [10.0]))
    assert attribution.around(CHANGE, INTERVAL, (), bare, bare).facts == ()


@pytest.mark.parametrize("kind", get_args(attribution.MarkKind))
def test_a_mark_near_the_change_speaks_for_its_cause(kind: MarkKind) -> None:
    """Every kind of change of the configuration has a cause that it speaks for; the text is the evidence."""
    found = why(Mark(1020.0, kind, "x went from a to b"))
    name, _ = attribution.CAUSE_OF_MARK[kind]
    assert found.facts == ("x went from a to b",)
    assert [cause.evidence for cause in found.causes if cause.cause == name] == ["x went from a to b"]


def test_a_changed_draft_outweighs_a_plain_restart() -> None:
    """A new draft model at a restart is the first candidate, the restart that it needed comes behind it."""
    found = why(
        Mark(1005.0, "restart", "restarted"), Mark(1005.0, "draft_model", "draft_model went from a to b")
    )
    assert [cause.cause for cause in found.causes] == ["draft", "restart", "unknown"]
    assert found.causes[0].weight > 0.6


@pytest.mark.parametrize(("at", "near"), [(939.0, False), (941.0, True), (1069.0, True), (1071.0, False)])
def test_marks_count_within_four_intervals(at: float, *, near: bool) -> None:
    """A mark counts up to four scrape intervals off either end of the change point's range, and no further."""
    assert (why(Mark(at, "restart", "restarted")).facts == ("restarted",)) is near


def test_two_facts_of_one_cause_are_one_candidate() -> None:
    """Facts that speak for the same cause are told together and their weights add up."""
    (first, *rest) = why(prompt=900.0, output=640.0).causes
    assert first.cause == "traffic"
    assert first.evidence.count("went from") == 2
    assert "traffic" not in [cause.cause for cause in rest]


_marks = st.lists(
    st.builds(
        Mark,
        st.floats(900, 1100),
        st.sampled_from(get_args(attribution.MarkKind)),
        st.just("x went from a to b"),
    )
)


@given(
    _marks,
    st.fixed_dictionaries(
        {}, optional={name: st.floats(0.01, 5000) for name in ("prompt", "output", "batch")}
    ),
)
def test_weights_are_shares(marks: list[Mark], changed: dict[str, float]) -> None:
    """Weights lie in 0..1, add up to 1, fall in order; the unknown is always among the candidates, each but once."""
    causes = why(*marks, **changed).causes
    weights = [cause.weight for cause in causes]
    assert sum(weights) == pytest.approx(1.0, abs=0.01)
    assert all(0.0 < weight <= 1.0 for weight in weights)
    assert weights == sorted(weights, reverse=True)
    names = [cause.cause for cause in causes]
    assert "unknown" in names
    assert len(names) == len(set(names))
