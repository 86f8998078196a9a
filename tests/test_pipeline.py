"""The pipeline as a whole: how scrapes are grouped, cut or repeated changes no event."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core import pipeline, streams
from monitor.core.counts import estimates, windows
from monitor.core.events import event_records
from monitor.core.pages.engines.base import UNKNOWN
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.core.streams import checkpoint, summaries
from monitor.core.streams.regimes import Declared
from monitor.core.vocabulary import STATES
from tests import captures, made

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from monitor.core.counts.estimates import Estimates
    from monitor.core.events import Event
    from monitor.core.streams import State

START = made.START
INTERVAL = made.INTERVAL


def simulated(target: str, seed: int, *, acceptance: Iterable[float]) -> list[Scrape]:
    """Return pages of a target with 3 draft tokens, one per element of `acceptance`, some of them torn or failed."""
    rng = np.random.default_rng(seed)
    drafts, accepted, tokens, pages = 0, np.zeros(3), 0, []
    for n, rate in enumerate(acceptance):
        grown = int(rng.integers(300, 500))
        kept = grown
        for j in range(3):
            kept = int(rng.binomial(kept, rate * rng.uniform(0.95, 1.05)))
            accepted[j] += kept
            tokens += kept
        drafts += grown
        tokens += grown
        at = START + INTERVAL * n
        body = made.page(
            accepted.tolist(), drafts=drafts, more={"generation_tokens_total": tokens}, started_at=START - 50
        )
        if rng.random() < 0.02:
            pages.append(Scrape(target, at, failure=Failure("timeout", "no answer within 10 s")))
        else:
            pages.append(Scrape(target, at, body=body))
    return pages


@cache
def fleet() -> tuple[Scrape, ...]:
    """Return the pages of three targets in time order: steady, collapsing and recovering, and one with a gap."""
    steady = simulated("steady", 1, acceptance=[0.8] * 400)
    collapsing = simulated("collapsing", 2, acceptance=[0.8] * 250 + [0.1] * 60 + [0.8] * 90)
    gap = [page for n, page in enumerate(simulated("gap", 3, acceptance=[0.6] * 400)) if not 200 < n < 230]
    return tuple(sorted(steady + collapsing + gap, key=lambda page: page.at))


def written(found: Iterable[Event]) -> str:
    """Return events as replay prints them."""
    return "".join(json.dumps(event_records.as_json(event), allow_nan=False) + "\n" for event in found)


def run(groups: Iterable[Sequence[Scrape]], state: State | None = None) -> tuple[State, list[Event]]:
    """Return the state and the events after stepping through groups of scrapes."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan) if state is None else state
    found: list[Event] = []
    for group in groups:
        found += pipeline.step(plan, state, group).events
    return state, found


@cache
def alone() -> tuple[dict[str, bytes], str, str]:
    """Return the frozen state, the events and the summaries of the fleet read page by page."""
    state, found = run([page] for page in fleet())
    return checkpoint.freeze(state), written(found), json.dumps(summaries.totals(pipeline.Plan(), state))


def total(state: State) -> Estimates:
    """Return the estimates over everything counted."""
    return estimates.from_sums(windows.total(state.sums))


# How scrapes are grouped, cut or repeated ---------------------------------------------------------------


def test_the_collapse_is_found_and_nothing_else() -> None:
    """One target collapses and recovers: one event, opened and closed; the others raise none."""
    found = [json.loads(line) for line in alone()[1].splitlines()]
    assert {event["target"] for event in found} == {"collapsing"}
    assert len({event["id"] for event in found}) == 1
    assert [event["status"] for event in found][-1] == "closed"
    assert found[0]["kind"] in ("collapse", "dead_draft")
    assert 0 <= found[0]["raised_at"] - (START + 250 * INTERVAL) <= 60
    assert abs(found[0]["change_point_at"] - (START + 250 * INTERVAL)) <= 2 * INTERVAL


@given(st.lists(st.integers(1, 40), min_size=1))
@settings(max_examples=8, deadline=None)
def test_batching_changes_nothing(sizes: list[int]) -> None:
    """Whatever groups the pages come in, events and state are the same to the byte."""
    pages, groups, size = list(fleet()), [], 0
    while pages:
        count = sizes[size % len(sizes)]
        size += 1
        groups.append(pages[:count])
        del pages[:count]
    state, found = run(groups)
    assert sorted(written(found).splitlines()) == sorted(alone()[1].splitlines())
    assert different(checkpoint.freeze(state), alone()[0]) == []


