"""Targets that leave: their events close, their baselines wait for them, and in the end they are forgotten."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline, streams
from monitor.core.counts import estimates, windows
from monitor.core.events import event_records
from monitor.core.events.attribution.signs import Mark
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint, history, presence
from monitor.core.streams.regimes import Declared
from monitor.core.vocabulary import STATES
from tests import made

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from monitor.core.events import Event
    from monitor.core.streams import State

START, INTERVAL = made.START, made.INTERVAL
PLAN = pipeline.Plan()
LIMITS = PLAN.limits
PAGES = 400
END = START + INTERVAL * PAGES
NAMES = ("broken", "fine", "other")


def pages(target: str, seed: int, acceptance: Iterable[float], first: int = 0) -> list[Scrape]:
    """Pages of a target with 3 draft tokens, one per element of `acceptance`."""
    rng = np.random.default_rng(seed)
    drafts, accepted, made_pages = 0, np.zeros(3), []
    for n, rate in enumerate(acceptance):
        kept = grown = int(rng.integers(300, 500))
        for j in range(3):
            kept = int(rng.binomial(kept, rate))
            accepted[j] += kept
        drafts += grown
        tokens = {"generation_tokens_total": drafts + float(accepted.sum())}
        body = made.page(
            accepted.tolist(), drafts=drafts, more=tokens, started_at=START + INTERVAL * first - 50
        )
        made_pages.append(Scrape(target, START + INTERVAL * (first + n), body=body))
    return made_pages


@cache
def frozen() -> dict[str, bytes]:
    """The state after a collapse of one of three targets, with its event open."""
    state = pipeline.begin(PLAN)
    collapsing = [0.8] * (PAGES - 60) + [0.1] * 60
    for scrape in merged(
        pages("broken", 1, collapsing), pages("fine", 2, [0.8] * PAGES), pages("other", 3, [0.6] * PAGES)
    ):
        pipeline.step(PLAN, state, [scrape])
    return checkpoint.freeze(state)


def merged(*series: Sequence[Scrape]) -> list[Scrape]:
    """All pages in time order."""
    return sorted((scrape for one in series for scrape in one), key=lambda scrape: (scrape.at, scrape.target))


@pytest.fixture
def state() -> State:
    """That state, thawed."""
    return checkpoint.thaw(PLAN, frozen())


def attend(state: State, listed: Iterable[str], seconds: float) -> list[Event]:
    """Attend at a time after the last page."""
    return presence.attend(state, LIMITS, set(listed), END + seconds)


def held(state: State) -> list[str]:
    """The targets of the open events."""
    return [identity.key.target for identity in state.identities if identity.event is not None]


def test_while_all_are_listed_nothing_changes(state: State) -> None:
    """Targets that are listed keep their events, however long."""
    assert held(state) == ["broken"]
    assert attend(state, NAMES, 0) == []
    assert attend(state, NAMES, 10 * LIMITS.forget_seconds) == []
    presence.forget(state, LIMITS, END + 10 * LIMITS.forget_seconds)
    assert len(state.identities) == len(NAMES)


def test_an_event_closes_when_its_target_has_left(state: State) -> None:
    """The event of a target that is gone for ten minutes closes once, and says why."""
    assert attend(state, ("fine", "other"), 0) == []
    assert attend(state, ("fine", "other"), LIMITS.leave_seconds - 1) == []
    (closed,) = attend(state, ("fine", "other"), LIMITS.leave_seconds)
    assert (closed.status, closed.closed_at) == ("closed", END + LIMITS.leave_seconds)
    assert closed.facts[-1] == "the target has not been listed for 600 s: closed without recovery"
    assert attend(state, ("fine", "other"), LIMITS.leave_seconds + 60) == []


def test_a_short_absence_is_none(state: State) -> None:
    """A target that is back before it has left begins its absence anew the next time."""
    attend(state, ("fine", "other"), 0)
    assert attend(state, NAMES, LIMITS.leave_seconds - 1) == []
    assert attend(state, ("fine", "other"), LIMITS.leave_seconds) == []
    assert attend(state, ("fine", "other"), LIMITS.leave_seconds + 10) == []


def test_an_event_is_open_again_when_its_target_is_back(state: State) -> None:
    """A target that comes back after its event was closed has the same event open again, and can recover."""
    attend(state, ("fine", "other"), 0)
    (closed,) = attend(state, ("fine", "other"), LIMITS.leave_seconds)
    (again,) = attend(state, NAMES, 2 * LIMITS.leave_seconds)
    assert (again.id, again.status, again.closed_at) == (closed.id, "open", None)
    found: list[Event] = []
    for scrape in pages("broken", 4, [0.8] * 60, first=PAGES + 100):
        found += pipeline.step(PLAN, state, [scrape]).events
    assert [(event.id, event.status) for event in found] == [(closed.id, "closed")]


def test_what_has_been_gone_for_long_is_forgotten(state: State) -> None:
    """After a day the target's rows are gone from every table, and the others' rows are as they were."""
    before = {identity.key: row_of(state, row) for row, identity in enumerate(state.identities)}
    attend(state, ("broken", "other"), 0)
    attend(state, ("broken", "other"), LIMITS.leave_seconds)
    presence.forget(state, LIMITS, END + LIMITS.forget_seconds - 1)
    assert len(state.identities) == len(NAMES)
    presence.forget(state, LIMITS, END + LIMITS.forget_seconds)
    assert sorted(state.targets) == ["broken", "other"]
    assert [identity.key.target for identity in state.identities] == ["broken", "other"]
    assert {identity.key: row_of(state, row) for row, identity in enumerate(state.identities)} == {
        key: value for key, value in before.items() if key.target != "fine"
    }
    assert state.rows == {identity.key: row for row, identity in enumerate(state.identities)}
    assert [sorted(state.targets[name].rows) for name in ("broken", "other")] == [[0], [1]]


def row_of(state: State, row: int) -> bytes:
    """All that the tables hold of a stream."""
    return b"".join(getattr(state, name)[row].tobytes() for name in streams.TABLES)


def test_the_others_go_on_as_if_nothing_were(state: State) -> None:
    """Forgetting a target changes no event and no count of the others, but for how many moved or stayed with them."""
    untouched = checkpoint.thaw(PLAN, frozen())
    leave(state, "fine")
    later = merged(pages("broken", 5, [0.8] * 80, PAGES), pages("other", 6, [0.6] * 40 + [0.1] * 40, PAGES))
    for one in (state, untouched):
        one.identities[0].marks.append(Mark(END, "restart", "x"))
    results = [[pipeline.step(PLAN, one, [scrape]) for scrape in later] for one in (state, untouched)]
    told = [[event for step in steps for event in step.events] for steps in results]
    alone = [[dataclasses.replace(event, causes=(), facts=()) for event in each] for each in told]
    written = [json.dumps([event_records.as_json(event) for event in each]) for each in alone]
    assert written[0] == written[1]
    assert len(json.loads(written[0])) >= 2
    totals = [estimates.from_sums(windows.total(one.sums)) for one in (state, untouched)]
    assert totals[0].drafts.tolist() == totals[1].drafts[[0, 2]].tolist()


def leave(state: State, *names: str) -> None:
    """Have targets leave and be forgotten."""
    listed = [name for name in NAMES if name not in names]
    attend(state, listed, 0)
    attend(state, listed, LIMITS.leave_seconds)
    presence.forget(state, LIMITS, END + LIMITS.forget_seconds)


def test_a_forgotten_target_begins_anew(state: State) -> None:
    """A target of the same name that comes later is a new stream at the end, without the old one's baseline."""
    leave(state, "broken")
    (scrape,) = pages("broken", 7, [0.8], first=PAGES + 10_000)
    pipeline.step(PLAN, state, [scrape])
    assert [identity.key.target for identity in state.identities] == ["fine", "other", "broken"]
    assert np.isnan(state.status["baseline_mal"][2])
    assert held(state) == []


