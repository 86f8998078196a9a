"""The demo's simulated day leaves references, events and history, and the live pages go on from it."""

from __future__ import annotations

from dataclasses import replace

from monitor.core import events, pipeline, streams
from monitor.core.pages.engines.base import Counter
from monitor.core.pages.scrapes import Scrape
from monitor.service.demo import past, simulated_fleet, story
from monitor.store import Store

END = 1.8e9
HOURS = 8.0
PLAN = pipeline.Plan(
    windows=(10.0, 60.0, 300.0), limits=streams.Limits(scrape_interval=1.0, silent_seconds=20.0)
)
QWEN, CODER, MISTRAL = (
    next(each for each in story.SCENARIOS if each.name == name) for name in ("qwen-0", "coder-0", "mistral-0")
)


def lived(seed: int = 1) -> tuple[simulated_fleet.SimulatedFleet, past.Lived]:
    """A fleet of the one engine that has a rollout behind it, after its last hours."""
    fleet = simulated_fleet.SimulatedFleet(seed, clock=lambda: END, scenarios=[QWEN])
    done = past.live_through(
        PLAN, fleet.members, seed, END, lambda _: None, seconds=HOURS * story.HOUR_SECONDS
    )
    return fleet, done


def seen_live(fleet: simulated_fleet.SimulatedFleet, done: past.Lived, seconds: float) -> list[events.Event]:
    """What is said of the fleet in its first live seconds, looked at once a second."""
    fleet.begin()
    found: list[events.Event] = []
    for second in range(int(seconds)):
        for member in fleet.members:
            member.engine.advance(float(second))
            beside = {"/version": f'{{"version": "{member.engine.version}"}}'.encode()}
            scrape = Scrape(member.scenario.name, END + second, body=member.page.render(), beside=beside)
            found += pipeline.step(PLAN, done.state, [scrape]).events
    return found


def test_the_day_is_known_and_the_live_rollout_is_judged_against_it() -> None:
    """The past collapse is closed and caused by the version; the live one opens within half a minute."""
    fleet, done = lived()
    collapses = [each for each in done.events if each.kind == "collapse"]
    assert [each.status for each in collapses] == ["closed"]
    assert abs(collapses[0].change_point_at - (END - 7 * story.HOUR_SECONDS)) < past.STEP_SECONDS * 2
    assert collapses[0].causes[0].cause == "engine"
    found = seen_live(fleet, done, story.ROLLOUT_SECONDS + 30)
    assert {(each.kind, each.status) for each in found} == {("collapse", "open")}
    assert abs(found[0].change_point_at - (END + story.ROLLOUT_SECONDS)) < 3
    assert found[0].before.mal > 3.0


def test_a_slow_fall_and_other_traffic_are_told_as_such() -> None:
    """The fall of the day is a decay of hours, not a drop; other prompts are the cause of the live one."""
    fleet = simulated_fleet.SimulatedFleet(1, clock=lambda: END, scenarios=[MISTRAL, CODER])
    done = past.live_through(PLAN, fleet.members, 1, END, lambda _: None)
    (decay,) = done.events
    assert (decay.kind, decay.status, decay.model_name) == ("decay", "open", MISTRAL.model_name)
    assert END - decay.change_point_at > 4 * story.HOUR_SECONDS
    (shift,) = (each for each in seen_live(fleet, done, 60) if each.model_name == CODER.model_name)
    assert (shift.kind, shift.causes[0].cause) == ("drop", "traffic")
    assert "mean prompt length went from 3" in shift.causes[0].evidence


def test_the_live_page_goes_on_where_the_day_ended() -> None:
    """The first live look counts what was drafted since the last of the past, and sees no restart."""
    fleet, done = lived(seed=2)
    read = past.reading_of(fleet.members[0].page, fleet.members[0].engine.version)
    last = fleet.members[0].page.counts()
    drafts = sum(each.drafts for each in done.buckets[-60:])
    assert done.buckets[-1].at + done.buckets[-1].seconds == END
    assert sum(read.accepted) == read.counters[Counter.ACCEPTED_TOKENS]
    assert last[0] == read.counters[Counter.DRAFTS] > drafts > 1e6
    fleet.members[0].engine.advance(10.0)
    scrape = Scrape(QWEN.name, END + 10, body=fleet.members[0].page.render())
    (seen,) = pipeline.step(PLAN, done.state, [scrape]).observations
    assert not seen.counts.restarted.any()
    assert seen.counts.values[0, Counter.DRAFTS] == fleet.members[0].page.counts()[0] - last[0] > 0


def test_the_day_is_kept_once_and_depends_on_the_seed_alone() -> None:
    """Two runs of a seed leave the same events; the store has them, the state and the history."""
    short = replace(QWEN, day=story.day(QWEN.phases[0]))
    records = []
    for _ in range(2):
        fleet = simulated_fleet.SimulatedFleet(3, clock=lambda: END, scenarios=[short])
        done = past.live_through(PLAN, fleet.members, 3, END, lambda _: None, seconds=3600.0)
        records.append(done.buckets)
    assert records[0] == records[1]
    kept = Store("")
    past.save(kept, done)
    assert kept.load()
    stream = done.state.identities[0].id
    assert len(kept.history(stream, END - 3600, END)) == len(done.buckets)