def different(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    """The names of the parts that are not the same; pytest would print all of their bytes, for minutes."""
    return sorted(name for name in {*first, *second} if first.get(name) != second.get(name))


def test_a_replay_is_repeatable() -> None:
    """The same pages give the same events, summaries and state to the byte."""
    state, found = run([page] for page in fleet())
    summary = json.dumps(summaries.totals(pipeline.Plan(), state))
    assert different(checkpoint.freeze(state), alone()[0]) == []
    assert (written(found), summary) == alone()[1:]


@given(st.integers(0, len(fleet())))
@settings(max_examples=6, deadline=None)
def test_a_restart_of_ours_changes_nothing(cut: int) -> None:
    """Cut anywhere, frozen, thawed and continued: the same events as without the cut."""
    first, before = run([page] for page in fleet()[:cut])
    thawed = checkpoint.thaw(pipeline.Plan(), checkpoint.freeze(first))
    last, after = run(([page] for page in fleet()[cut:]), thawed)
    assert written(before + after) == alone()[1]
    assert json.dumps(summaries.totals(pipeline.Plan(), last)) == alone()[2]


@pytest.mark.parametrize("name", captures.RUNS)
def test_real_runs_survive_a_restart_of_ours_at_every_page(name: str) -> None:
    """Recorded runs, frozen and thawed before every page, give the events and summaries of an uncut run."""
    pages = captures.scrapes(captures.THINNED, name)
    whole, expected = captures.replay(pages)
    state, found = pipeline.begin(pipeline.Plan()), []
    for page in pages:
        state, some = run([[page]], checkpoint.thaw(pipeline.Plan(), checkpoint.freeze(state)))
        found += some
    assert written(found) == written(expected)
    assert summaries.totals(pipeline.Plan(), state) == summaries.totals(pipeline.Plan(), whole)


def test_runs_in_one_process_are_as_alone() -> None:
    """All recorded runs read together, a tick at a time, count what each counts alone."""
    together: dict[float, list[Scrape]] = {}
    for name in captures.RUNS:
        for n, page in enumerate(captures.scrapes(captures.THINNED, name)):
            together.setdefault(n, []).append(page)
    state, _ = run(together.values())
    records = {record["target"]: record for record in summaries.totals(pipeline.Plan(), state)}
    for name in captures.RUNS:
        apart, _ = captures.replay(captures.scrapes(captures.THINNED, name))
        assert [records[name]] == summaries.totals(pipeline.Plan(), apart)


# Failed, late and odd pages -----------------------------------------------------------------------------


def test_a_failed_scrape_is_a_value() -> None:
    """Failed looks are counted with their reason, change no count, and the next good page spans them."""
    down = Failure("connection", "connection refused")
    state, found = run(
        [each] for each in made.looks([made.steady(1), down, down, b"<html>", b"", made.steady(5)])
    )
    assert found == []
    assert total(state).drafts[0] == 400
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert summary["scrapes_read"] == 2
    assert summary["scrapes_refused"] == {"connection": 2, "empty": 1, "html": 1}
    assert (summary["restarts"], summary["regimes"]) == (0, 1)


def test_a_target_that_never_gave_a_page_is_told_of() -> None:
    """A target without one good page has a summary with the reason and without numbers."""
    state, _ = run([made.looks([b"<html>", b"<html>"])])
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert (summary["stream"], summary["state"], summary["scrapes_refused"]) == (None, "stale", {"html": 2})
    assert "web page" in str(summary["reason"])


def test_a_bad_wanted_line_costs_neither_page_nor_regime() -> None:
    """A line of the last position that is cut in its labels is a finding; k stays, the next page counts for both."""
    torn = made.steady(2).replace(b'position="2"} 80.0', b'position="2} 80.0')
    assert torn != made.steady(2)
    state, found = run([each] for each in made.looks([made.steady(1), torn, made.steady(3), made.steady(4)]))
    assert found == []
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert (summary["regimes"], summary["restarts"], summary["num_speculative_tokens"]) == (1, 0, 3)
    assert summary["accepted"] == [240, 180, 120]
    assert summary["violations"] == {"unreadable_line": 1}


def test_a_value_that_is_no_number_costs_neither_page_nor_sum() -> None:
    """A wanted value that cannot be read is a finding, and the sums come right with the next page."""
    torn = made.steady(2).replace(b'position="1"} 120.0', b'position="1"} 12O.0')
    state, _ = run([each] for each in made.looks([made.steady(1), torn, made.steady(3)]))
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert (summary["drafts"], summary["accepted"]) == (200, [160, 120, 80])
    assert summary["violations"] == {"unreadable_line": 1}


def test_a_series_that_stands_twice_is_counted_once() -> None:
    """Of a series that the page has twice the first counts, and the doubling is a finding."""
    state, _ = run([each] for each in made.looks([made.steady(n) + made.steady(n) for n in (1, 2)]))
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert (summary["drafts"], summary["accepted"]) == (100, [80, 60, 40])
    assert set(summary["violations"]) == {"duplicate_series"}  # type: ignore[call-overload]


def test_counters_that_contradict_each_other_are_a_finding() -> None:
    """Positions that do not add up to the accepted tokens are counted as a violation, page by page."""
    bodies = [made.steady(n).replace(b"accepted_tokens_total", b"accepted_tokens_x") for n in range(1, 4)]
    bodies = [
        body
        + f'vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="org/model"}} {300 * n}\n'.encode()
        for n, body in enumerate(bodies, 1)
    ]
    state, _ = run([each] for each in made.looks(bodies))
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert summary["violations"] == {"positions_sum": 2}


def test_another_engine_at_the_same_address_is_recognised() -> None:
    """Where another prefix, or no engine at all, answers at an address, it is read as what it is."""
    ray = made.steady(2).replace(b"vllm:", b"ray_vllm:")
    other = b"# TYPE python_info gauge\npython_info 1\nprocess_start_time_seconds 5\n"
    state, _ = run([each] for each in made.looks([made.steady(1), ray, other, made.steady(4)]))
    (summary,) = summaries.totals(pipeline.Plan(), state)
    assert summary["drafts"] == 300
    assert summary["scrapes_refused"] == {"unrecognised": 1}


def test_streams_that_appear_later_count_from_zero() -> None:
    """The first page is the base; a model that a later page has counts from that target's last page on."""
    second = made.steady(2) + made.page((8, 6), drafts=10, model_name="late")
    third = made.steady(3) + made.page((16, 12), drafts=20, model_name="late")
    state, _ = run([each] for each in made.looks([made.steady(1), second, third]))
    names = [identity.key.model_name for identity in state.identities]
    assert names == [made.MODEL_NAME, "late"]
    assert total(state).drafts.tolist() == [200, 20]


def test_a_late_page_of_another_regime_changes_nothing() -> None:
    """A page from before a restart with another k, delivered after it, neither counts nor ends the regime."""
    old = [
        made.page((90 * n, 80 * n, 70 * n, 60 * n), drafts=100 * n, started_at=START - 900) for n in (1, 2, 3)
    ]
    new = [made.page((90 * n, 80 * n), drafts=100 * n, started_at=START + 40) for n in (1, 2, 3)]
    looks = made.looks([old[0], old[1], new[0], old[2], new[1], new[2]])
    late = [*looks[:3], replace(looks[3], at=looks[1].at + 5.0), *looks[4:]]
    for each in (looks, late):
        state, _ = run([look] for look in each)
        (summary,) = summaries.totals(pipeline.Plan(), state)
        assert (summary["regimes"], summary["restarts"], summary["drafts"]) == (2, 1, 100 + 300)
        assert summary["num_speculative_tokens"] == 2


def test_a_first_page_that_comes_late_is_a_base() -> None:
    """A stream first seen on a page older than the target's last one is a base, never a negative interval."""
    looks = [
        Scrape("t", START, body=made.steady(1)),
        Scrape("t", START - 30, body=made.steady(1) + made.page((8,), drafts=10, model_name="x")),
    ]
    looks.append(Scrape("t", START + 15, body=made.steady(2) + made.page((16,), drafts=20, model_name="x")))
    state, _ = run([look] for look in looks)
    assert total(state).drafts.tolist() == [100, 10]
    assert total(state).seconds.tolist() == [15.0, 45.0]


def test_speculation_switched_off_is_told_once() -> None:
    """A page that no longer has the family of speculation is one note, and the stream is off; on again it counts on."""
    bare = made.page(more={"generation_tokens_total": 900}, started_at=START + 40)
    with_start = [made.page((80 * n, 60 * n), drafts=100 * n, started_at=START - 9) for n in (1, 2)]
    again = [made.page((80 * n, 60 * n), drafts=100 * n, started_at=START + 70) for n in (1, 2)]
    state, found = run([each] for each in made.looks([*with_start, bare, bare, *again]))
    assert [(event.kind, event.status, event.raised_at) for event in found] == [
        ("speculation_off", "closed", START + 2 * INTERVAL)
    ]
    assert found[0].after.mal == 1.0
    assert total(state).drafts[0] == 300
    codes = []
    for looks in ([*with_start, bare], [*with_start, bare, bare, *again]):
        state, _ = run([each] for each in made.looks(looks))
        codes += streams.states(state, np.array([START + INTERVAL * len(looks)]), streams.Limits()).tolist()
    assert STATES[codes[0]] == "off"
    assert STATES[codes[1]] != "off"


def test_what_the_operator_declares_ends_a_regime() -> None:
    """A draft model that the operator says is another one, also without a restart of anything, is a new regime."""
    first = pipeline.Plan(declared={"t": Declared(draft_model="a", num_speculative_tokens=3)})
    second = replace(first, declared={"t": Declared(draft_model="b", num_speculative_tokens=3)})
    state = pipeline.begin(first)
    for n, look in enumerate(made.looks([made.steady(n) for n in range(1, 7)])):
        step = pipeline.step(first if n < 3 else second, state, [look])
        assert any(each.counts.new_regime.any() for each in step.observations) is (n == 3)
    assert state.identities[0].regimes == 2
    assert "draft_model went from a to b" in state.identities[0].marks[-1].text


def test_more_positions_need_no_more_of_others() -> None:
    """A target with 16 draft tokens joining makes room, and what others counted stays as it was."""
    deep = [made.page([float(90 * n - j) for j in range(16)], drafts=100 * n) for n in (1, 2)]
    looks = [
        *made.looks([made.steady(1), made.steady(2)]),
        *made.looks(deep, "deep"),
        *made.looks([made.steady(1), made.steady(2), made.steady(3)])[2:],
    ]
    state, _ = run([look] for look in looks)
    seen = total(state)
    assert seen.accepted[0, :3].tolist() == [160, 120, 80]
    assert np.isnan(seen.accepted[0, 3:]).all()
    assert seen.accepted[1, :16].tolist() == [90.0] * 16


def test_an_absurd_number_of_positions_breaks_nothing() -> None:
    """A page with hundreds of positions is read as far as there is room, and so are the others after it."""
    absurd = [made.page([float(n)] * 500, drafts=10 * n) for n in (1, 2)]
    state, _ = run(
        [look] for look in [*made.looks(absurd, "absurd"), *made.looks([made.steady(1), made.steady(2)])]
    )
    assert total(state).drafts.tolist() == [10, 100]


@given(
    st.lists(
        st.binary(max_size=60)
        | st.sampled_from([made.steady(1), made.steady(2), made.steady(3), made.steady(1)[:150]]),
        max_size=12,
    )
)
@settings(deadline=None)
def test_no_sequence_of_bodies_breaks_it(bodies: list[bytes]) -> None:
    """Any bodies in any order, damaged ones among them, give states, summaries and no error."""
    state, _ = run([each] for each in made.looks(bodies))
    for record in summaries.totals(pipeline.Plan(), state):
        json.dumps(record, allow_nan=False)
        assert record["state"] in STATES
        drafts = record.get("drafts")
        assert drafts is None or (isinstance(drafts, int | float) and drafts >= 0)


def test_counters_without_a_page_are_streams_too() -> None:
    """Readings that come without a page count as pages do, and their first is the base."""
    looks = [
        Scrape(
            "t",
            START + INTERVAL * n,
            readings=(made.reading((80.0 * n, 60.0 * n), drafts=100.0 * n, started_at=UNKNOWN),),
        )
        for n in (1, 2, 3)
    ]
    state, _ = run([look] for look in looks)
    assert total(state).drafts[0] == 200
    assert state.identities[0].engine == "counters"
    assert not math.isnan(total(state).mal[0])
