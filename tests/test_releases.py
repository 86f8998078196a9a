"""A release is compared with the one before it across pods: one event of the model, with the right word."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline
from monitor.core.events import event_records
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import presence, told
from monitor.core.streams.told import ToldChange
from tests import made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.events import Event

START = 1_700_000_040.0
INTERVAL = 30.0
REPLICAS = 4
OLD_TICKS, TURN_TICKS, NEW_TICKS = 50, 8, 36
SHIFT = -0.25
CONDITIONAL = np.array([0.80, 0.75, 0.70])
HALF_NEW = START + INTERVAL * (OLD_TICKS + TURN_TICKS * (REPLICAS // 2 - 1))
Ticks = tuple[tuple[Scrape, ...], ...]


@cache
def rolling(shift: float, *, named: bool = True, seed: int = 5) -> Ticks:
    """Ticks of a fleet whose pods leave one after the other; those that come in are `shift` logits apart.

    `named`: the pages name the draft, which is another one.
    """
    rng = np.random.default_rng(seed)
    level, ticks = 0.0, []
    drafts, accepted = np.zeros(2 * REPLICAS), np.zeros((2 * REPLICAS, 3))
    for tick in range(OLD_TICKS + TURN_TICKS * REPLICAS + NEW_TICKS):
        level += rng.normal(0.0, 0.004)
        scrapes = []
        for replica in range(REPLICAS):
            new = tick >= OLD_TICKS + TURN_TICKS * replica
            pod = replica + REPLICAS * new
            odds = CONDITIONAL / (1 - CONDITIONAL) * np.exp(level + shift * new + rng.normal(0.0, 0.05))
            kept = 5000
            drafts[pod] += kept
            for position, rate in enumerate(odds / (1 + odds)):
                kept = int(rng.binomial(kept, rate))
                accepted[pod, position] += kept
            reading = made.reading(accepted[pod].tolist(), drafts=float(drafts[pod]))
            if named:
                reading = replace(reading, config=(("draft_model", f"draft-{'b' if new else 'a'}"),))
            scrapes.append(Scrape(f"pod-{pod}", START + INTERVAL * tick, readings=(reading,)))
        ticks.append(tuple(scrapes))
    return tuple(ticks)


@cache
def worse() -> list[Event]:
    """The events of a rolling release that is a quarter of a logit worse."""
    return made.events(rolling(SHIFT))


def of_releases(found: Sequence[Event]) -> list[Event]:
    """The events that compare releases."""
    return [event for event in found if event.detector == "release"]


@pytest.mark.parametrize(("shift", "word"), [(SHIFT, "worse"), (-SHIFT, "better")], ids=["worse", "better"])
def test_a_rolling_release_is_one_event_with_the_word(shift: float, word: str) -> None:
    """Old and new side by side: one event of the model, its word said within 15 min of half the fleet being new."""
    found = of_releases(worse() if shift == SHIFT else made.events(rolling(shift)))
    assert len({event.id for event in found}) == 1
    assert found[0].scope == "fleet"
    assert found[0].model_name == made.MODEL_NAME
    assert {event.verdict.outcome for event in found if event.verdict} == {word}
    assert found[0].raised_at <= HALF_NEW + 15 * 60
    assert found[0].causes[0].cause == "draft"
    assert "draft_model went from draft-a to draft-b" in found[0].causes[0].evidence
    assert found[0].kind == ("drop" if shift < 0 else "regime_change")


def test_a_release_that_is_worse_is_told_once_not_of_each_pod() -> None:
    """The pods of a release of which it is said that it fell have no falls of their own beside it."""
    found = worse()
    first = min(event.raised_at for event in of_releases(found))
    falls = [
        event
        for event in found
        if event.scope == "replica" and event.kind in {"drop", "collapse"} and event.raised_at > first
    ]
    assert falls == []


def test_an_equal_release_shows_no_difference() -> None:
    """A draft that is as good is said to be: no difference shown, nobody is called."""
    found = of_releases(made.events(rolling(0.0)))
    assert {event.verdict.outcome for event in found if event.verdict} == {"no_difference"}
    assert {event.severity for event in found} == {"info"}
    assert len({event.id for event in found}) == 1


def test_new_pods_of_the_same_release_say_nothing() -> None:
    """Pods that are replaced by their like are no release, and no event."""
    assert of_releases(made.events(rolling(0.0, named=False))) == []


def with_told(ticks: Ticks, *changes: ToldChange) -> list[Event]:
    """The events of releases where somebody told of changes before."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    for change in changes:
        told.tell(state, change)
    return of_releases([event for tick in ticks for event in pipeline.step(plan, state, tick).events])


ROLLOUT = ToldChange("job-17", START + INTERVAL * (OLD_TICKS - 2), "draft", "v2 rolled out", 900.0)


def test_a_told_release_is_compared() -> None:
    """Pods whose pages say nothing are the new release while a rollout is told of: one event with word and cause."""
    found = with_told(rolling(SHIFT, named=False), ROLLOUT)
    assert len({event.id for event in found}) == 1
    assert {event.verdict.outcome for event in found if event.verdict} == {"worse"}
    assert found[0].causes[0].cause == "draft"
    assert "told draft went from an earlier state to job-17: v2 rolled out" in found[0].causes[0].evidence


@pytest.mark.parametrize(
    "change",
    [
        replace(ROLLOUT, kind="traffic"),
        replace(ROLLOUT, model_name="another"),
        replace(ROLLOUT, at=ROLLOUT.at - 86_400.0),
        replace(ROLLOUT, at=ROLLOUT.at + 86_400.0),
    ],
    ids=["traffic", "another model", "long over", "yet to come"],
)
def test_what_is_told_of_something_else_is_no_release(change: ToldChange) -> None:
    """Other traffic, another model's change, and one of another day make no release of new pods."""
    assert with_told(rolling(0.0, named=False), change) == []


def test_what_pages_show_goes_before_what_is_told() -> None:
    """Where the pages tell the release themselves, a told change is named beside and makes no second event."""
    found = with_told(rolling(SHIFT), ROLLOUT)
    assert len({event.id for event in found}) == 1
    evidence = found[0].causes[0].evidence
    assert "draft_model went from draft-a to draft-b" in evidence
    assert "job-17" in evidence


def test_a_restart_of_the_monitor_changes_no_verdict() -> None:
    """Saved and restored in the middle of a roll-out, the same events follow to the byte."""
    ticks = rolling(SHIFT)
    whole = of_releases(worse())
    cut = of_releases(made.events(ticks, cut=OLD_TICKS + TURN_TICKS * REPLICAS + 5))
    assert [event_records.as_json(event) for event in cut] == [
        event_records.as_json(event) for event in whole
    ]


def test_scrapes_one_by_one_bring_the_same_words() -> None:
    """How scrapes are batched changes no event of a release."""
    ticks = rolling(SHIFT)
    assert of_releases(made.events(tuple((scrape,) for tick in ticks for scrape in tick))) == of_releases(
        worse()
    )


def test_the_event_of_a_release_whose_pods_all_left_is_closed() -> None:
    """Nobody can mend a release of which no pod is left: its open event is closed, and stays so."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    ticks = rolling(SHIFT)[: OLD_TICKS + TURN_TICKS * REPLICAS]
    for tick in ticks:
        pipeline.step(plan, state, tick)
    (event,) = state.groups.releases.told()
    at = ticks[-1][0].at
    assert presence.attend(state, plan.limits, (), at + 1.0) == []
    closed = presence.attend(state, plan.limits, (), at + 700.0)
    assert [each.status for each in closed if each.id == event.id] == ["closed"]
    assert state.groups.releases.told() == []
