"""An event's JSON holds all that people read of it: what is read back is the same event."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import pytest

from monitor.core import events
from monitor.core.detectors.base import Level
from monitor.core.economics.verdicts import ReleaseVerdict
from monitor.core.events import Cost, Event, Opening, event_records
from monitor.core.events.attribution import Cause
from monitor.core.pages.scrapes import StreamKey
from monitor.core.vocabulary import EVENT_KINDS, EventKind

BEFORE = Level(3.25, 3.125, 3.375, (0.75, 0.5, math.nan), 32_474.0)
AFTER = Level(1.0625, 1.0, 1.125, (0.0625, 0.0), 2_362.0)
COST = Cost(0.5, 2.0, 0.875, 120.5, 33.25, tpot_log_shares=(("total", 0.75), ("acceptance", 0.5)))
CAUSES = (
    Cause("draft", 0.8, "draft_model went from eagle-1 to eagle-2"),
    Cause("unknown", 0.2, "größer ≥ 1"),
)
ALONE = Event(
    id="a1b2c3",
    stream="host~m~0",
    key=StreamKey("host", "m", "0"),
    kind="collapse",
    severity="critical",
    status="closed",
    change_point_at=1_700_000_000.25,
    change_point_low=1_699_999_985.0,
    change_point_high=1_700_000_015.0,
    raised_at=1_700_000_030.5,
    closed_at=1_700_000_750.0,
    before=BEFORE,
    after=AFTER,
    cost=COST,
    positions=(0, 1),
    causes=CAUSES,
    facts=("the engine restarted", "k went from 3 to 2"),
    detector="plunge",
    model_name="m",
    present_at=1_700_000_700.0,
    at_opening=Opening(replace(AFTER, mal=1.5), replace(COST, tpot_ratio=1.5), CAUSES[:1]),
)
FLEET = replace(
    ALONE,
    stream=None,
    key=None,
    scope="fleet",
    streams=("a", "b"),
    status="open",
    closed_at=None,
    at_opening=None,
)
RELEASE = replace(ALONE, kind="regime_change", verdict=ReleaseVerdict("worse", 0.9876, -0.5, -0.75, -0.25, 3))


def read_back(event: Event) -> Event:
    """The event after a way through text."""
    return event_records.from_json(json.loads(json.dumps(event_records.as_json(event), allow_nan=False)))


@pytest.mark.parametrize("kind", EVENT_KINDS)
@pytest.mark.parametrize("event", [ALONE, FLEET], ids=["of a stream", "of a model"])
def test_every_kind_comes_back(event: Event, kind: EventKind) -> None:
    """What is written of an event of any kind, open or closed, is read with each of its fields."""
    told = replace(event, kind=kind)
    found = read_back(told)
    assert event_records.as_json(found) == event_records.as_json(told)
    same = {each.name for each in fields(Event)} - {"before", "verdict"}
    assert {name: getattr(found, name) for name in same} == {name: getattr(told, name) for name in same}
    assert found.before.conditional[:2] == (0.75, 0.5)
    assert math.isnan(found.before.conditional[2])


def test_a_verdict_comes_back() -> None:
    """A release's verdict is read as it was told; one of two levels is the same that is made of them."""
    assert read_back(RELEASE).verdict == RELEASE.verdict
    told = replace(ALONE, kind="regime_change")
    found = read_back(told).verdict
    made = events.word(told)
    assert found is not None
    assert made is not None
    assert found.outcome == made.outcome
    assert found.confidence == pytest.approx(made.confidence, abs=1e-4)


def test_what_was_not_written_is_unknown() -> None:
    """A record of a version that knew fewer fields is an event with unknown ones."""
    few = ("id", "kind", "severity", "status", "scope", "raised_at")
    written = event_records.as_json(ALONE)
    found = event_records.from_json({name: written[name] for name in few})
    assert (found.id, found.raised_at, found.closed_at) == (ALONE.id, ALONE.raised_at, None)
    assert math.isnan(found.change_point_at)
    assert math.isnan(found.before.mal)
    assert found.causes == ()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("kind", "colapse", "'colapse' where one of collapse, "),
        ("severity", None, "None where one of critical, "),
        ("raised_at", "now", "'now' where a number"),
        ("closed_at", True, "True where a number"),
        ("model_name", 7, "7 where a text"),
        ("facts", [7], "7 where a text"),
        ("causes", [{"cause": "moon"}], "'moon' where one of traffic, "),
        ("before", {"mal": "3"}, "'3' where a number"),
    ],
)
def test_what_is_no_event_is_refused(name: str, value: object, said: str) -> None:
    """A record with a wrong word or type is refused, and the message says what was read and expected."""
    with pytest.raises(ValueError, match=said):
        event_records.from_json(event_records.as_json(ALONE) | {name: value})


def test_a_list_is_no_event() -> None:
    """JSON that is no object is refused like any other that is no event."""
    with pytest.raises(ValueError, match="no event"):
        event_records.from_json(json.loads("[1]"))
