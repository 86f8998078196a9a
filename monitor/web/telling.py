"""Reads a change that somebody tells of, with one sentence of what is wrong where it cannot be taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from monitor.core.vocabulary import CHANGE_KINDS
from monitor.web.asking import LATEST_TIME, Refused

if TYPE_CHECKING:
    from monitor.web.fields import Record

DEFAULT_SECONDS = 900.0  # a rollout is everywhere after a quarter of an hour
MOST_SECONDS = 86_400.0
FUTURE_SECONDS = 3600.0  # clocks differ; a change of tomorrow is a mistake
LONGEST = {"id": 200, "text": 500, "model_name": 500, "target": 500}
REQUIRED = ("id", "kind", "text")
FIELDS = (*REQUIRED, "at", "seconds", "model_name", "target")


def read(body: bytes, now: float) -> Record:
    """Return the change in a body, complete; raises Refused. `now` (unix seconds) is when it was told."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is no JSON; expected an object with id, kind and text") from None
    if not isinstance(found, dict):
        raise Refused(400, "the body is no object; expected one with id, kind and text")
    for name in found:
        if name not in FIELDS:
            raise Refused(400, f"field {name[:80]!r} is not known; expected of {', '.join(FIELDS)}")
    for name in REQUIRED:
        if not found.get(name):
            raise Refused(400, f"field {name!r} is missing; expected id, kind and text")
    texts = {name: _text(found, name, longest) for name, longest in LONGEST.items()}
    kind = found["kind"]
    if kind not in CHANGE_KINDS:
        raise Refused(400, f"field 'kind' is {_shown(kind)}; expected one of {', '.join(CHANGE_KINDS)}")
    return {
        **texts,
        "kind": kind,
        "at": _number(found, "at", now, min(now + FUTURE_SECONDS, LATEST_TIME)),
        "seconds": _number(found, "seconds", DEFAULT_SECONDS, MOST_SECONDS),
        "told_at": now,
    }


def refuse_other(kept: Record, told: Record) -> None:
    """Raise Refused where the change that is kept under an id is another one than was told now."""
    # Told without a time, it is of the moment: told again, of another moment, it is still the same.
    compared = set(told) - {"told_at"} - ({"at"} if told["at"] == told["told_at"] else set())
    differing = sorted(name for name in compared if kept.get(name) != told[name])
    if differing:
        raise Refused(
            409,
            f"id {str(told['id'])!r} was told with another {differing[0]}: {_shown(kept.get(differing[0]))}",
        )


def _text(found: Record, name: str, longest: int) -> str:
    value = found.get(name, "")
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        message = f"field {name!r} is {_shown(value)}; expected one line of at most {longest} characters"
        raise Refused(400, message)
    return value


def _number(found: Record, name: str, default: float, most: float) -> float:
    value = found.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise Refused(400, f"field {name!r} is {_shown(value)}; expected a number from 0 to {most:.0f}")
    return float(value)


def _shown(value: object) -> str:
    return repr(value)[:80]
