"""What healthy streams taught outlives them, is the same after any file, and is what a new stream begins with."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline, streams
from monitor.core.detectors import base, inheritance
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint, heirs, model_references, presence, reference_files
from monitor.core.streams.model_references import Key, References
from monitor.core.vocabulary import STATES
from tests import made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.core.events import Event
    from monitor.core.streams.model_references import Reference

START = 1_700_000_000.0
INTERVAL = 15.0
CONDITIONAL = (0.80, 0.75, 0.70)
FALLEN = (0.70, 0.64, 0.58)
PLAN = pipeline.Plan()


def life(
    target: str, at: float, ticks: int, rates: tuple[float, ...] = CONDITIONAL, seed: int = 1
) -> Iterator[Scrape]:
    """Scrapes of a pod that begins at `at`, its level wandering by 0.05 logits from page to page."""
    rng = np.random.default_rng(seed)
    drafts, accepted = 0.0, np.zeros(len(rates))
    for tick in range(ticks):
        odds = np.array(rates) / (1.0 - np.array(rates)) * np.exp(rng.normal(0.0, 0.05))
        kept = 5000
        drafts += kept
        for position, rate in enumerate(odds / (1.0 + odds)):
            kept = int(rng.binomial(kept, rate))
            accepted[position] += kept
        yield Scrape(target, at + INTERVAL * tick, readings=(made.reading(accepted.tolist(), drafts=drafts),))


def seen(state: streams.State, scrapes: Iterator[Scrape]) -> list[Event]:
    """The events of scrapes, one after another."""
    return [event for scrape in scrapes for event in pipeline.step(PLAN, state, [scrape]).events]


@cache
def saved() -> dict[str, bytes]:
    """The saved state after one pod has served for three hours and left."""
    state = pipeline.begin(PLAN)
    assert seen(state, life("old", START, 720)) == []
    return checkpoint.freeze(state)


def taught() -> streams.State:
    """A state in which one pod has served for three hours and left."""
    return checkpoint.thaw(PLAN, saved())


def only(state: streams.State) -> Reference:
    """The one reference of a state, lessons taken in."""
    state.references.learn(math.inf)
    (found,) = state.references.known.values()
    return found


def test_a_reference_holds_what_the_kind_did() -> None:
    """Levels per position, their noise and how experienced it is are those of the stream that taught it."""
    found = only(taught())
    assert found.key.model_name == made.MODEL_NAME
    assert found.mal == pytest.approx(1 + 0.8 + 0.8 * 0.75 + 0.8 * 0.75 * 0.7, abs=0.03)
    assert found.conditional == pytest.approx(CONDITIONAL, abs=0.01)
    assert 0.03 < found.apart() < 0.1
    assert found.taught >= 10
    assert found.donor == found.standings[0].stream


def test_written_and_read_it_is_the_same_to_the_byte() -> None:
    """JSON of a reference gives the same reference, and the same JSON again."""
    told = json.dumps(reference_files.as_json(only(taught())))
    again = reference_files.from_json(json.loads(told))
    assert json.dumps(reference_files.as_json(again)) == told


def test_what_people_read_is_where_streams_stood() -> None:
    """A reference as people read it has the level of each stream's last hour, near the long-run one."""
    reference = only(taught())
    found = reference_files.described(reference)
    assert [each.mal for each in reference.standings] == [pytest.approx(reference.mal, rel=0.1)]
    assert found["standings"] == [
        {"stream": each.stream, "at": each.at, "mal": each.mal} for each in reference.standings
    ]
    assert "learnt" not in found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", 99),
        ("learnt", []),
        ("learnt", {"sums": []}),
        ("at", math.nan),
        ("standings", [{"stream": "a"}]),
    ],
)
def test_what_is_no_reference_is_refused(name: str, value: object) -> None:
    """Another version, missing parts and numbers that are none are refused with one kind of error."""
    told = json.loads(json.dumps(reference_files.as_json(only(taught())))) | {name: value}
    with pytest.raises(ValueError, match="model reference"):
        reference_files.from_json(told)


