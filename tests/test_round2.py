"""Public reports of 2026 as recorded pages: each must be judged as its report says it should have been."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from monitor.core import pipeline, streams
from monitor.core.streams import summaries, worth
from monitor.core.streams.regimes import Declared
from monitor.core.vocabulary import STATES
from monitor.sources import files
from tests import made

if TYPE_CHECKING:
    from monitor.core.events import Event
    from monitor.core.streams import State

ROUND2 = Path(__file__).parent / "fixtures" / "round2"


@dataclass(frozen=True)
class Told:
    """What a replay of a report said: events that opened, the state, and each stream's summary by its id."""

    opened: tuple[Event, ...]
    closed: tuple[Event, ...]
    states: tuple[set[str], ...]
    state: State

    def stream(self, replica: str, target: str = "") -> summaries.Record:
        """The summary of one replica."""
        return next(
            each
            for each in summaries.totals(pipeline.Plan(), self.state)
            if each["replica"] == replica and (not target or each["target"] == target)
        )

    def kinds(self) -> list[tuple[str, str]]:
        """Kind and replica of each event that opened or got worse, in the order told."""
        told = {(each.id, each.kind): each.key.replica if each.key else "fleet" for each in self.opened}
        return [(kind, replica) for (_, kind), replica in told.items()]


def replayed(name: str, plan: pipeline.Plan | None = None) -> Told:
    """Replay a report's pages."""
    plan = plan or pipeline.Plan()
    state = pipeline.begin(plan)
    opened, closed, seen = [], [], []
    for batch in files.replay(str(ROUND2 / f"{name}.jsonl.zst"), None):
        found = pipeline.step(plan, state, batch).events
        opened += [event for event in found if event.status == "open"]
        closed += [event for event in found if event.status == "closed"]
        codes = streams.states(state, made.array([batch[-1].at] * len(state.identities)), plan.limits)
        seen.append({STATES[code] for code in codes})
    return Told(tuple(opened), tuple(closed), tuple(seen), state)


def first_page(name: str) -> float:
    """When a report's recording begins."""
    return next(files.replay(str(ROUND2 / f"{name}.jsonl.zst"), None))[0].at


def test_the_one_engine_with_a_broken_image_collapses_and_its_restart_is_named() -> None:
    """N01: engine 7 falls from 2.92 to 1.3 with its restart; critical within minutes, the other seven are idle."""
    told = replayed("N01")
    assert {event.id for event in told.opened} == {told.opened[0].id}
    assert told.kinds()[0] == ("collapse", "7")
    event = told.opened[0]
    assert event.severity == "critical"
    assert event.raised_at - event.change_point_at <= 300.0
    assert event.causes[0].cause == "restart"
    assert told.opened[-1].causes[0].cause == "replica"  # by then the others are known to have stayed
    assert "restarted" in told.opened[-1].causes[0].evidence
    assert event.after.mal == pytest.approx(1.24, abs=0.1)
    assert {told.stream(str(replica))["state"] for replica in range(7)} == {"idle"}


def test_counters_at_0_without_a_draft_are_speculation_off() -> None:
    """N02off: the Rust front end makes the draft counters with speculation off; that is off, never silent."""
    told = replayed("N02off")
    assert not told.opened
    assert not set().union(*told.states) & {"silent", "ok"}
    assert told.states[-1] == {"off"}


def test_a_draft_that_accepts_nothing_is_dead_at_once() -> None:
    """N05: nothing accepted from the first page on; the name with blanks is read whole, time stamps are no values."""
    told = replayed("N05")
    assert told.kinds() == [("dead_draft", "0")]
    assert told.opened[0].raised_at - first_page("N05") <= 60.0
    assert told.state.identities[0].key.model_name == "Big Model 27B Quant"


def test_one_token_of_one_request_is_a_dead_draft() -> None:
    """N04: 633 draft tokens in 211 drafts of one request, one accepted: dead with the page that says so."""
    told = replayed("N04")
    assert told.kinds() == [("dead_draft", "0")]
    assert told.opened[0].severity == "critical"
    assert told.opened[0].after.mal == pytest.approx(1.005, abs=0.001)


