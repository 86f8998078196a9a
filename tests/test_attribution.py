"""What else changed around a change point is told as facts with numbers, and weighed by what was learnt of causes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.events import attribution
from monitor.core.events.attribution import likelihoods, signs
from monitor.core.events.attribution.signs import Mark, Peers, Surroundings
from monitor.core.pages.engines.base import Counter
from tests import made

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.counts.windows import Sums
    from monitor.core.events.attribution import Attribution
    from monitor.core.events.attribution.signs import MarkKind

CHANGE = (1000.0, 1010.0)
INTERVAL = 15.0
USUAL = (0.8, 0.5, 0.3)
FALLEN = (0.6, 0.24, 0.09)
BLANK = (0.4, 0.25, 0.15)
TAILLESS = (0.8, 0.1, 0.01)
ALONE = Peers()


def traffic(rates: Sequence[float] = USUAL, **changed: float) -> Sums:
    """Return the sums of a window of steady traffic, with some of its figures changed; `rates` per position."""
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
    outputs, requests = 40_000.0, figures["requests"]
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
    return made.sums(made.counts([[drafts * rate for rate in rates]], [drafts], more=more))


def why(*marks: Mark, after: Sums | None = None, peers: Peers = ALONE) -> Attribution:
    """Return what is said of a fall with these marks and this window after it."""
    return attribution.around(
        Surroundings(CHANGE, INTERVAL, marks, traffic(), after or traffic(FALLEN), peers=peers)
    )


def mark(kind: MarkKind, at: float = 1005.0) -> Mark:
    """Return a mark of a kind beside the change."""
    return Mark(at, kind, f"{kind} went from a to b")


def first(found: Attribution) -> str:
    """Return the cause that comes first."""
    return found.causes[0].cause


def test_nothing_that_moved_leaves_the_unknown() -> None:
    """Where nothing but acceptance moved, the cause is unknown, and it says what is never exported."""
    found = why()
    assert first(found) == "unknown"
    assert found.causes[0].weight >= 0.5
    assert "temperature" in found.causes[0].evidence


@pytest.mark.parametrize(
    ("changed", "fact"),
    [
        ({"prompt": 900.0}, "mean prompt length went from 300 to 900 tokens"),
        ({"prompt": 6_691.0}, "mean prompt length went from 300 to 6,690 tokens"),
        ({"output": 40.0}, "mean generation length went from 160 to 40 tokens"),
        ({"hits": 0.9}, "prefix cache hit ratio went from 0.5 to 0.9"),
        ({"batch": 16.0}, "mean batch size went from 4 to 16"),
        ({"drafted": 0.5}, "share of decode steps with a draft went from 1 to 0.5"),
        ({"step": 0.025}, "step time went from 0.01 to 0.025 s"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_moved_is_a_fact_with_both_values(changed: dict[str, float], fact: str) -> None:
    """Each traffic and load figure that moved is told with its values, and nothing else of them is."""
    assert [told for told in why(after=traffic(FALLEN, **changed)).facts if "went from" in told] == [fact]


@pytest.mark.parametrize("changed", [{"prompt": 330.0}, {"batch": 4.6}, {"step": 0.0115}], ids=str)
def test_small_movements_are_no_facts(changed: dict[str, float]) -> None:
    """What moved by less than a fifth is not mentioned."""
    assert not [told for told in why(after=traffic(FALLEN, **changed)).facts if "went from" in told]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"requests": 3.0, "output": 64.0}, False),
        ({"requests": 3.0, "prompt": 30_000.0}, True),
        ({"requests": 500.0, "output": 90.0}, True),
        ({"requests": 0.0}, False),
    ],
    ids=["few", "few-but-a-hundredfold", "many", "none"],
)
def test_lengths_of_few_requests_move_by_chance(changed: dict[str, float], *, told: bool) -> None:
    """A mean length is a fact only where it moved further than means of so many requests do by chance."""
    assert any("length" in fact for fact in why(after=traffic(FALLEN, **changed)).facts) is told


def test_what_the_page_does_not_have_is_no_fact() -> None:
    """A page with nothing but one total of speculation gives no fact and no error."""
    bare = made.sums(made.counts([], [10.0]))
    assert attribution.around(Surroundings(CHANGE, INTERVAL, (), bare, bare)).facts == ()


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("draft_model", "draft"),
        ("target_model", "target_model"),
        ("engine_version", "engine"),
        ("config", "config"),
        ("method", "config"),
    ],
)
def test_what_a_release_says_is_its_cause(kind: MarkKind, cause: str) -> None:
    """A change that the page names, at a restart, before a fall of all positions, comes first with its text."""
    found = why(mark("restart"), mark(kind))
    assert first(found) == cause
    assert f"{kind} went from a to b" in found.causes[0].evidence
    assert f"{kind} went from a to b" in found.facts


def test_a_plain_restart_is_told_as_one() -> None:
    """A restart that says nothing of itself comes first as what it may have brought, and is in the evidence."""
    found = why(mark("restart"))
    assert first(found) in ("restart", "draft")
    assert "restart went from a to b" in found.causes[0].evidence


def test_one_of_many_is_a_bad_replica() -> None:
    """One replica that falls alone, with nothing that moved, is one bad replica; the evidence counts the others."""
    found = why(peers=Peers(moved=0, stayed=7))
    assert first(found) == "replica"
    assert "none of 7 other replicas" in found.causes[0].evidence


def test_longer_prompts_of_all_replicas_are_traffic() -> None:
    """Prompts twice as long on every replica, with all positions a little lower, are another kind of traffic."""
    found = why(after=traffic(FALLEN, prompt=650.0, output=90.0, hits=0.2), peers=Peers(moved=7, stayed=0))
    assert first(found) == "traffic"
    assert "mean prompt length" in found.causes[0].evidence


def test_the_part_that_traffic_explains_is_its_weight_as_a_cause() -> None:
    """With 0.1 of 0.4 logits explained by the stream's history, traffic weighs a quarter more, the rest less."""
    told = Surroundings(CHANGE, INTERVAL, (), traffic(), traffic(FALLEN))
    without, found = (
        attribution.around(each) for each in (told, replace(told, explained=-0.1, unexplained=-0.3))
    )
    assert first(found) == "unknown"
    weights = [{cause.cause: cause.weight for cause in each.causes} for each in (without, found)]
    assert weights[1]["traffic"] == pytest.approx(0.25 + 0.75 * weights[0].get("traffic", 0.0), abs=0.04)
    assert any("-0.10 logits" in fact for fact in found.facts)