def test_absence_survives_a_restart(state: State) -> None:
    """The time that a target has been gone, and that its event is closed, are saved."""
    attend(state, ("fine", "other"), 0)
    assert len(attend(state, ("fine", "other"), LIMITS.leave_seconds)) == 1
    again = checkpoint.thaw(PLAN, checkpoint.freeze(state))
    assert attend(again, ("fine", "other"), LIMITS.leave_seconds + 1) == []
    presence.forget(again, LIMITS, END + LIMITS.forget_seconds)
    assert sorted(again.targets) == ["fine", "other"]


def test_history_goes_on(state: State) -> None:
    """After rows are forgotten the history's buckets are still those of their own streams."""
    recorder = history.Recorder()
    recorder.take(state, STATES, END)
    attend(state, ("broken", "other"), 0)
    attend(state, ("broken", "other"), LIMITS.leave_seconds)
    presence.forget(state, LIMITS, END + LIMITS.forget_seconds)
    (scrape,) = made.looks([made.steady(1)], "new")
    pipeline.step(PLAN, state, [dataclasses.replace(scrape, at=END + 30)])
    buckets = recorder.take(state, STATES, END + 60)
    assert [bucket.stream for bucket in buckets] == [identity.id for identity in state.identities[:2]]
    assert [bucket.drafts for bucket in buckets] == [0.0, 0.0]


def test_churn_is_bounded() -> None:
    """Pods that come and go for weeks leave no more streams than a day's worth."""
    state = pipeline.begin(PLAN)
    sizes = []
    for number in range(100):
        at, name = START + 3600.0 * number, f"pod-{number}"
        pipeline.step(PLAN, state, [Scrape(name, at, body=made.steady(1))])
        presence.attend(state, LIMITS, {name}, at)
        presence.forget(state, LIMITS, at)
        sizes.append(len(state.identities))
    assert max(sizes) == sizes[-1] == 25
    assert len(state.targets) == 25


def test_a_new_image_is_a_fact_of_the_event() -> None:
    """What discovery says of a pod is compared with what it said before: a new image is in the event's facts."""
    state = pipeline.begin(PLAN)
    found: list[Event] = []
    for number, scrape in enumerate(pages("llm/vllm-0:8000", 8, [0.8] * 340 + [0.1] * 60)):
        image = "vllm:v1" if number < 340 else "vllm:v2"
        declared = Declared(facts=(("image", image), ("pod template", "7c9")))
        plan = dataclasses.replace(PLAN, declared={scrape.target: declared})
        found += pipeline.step(plan, state, [scrape]).events
    assert found[0].kind == "collapse"
    assert "image went from vllm:v1 to vllm:v2" in found[0].facts
    assert found[0].causes[0].cause == "restart"
    assert "image went from vllm:v1 to vllm:v2" in found[0].causes[0].evidence
