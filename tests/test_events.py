"""An alarm becomes one record that a person reads once, and a program in the agreed form."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from monitor.core import events
from monitor.core.detectors import Alarm, Level
from monitor.core.events import Cost, event_records
from monitor.core.events.attribution import Attribution, Cause
from monitor.core.pages.scrapes import StreamKey

if TYPE_CHECKING:
    from monitor.core.detectors import Action

KEY = StreamKey("host:8000", "org/model", "0")
CONTRACT = {
    "type", "id", "stream", "target", "model_name", "replica", "scope", "kind", "severity", "status",
    "change_point_at", "raised_at", "closed_at", "before", "after", "cost", "positions", "causes",
}  # fmt: skip
WHY = Attribution(
    ("x went from 1 to 2",), (Cause("draft", 0.8, "x went from 1 to 2"), Cause("unknown", 0.2, "…"))
)
COST = Cost(
    tokens_per_step_ratio=0.5,
    tpot_ratio=1.9,
    benefit_lost_ratio=0.9,
    tokens_per_second_lost=450.0,
    gpu_hours_per_day=11.4,
    gpu_hours=2.5,
    busy_ratio=1.0,
    tpot_log_shares=(("total", 0.641854), ("acceptance", 0.693147), ("rest", -0.051293)),
)
COST_RECORD = {
    "tokens_per_step_ratio": 0.5,
    "tpot_ratio": 1.9,
    "benefit_lost_ratio": 0.9,
    "tokens_per_second_lost": 450.0,
    "gpu_seconds_per_million_tokens": None,
    "gpu_hours_per_day": 11.4,
    "money_per_day": None,
    "tokens_lost": None,
    "gpu_hours": 2.5,
    "money": None,
    "busy_ratio": 1.0,
    "tpot_log_shares": {"total": 0.641854, "acceptance": 0.693147, "rest": -0.051293},
}


def alarm(action: Action = "open") -> Alarm:
    """Return an alarm of a collapse from 3.3 to 1.2."""
    return Alarm(
        index=0,
        kind="collapse",
        severity="critical",
        action=action,
        change_point_at=100.0,
        change_point_low=95.0,
        change_point_high=105.0,
        raised_at=160.0,
        positions=(0, 1),
        before=Level(3.3, 3.2, 3.4, (0.8, 0.8, math.nan), 5000.0),
        after=Level(1.2, 1.1, 1.3, (0.2, 0.1, math.nan), 400.0),
        score=1.7,
        detector="level",
    )


def opened() -> events.Event:
    """Return an open event."""
    return events.opened("host~m~0", KEY, alarm(), COST, WHY)


def test_an_event_opens_grows_and_closes_under_one_id() -> None:
    """The id, the change point and what stood before stay; severity, cost, causes and what came after follow the alarm."""
    first = opened()
    assert (first.status, first.closed_at) == ("open", None)
    worse = replace(
        alarm("update"), kind="dead_draft", after=Level(1.0, 1.0, 1.1, (), 900.0), raised_at=300.0
    )
    later = Attribution(("the engine restarted",), (Cause("restart", 1.0, "the engine restarted"),))
    second = events.updated(first, worse, Cost(0.3, 3.0, 1.0), later)
    assert (second.facts, second.causes) == (later.facts, later.causes)
    assert (second.id, second.raised_at, second.before) == (first.id, 160.0, first.before)
    assert (second.kind, second.after.mal, second.cost.tpot_ratio) == ("dead_draft", 1.0, 3.0)
    third = events.closed(second, 900.0)
    assert (third.id, third.status, third.closed_at, third.kind) == (first.id, "closed", 900.0, "dead_draft")


def test_a_note_is_closed_as_it_opens() -> None:
    """What only informs is opened and closed at once."""
    note = events.opened(
        "host~m~0", KEY, replace(alarm("note"), kind="regime_change", severity="info"), COST, WHY
    )
    assert (note.status, note.closed_at) == ("closed", 160.0)
    page = events.noted("host~m~0", KEY, "speculation_off", 50.0, WHY)
    assert (page.status, page.change_point_at, page.raised_at, page.closed_at) == ("closed", 50.0, 50.0, 50.0)
    assert math.isnan(page.before.mal)


def test_ids_are_of_the_stream_and_the_change() -> None:
    """The same change of the same stream has the same id in every replay; another stream, time or kind another one."""
    base = events.identity("a", 1.0, 2.0, "collapse")
    assert base == events.identity("a", 1.0, 2.0, "collapse")
    others = [
        ("b", 1.0, 2.0, "collapse"),
        ("a", 1.5, 2.0, "collapse"),
        ("a", 1.0, 2.5, "collapse"),
        ("a", 1.0, 2.0, "drop"),
    ]
    assert len({base, *(events.identity(*other) for other in others)}) == 5


def test_the_json_is_that_of_the_contract() -> None:
    """All agreed fields are there, unknown numbers are null, and the JSON is valid without NaN."""
    record = event_records.as_json(opened())
    assert set(record) >= CONTRACT
    assert (record["type"], record["scope"], record["status"], record["closed_at"]) == (
        "event",
        "replica",
        "open",
        None,
    )
    assert (record["target"], record["model_name"], record["replica"]) == ("host:8000", "org/model", "0")
    assert record["before"] == {
        "mal": 3.3,
        "mal_low": 3.2,
        "mal_high": 3.4,
        "conditional": [0.8, 0.8, None],
        "drafts": 5000.0,
    }
    assert record["cost"] == COST_RECORD
    assert record["causes"] == [
        {"cause": "draft", "weight": 0.8, "evidence": "x went from 1 to 2"},
        {"cause": "unknown", "weight": 0.2, "evidence": "…"},
    ]
    noted = event_records.as_json(events.noted("host~m~0", KEY, "speculation_off", 50.0, WHY))
    assert noted["cost"] == dict.fromkeys(COST_RECORD)
    for each in (record, noted):
        assert json.loads(json.dumps(each, allow_nan=False)) == each


def test_a_fleets_event_has_streams_and_no_stream() -> None:
    """An event of a fleet names its model and its streams; target, replica and stream are null."""
    fleet = replace(opened(), scope="fleet", stream=None, key=None, streams=("a", "b"))
    record = event_records.as_json(fleet)
    assert [record[name] for name in ("stream", "target", "replica")] == [None, None, None]
    assert (record["model_name"], record["streams"], record["scope"]) == ("org/model", ["a", "b"], "fleet")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(3.0, 2.0, 0.5), (3.0, 1.0, 1.0), (3.0, 3.5, -0.25), (1.0, 1.0, None), (math.nan, 1.0, None)],
)
def test_the_benefit_lost_is_of_what_speculation_adds(
    before: float, after: float, expected: float | None
) -> None:
    """(MAL before - MAL after) ÷ (MAL before - 1); unknown where there was no benefit to lose."""
    found = events.benefit_lost(before, after)
    assert events.number(found) == expected


def _level(mal: float, half: float) -> Level:
    return Level(mal, mal - half, mal + half, (), 1000.0)


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (_level(3.4, 0.1), _level(2.9, 0.1), "worse"),
        (_level(2.9, 0.1), _level(3.4, 0.1), "better"),
        (_level(3.4, 0.3), _level(3.3, 0.3), "no_difference"),
        (_level(3.4, 0.1), _level(3.26, 0.1), "no_difference"),
        (_level(3.4, 0.1), _level(3.25, 0.1), "worse"),
    ],
    ids=["clear loss", "clear gain", "noise", "just too little", "just enough"],
)
def test_a_release_is_judged_by_what_the_evidence_shows(before: Level, after: Level, outcome: str) -> None:
    """Better or worse is said where the difference is surer than 95 %; the confidence says how sure."""
    found = events.verdict(before, after)
    assert found is not None
    assert found.outcome == outcome
    assert (found.confidence >= 0.95) is (outcome != "no_difference")


def test_a_release_without_evidence_is_not_judged() -> None:
    """Where a level is unknown there is no verdict."""
    assert events.verdict(events.UNKNOWN_LEVEL, _level(3.0, 0.1)) is None