def test_a_slide_of_totals_is_told_and_its_baseline_stays() -> None:
    """N06s: 3.4 to 1.9 in two hours, totals only: told by 105 min (at 3.0), a collapse at the end, the baseline above 3.2.

    N06v: the same slower and not as far: told, and the baseline stays at 3.3.
    """
    told = replayed("N06s")
    assert list(dict.fromkeys(event.kind for event in told.opened)) == ["drop", "collapse"]
    assert told.opened[0].raised_at - first_page("N06s") <= 105 * 60.0
    assert told.opened[-1].severity == "critical"
    assert float(str(told.stream("0")["baseline_mal"])) > 3.2
    slower = replayed("N06v")
    assert {event.kind for event in slower.opened} == {"drop"}
    assert float(str(slower.stream("0")["baseline_mal"])) > 3.29


def test_the_workers_on_a_routers_page_are_streams_of_their_own() -> None:
    """N07: two workers, the draft of one dies: critical for it alone, and no gauge is a sum."""
    told = replayed("N07")
    assert told.kinds() == [("collapse", "http://10.0.0.2:8000")]
    assert told.opened[0].severity == "critical"
    assert told.stream("http://10.0.0.1:8000")["state"] == "ok"
    assert told.stream("http://10.0.0.1:8000")["mal"] == pytest.approx(3.0, abs=0.01)


def test_a_schedule_that_drafts_nothing_at_large_batches_is_silent_not_collapsed() -> None:
    """N08: k 3, then 2 (told as that), then 0: no drop, silent at 0, ok again at night; N08b and N08e: no fall."""
    told = replayed("N08")
    assert told.kinds() == [("speculation_silent", "0")]
    assert [event.kind for event in told.closed] == ["regime_change", "speculation_silent"]
    assert told.closed[0].causes[0].evidence.startswith("drafts went from 3 to 2.02 tokens on the mean;")
    assert told.states[-1] == {"ok"}
    for name in ("N08b", "N08e"):
        quiet = replayed(name)
        assert not quiet.opened, name
        assert quiet.states[-1] == {"ok"}


@pytest.mark.parametrize(("name", "length"), [("N11", (3.57, 8.8)), ("N27", (4.0, 1.97))])
def test_a_change_of_draft_length_is_told_and_is_no_fall(name: str, length: tuple[float, float]) -> None:
    """N11, N27: drafts get longer or shorter, each token as good as before: one info; MAL beside the same baseline."""
    told = replayed(name)
    assert not told.opened
    (note,) = told.closed
    assert (note.kind, note.severity) == ("regime_change", "info")
    assert note.causes[0].cause == "engine"
    words = note.causes[0].evidence.split()
    assert (float(words[3]), float(words[5])) == pytest.approx(length, abs=0.15)
    assert told.states[-1] == {"ok"}
    (shown,) = summaries.over_window(pipeline.Plan(), told.state, 0, told.state.targets[name].last_at)
    assert shown["baseline_mal"] == pytest.approx(shown["mal"], rel=0.04)


def test_a_server_that_swings_between_two_kinds_of_sessions_pages_a_few_times_only() -> None:
    """N28: weak sessions in turn with good ones: three pages, an info, then silence; N28m: no event at all.

    The fixtures are the first 3.5 of the report's 12 hours, and every sixth page: nothing more is said in all.
    """
    told = replayed("N28")
    assert {event.kind for event in told.opened} == {"collapse"}
    assert len({event.id for event in told.opened}) == 3
    assert [event.kind for event in told.closed] == ["collapse"] * 3 + ["regime_change"]
    assert told.closed[-1].facts[0].startswith("acceptance fell to a MAL of 1.")
    assert told.closed[-1].raised_at - first_page("N28") <= 3 * 3600.0
    assert told.states[-1] == {"ok"}
    mild = replayed("N28m")
    assert mild.opened + mild.closed == ()


def test_a_replica_of_ray_that_was_replaced_is_stale_and_its_successor_judged() -> None:
    """N13: streams by ReplicaId, whatever WorkerId does; the old one is stale, the new one ok, no event."""
    told = replayed("N13")
    assert not told.opened
    assert {each: told.stream(each)["state"] for each in ("r-1", "r-2", "r-3")} == {
        "r-1": "ok",
        "r-2": "stale",
        "r-3": "ok",
    }


