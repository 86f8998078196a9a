"""An event as JSON, for people and other programs, and back; unknown values are None there and NaN here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from monitor.core import events
from monitor.core.detectors.base import Level
from monitor.core.economics.verdicts import ReleaseVerdict, VerdictOutcome
from monitor.core.events import Cost, Event, Opening
from monitor.core.events.attribution import Cause
from monitor.core.pages.scrapes import StreamKey
from monitor.core.vocabulary import CAUSES, EVENT_KINDS, SEVERITIES

if TYPE_CHECKING:
    from typing import TypeVar

    Word = TypeVar("Word", bound=str)

Record = Mapping[str, object]
Scope = Literal["replica", "fleet"]
Status = Literal["open", "closed"]


def as_json(event: Event) -> dict[str, object]:
    """Return the event as the API and `replay --json` show it; unknown values are None."""
    key = event.key
    return {
        "type": "event",
        "id": event.id,
        "stream": event.stream,
        "target": key.target if key else None,
        "model_name": event.model_name,
        "replica": key.replica if key else None,
        "scope": event.scope,
        "streams": list(event.streams),
        "kind": event.kind,
        "severity": event.severity,
        "status": event.status,
        "change_point_at": events.number(event.change_point_at),
        "change_point_low": events.number(event.change_point_low),
        "change_point_high": events.number(event.change_point_high),
        "raised_at": events.number(event.raised_at),
        "closed_at": None if event.closed_at is None else events.number(event.closed_at),
        "before": level_as_json(event.before),
        "after": level_as_json(event.after),
        "cost": cost_as_json(event.cost),
        "verdict": _verdict_as_json(events.word(event)),
        "positions": list(event.positions),
        "causes": _causes_as_json(event.causes),
        "present_at": events.number(event.present_at),
        "at_opening": _opening_as_json(event.at_opening),
        "facts": list(event.facts),
        "detector": event.detector,
    }


def level_as_json(level: Level) -> dict[str, object]:
    """Return one side of an event as its JSON has it."""
    return {
        "mal": events.number(level.mal),
        "mal_low": events.number(level.mal_low),
        "mal_high": events.number(level.mal_high),
        "conditional": [events.number(value) for value in level.conditional],
        "drafts": events.number(level.drafts),
    }


def cost_as_json(cost: Cost) -> dict[str, object]:
    """Return what an event costs as its JSON has it; `tpot_log_shares` by name, None where unknown."""
    record: dict[str, object] = {
        name: events.number(getattr(cost, name)) for name in Cost.__slots__ if name != "tpot_log_shares"
    }
    known = [(name, events.number(share)) for name, share in cost.tpot_log_shares if math.isfinite(share)]
    return record | {"tpot_log_shares": dict(known) if known else None}


def _causes_as_json(causes: tuple[Cause, ...]) -> list[dict[str, object]]:
    return [{"cause": each.cause, "weight": each.weight, "evidence": each.evidence} for each in causes]


def _opening_as_json(opening: Opening | None) -> dict[str, object] | None:
    if opening is None:
        return None
    return {
        "after": level_as_json(opening.after),
        "cost": cost_as_json(opening.cost),
        "causes": _causes_as_json(opening.causes),
    }


def _verdict_as_json(found: ReleaseVerdict | None) -> dict[str, object] | None:
    if found is None:
        return None
    return {
        "outcome": found.outcome,
        "confidence": round(found.confidence, 4),
        "difference": events.number(found.difference),
        "low": events.number(found.low),
        "high": events.number(found.high),
        "positions": found.positions or None,
    }


def from_json(record: object) -> Event:
    """Return the event that `as_json` wrote, to the digits that it writes.

    `updates` and `past` serve the pipeline alone and are not written: they are 0 and unknown. So is what a
    version before did not write. Raises ValueError where the record is no event.
    """
    if not isinstance(record, Mapping):
        msg = f"{record!r} is no event"
        raise ValueError(msg)  # noqa: TRY004 - a wrong record, not a wrong call
    model_name, closed_at = _text(record.get("model_name")), record.get("closed_at")
    stream, target = record.get("stream"), record.get("target")
    return Event(
        id=_text(record.get("id")),
        stream=None if stream is None else _text(stream),
        key=None if target is None else StreamKey(_text(target), model_name, _text(record.get("replica"))),
        kind=_word(record.get("kind"), EVENT_KINDS),
        severity=_word(record.get("severity"), SEVERITIES),
        status=_word(record.get("status"), STATUSES),
        change_point_at=_number(record.get("change_point_at")),
        change_point_low=_number(record.get("change_point_low")),
        change_point_high=_number(record.get("change_point_high")),
        raised_at=_number(record.get("raised_at")),
        closed_at=None if closed_at is None else _number(closed_at),
        before=_level(record.get("before")),
        after=_level(record.get("after")),
        cost=_cost(record.get("cost")),
        positions=tuple(int(_number(each)) for each in _list(record.get("positions"))),
        causes=_causes(record.get("causes")),
        facts=_texts(record.get("facts")),
        detector=_text(record.get("detector")),
        scope=_word(record.get("scope"), SCOPES),
        model_name=model_name,
        streams=_texts(record.get("streams")),
        present_at=_number(record.get("present_at")),
        at_opening=_opening(record.get("at_opening")),
        verdict=_verdict(record.get("verdict")),
    )


SCOPES: tuple[Scope, ...] = get_args(Scope)
STATUSES: tuple[Status, ...] = get_args(Status)
OUTCOMES: tuple[VerdictOutcome, ...] = get_args(VerdictOutcome)


def _level(value: object) -> Level:
    record = _record(value)
    return Level(
        _number(record.get("mal")),
        _number(record.get("mal_low")),
        _number(record.get("mal_high")),
        tuple(_number(each) for each in _list(record.get("conditional"))),
        _number(record.get("drafts")),
    )


def _cost(value: object) -> Cost:
    record = _record(value)
    numbers = {name: _number(record.get(name)) for name in Cost.__slots__ if name != "tpot_log_shares"}
    shares = _record(record.get("tpot_log_shares"))
    told = tuple((name, _number(shares[name])) for name in shares)
    return Cost(**numbers, tpot_log_shares=told)


def _causes(value: object) -> tuple[Cause, ...]:
    return tuple(
        Cause(_word(each.get("cause"), CAUSES), _number(each.get("weight")), _text(each.get("evidence")))
        for each in map(_record, _list(value))
    )


def _opening(value: object) -> Opening | None:
    if value is None:
        return None
    record = _record(value)
    return Opening(_level(record.get("after")), _cost(record.get("cost")), _causes(record.get("causes")))


def _verdict(value: object) -> ReleaseVerdict | None:
    if value is None:
        return None
    record, positions = _record(value), _record(value).get("positions")
    return ReleaseVerdict(
        _word(record.get("outcome"), OUTCOMES),
        _number(record.get("confidence")),
        _number(record.get("difference")),
        _number(record.get("low")),
        _number(record.get("high")),
        0 if positions is None else int(_number(positions)),
    )


def _number(value: object) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"an event's record has {value!r} where a number is expected"
        raise ValueError(msg)  # noqa: TRY004 - a wrong record, not a wrong call
    return float(value)


def _text(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        msg = f"an event's record has {value!r} where a text is expected"
        raise ValueError(msg)  # noqa: TRY004 - a wrong record, not a wrong call
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(_text(each) for each in _list(value))


def _word(value: object, known: tuple[Word, ...]) -> Word:
    found = next((each for each in known if each == value), None)
    if found is None:
        msg = f"an event's record has {value!r} where one of {', '.join(known)} is expected"
        raise ValueError(msg)
    return found


def _record(value: object) -> Record:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