def test_contexts_beyond_the_draft_keep_conditional_acceptance() -> None:
    """Much longer prompts under which drafts keep nothing or as much as before: beyond the draft's limit."""
    found = why(after=traffic(BLANK, prompt=9000.0), peers=Peers(moved=7, stayed=0))
    assert first(found) == "context_limit"
    assert "first position fell" in found.causes[0].evidence


def test_a_dead_tail_keeps_the_first_position() -> None:
    """Late positions that accept nothing while the first is as good as before are a dead tail."""
    found = why(after=traffic(TAILLESS))
    assert first(found) == "tail"
    assert "the first position kept" in found.causes[0].evidence


@pytest.mark.parametrize(("at", "near"), [(939.0, False), (941.0, True), (1069.0, True), (1071.0, False)])
def test_marks_count_within_four_intervals(at: float, *, near: bool) -> None:
    """A mark counts up to four scrape intervals off either end of the change point's range, and no further."""
    assert ("restart went from a to b" in why(mark("restart", at)).facts) is near


def test_every_kind_of_mark_has_a_sign_that_is_learnt() -> None:
    """No mark is without a say: each kind is a sign that the table knows under every cause."""
    assert set(signs.SIGN_OF_MARK) == set(get_args(signs.MarkKind))
    for cause in likelihoods.LEARNT:
        for name in signs.SIGN_OF_MARK.values():
            assert likelihoods.ratio(cause, name, "yes") > 0


_marks = st.lists(st.builds(mark, st.sampled_from(get_args(signs.MarkKind)), st.floats(900, 1100)))


@given(
    _marks,
    st.fixed_dictionaries(
        {}, optional={name: st.floats(0.01, 5000) for name in ("prompt", "output", "batch")}
    ),
    st.builds(Peers, st.integers(0, 9), st.integers(0, 9)),
    st.sampled_from([USUAL, FALLEN, BLANK, TAILLESS, (0.001, 0.0, 0.0)]),
)
def test_weights_are_shares(
    marks: list[Mark], changed: dict[str, float], peers: Peers, rates: tuple[float, ...]
) -> None:
    """Weights lie in 0..1, add up to 1, fall in order; the unknown is always among the candidates, each but once."""
    causes = why(*marks, after=traffic(rates, **changed), peers=peers).causes
    weights = [cause.weight for cause in causes]
    assert sum(weights) == pytest.approx(1.0, abs=0.01)
    assert all(0.0 <= weight <= 1.0 for weight in weights)
    assert weights == sorted(weights, reverse=True)
    names = [cause.cause for cause in causes]
    assert "unknown" in names
    assert len(names) == len(set(names))