def test_a_page_without_a_models_name_is_judged_and_takes_the_operators() -> None:
    """N13n: the label was dropped; the stream is judged, and called as the operator says."""
    told = replayed("N13n", pipeline.Plan(declared={"N13n": Declared(model_name="org/ray")}))
    assert told.state.identities[0].key.model_name == "org/ray"
    assert told.stream("r0")["mal"] == pytest.approx(2.996, abs=0.02)
    unnamed = replayed("N13n")
    assert unnamed.state.identities[0].key.model_name == ""
    assert unnamed.states[-1] <= {"ok", "warming"}


def test_a_page_that_went_through_a_collector_is_read() -> None:
    """N14: underscores, no _total, labels of a collector: the collapse is found."""
    told = replayed("N14")
    assert told.kinds() == [("collapse", "0")]
    assert told.opened[0].severity == "critical"


def test_a_server_that_sleeps_is_idle_and_judged_when_it_wakes() -> None:
    """N15: idle for half an hour, then ok without an event; N15b: garbage after waking is a collapse at once."""
    told = replayed("N15")
    assert not told.opened
    assert {"idle"} in told.states
    assert told.states[-1] == {"ok"}
    garbage = replayed("N15b")
    assert garbage.kinds() == [("collapse", "0")]
    assert garbage.opened[0].raised_at - garbage.opened[0].change_point_at <= 120.0


def test_an_address_that_moves_to_another_engine_ends_the_old_stream() -> None:
    """N16: llama.cpp, then vLLM at one address: another stream, no event, the old one said to be replaced."""
    told = replayed("N16")
    assert not told.opened
    old = next(
        each for each in summaries.totals(pipeline.Plan(), told.state) if each["engine"] == "llama.cpp"
    )
    assert old["state"] == "stale"
    assert old["reason"] == "the address answers as vllm now: the stream of llama.cpp was replaced"
    new = next(each for each in summaries.totals(pipeline.Plan(), told.state) if each["engine"] == "vllm")
    assert new["state"] == "ok"


def test_a_collapse_after_a_restart_names_the_restart() -> None:
    """N18: 2.67 in one server, 1.3 on the decode side of a split: critical, restart first among the causes."""
    told = replayed("N18")
    assert told.kinds() == [("collapse", "0")]
    assert told.opened[0].causes[0].cause == "restart"
    assert told.opened[0].before.mal == pytest.approx(2.67, abs=0.05)
    assert told.opened[0].after.mal == pytest.approx(1.3, abs=0.1)


def test_odd_lines_cost_nothing_but_themselves() -> None:
    """N20: bytes that are no UTF-8, a dash in a label's name, a comma before the brace: the rest is read."""
    told = replayed("N20")
    assert told.states[-1] <= {"ok", "warming"}
    assert told.stream("0")["mal"] == pytest.approx(2.987, abs=0.02)


def test_counters_of_six_digits_raise_no_alarm_and_hide_none() -> None:
    """N22: no event at 40 million, all of it read; N22b: at 400 million the collapse is found, nothing is impossible."""
    told = replayed("N22")
    assert not told.opened
    assert told.stream("0")["violations"] == {}
    assert told.stream("0")["coverage"] is not None
    fallen = replayed("N22b")
    assert fallen.kinds() == [("collapse", "0")]
    assert fallen.stream("0")["violations"] == {}


def test_one_of_four_servers_that_falls_has_the_only_event() -> None:
    """N24: api-2 falls and is told of alone; the other three are ok."""
    told = replayed("N24")
    assert {event.key.target for event in told.opened if event.key} == {"api-2"}
    assert told.stream("0", "api-2")["state"] in ("drifting", "collapsed")
    assert {told.stream("0", f"api-{each}")["state"] for each in (0, 1, 3)} == {"ok"}


def test_a_net_loss_is_said_where_the_plain_step_time_is_told() -> None:
    """N21: 45 ms a token without, 60 ms with speculation at 40 % accepted: it costs, three quarters as fast."""
    plan = pipeline.Plan(told={"": worth.Told(plain_step_seconds=0.045)})
    told = replayed("N21", plan)
    (record,) = summaries.totals(plan, told.state)
    verdict = record["payoff"]
    assert isinstance(verdict, dict)
    assert "speculation costs you" in str(verdict["sentence"])
    assert "0.75×" in str(verdict["sentence"])