def test_it_outlives_the_streams_and_a_restart() -> None:
    """When the last stream is forgotten and the process restarted, the reference is still there."""
    state = taught()
    limits = PLAN.limits
    presence.attend(state, limits, (), START + 20_000)
    presence.attend(state, limits, (), START + 20_000 + limits.leave_seconds)
    presence.forget(state, limits, START + 20_000 + limits.forget_seconds)
    assert state.identities == []
    restored = checkpoint.thaw(PLAN, checkpoint.freeze(state))
    assert reference_files.as_json(only(restored)) == reference_files.as_json(only(state))


@pytest.mark.parametrize(("hours", "minutes"), [(3.05, 5.0), (7.0, 30.0), (30.0, 30.0)])
def test_a_fall_that_comes_with_a_new_pod_is_an_event(hours: float, minutes: float) -> None:
    """A new pod that accepts a third less is told of, sooner where others stood there a moment ago."""
    state = taught()
    events = seen(state, life("new", START + 3600 * hours, 120, FALLEN, seed=2))
    assert len({event.id for event in events}) == 1, events
    assert events[0].kind in {"drop", "collapse"}
    assert events[0].before.mal == pytest.approx(2.8, abs=0.15)
    assert events[0].raised_at - (START + 3600 * hours) <= 60.0 * minutes


def test_a_new_pod_that_is_as_good_raises_nothing_and_is_ok_at_once() -> None:
    """A new pod of a known kind is `ok` from its first minute, and nothing is said of it."""
    state = taught()
    assert seen(state, life("new", START + 11_000, 240, seed=2)) == []
    row = len(state.identities) - 1
    assert state.watch["heir"]["from"][row] == inheritance.SAME
    assert STATES[state.status["condition"][row]] == "ok"


def test_how_scrapes_are_batched_changes_no_beginning() -> None:
    """Teacher and heir in one batch or each alone: the rows are the same to the byte."""
    old = list(life("old", START, 800))
    new = list(life("new", old[-100].at + 7.0, 99, seed=2))
    by_time = sorted([*old, *new], key=lambda scrape: scrape.at)
    alone, together = pipeline.begin(PLAN), pipeline.begin(PLAN)
    for scrape in by_time:
        pipeline.step(PLAN, alone, [scrape])
    for first in range(0, len(by_time), 2):
        pipeline.step(PLAN, together, by_time[first : first + 2])
    assert alone.watch.tobytes() == together.watch.tobytes()


def test_another_way_of_serving_begins_with_the_one_before() -> None:
    """A key that is new is held against the model's last one, in the same environment."""
    references = References()
    found = only(taught())
    references.teach(found)
    other = replace(found.key, draft_model="another")
    assert references.find(other) is None
    assert references.before(other) == found
    assert references.before(replace(other, environment="elsewhere")) is None


def test_references_are_bounded() -> None:
    """Of a model the sixteen that were taught last are kept."""
    references, found = References(), only(taught())
    for number in range(40):
        references.teach(replace(found, key=Key("m", engine_version=str(number)), at=float(number)))
    assert [key.engine_version for key in references.known] == [str(n) for n in range(24, 40)]


def test_streams_that_lie_apart_make_a_wide_reference() -> None:
    """Replicas 0.5 logits apart are found to be, so that a new one there is no news."""
    found = only(taught())
    sums = np.array(found.standings[0].sums)
    references = References()
    for number in range(12):
        shifted = sums.copy()
        rates = sums[base.SUCCESSES][:3] / sums[base.TRIALS][:3]
        odds = rates / (1 - rates) * math.exp(0.5 if number % 2 else -0.5)
        shifted[base.SUCCESSES][:3] = sums[base.TRIALS][:3] * odds / (1 + odds)
        references.teach(model_references.lesson(found.key, f"s{number}", found.learnt, shifted, 1e4))
    (wide,) = references.known.values()
    assert wide.apart() > 0.12
    assert wide.apart() > heirs.OTHER_KIND_SD
