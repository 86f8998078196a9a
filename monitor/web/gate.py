"""`/api/v1/verdict`: the word on some streams against others, for whoever rolls a release out.

A side is chosen by a selector: `name=value` or `name!=value`, joined by commas, all of which must hold. Names
are a stream's own (`model_name`, `target`, `engine_version`, …) and the labels of its target. Where nothing
is chosen yet the word is that it is not enough: pods of a new release come late. `expect` turns any other
word into the status 409, for programs that look at nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from monitor.web import answers
from monitor.web.asking import Refused

if TYPE_CHECKING:
    from monitor.web.answers import Answer
    from monitor.web.asking import Ask
    from monitor.web.view import StreamView, View

WORDS = ("better", "worse", "no_difference", "not_enough")
SIDES = ("baseline", "candidate")
PARAMETERS = (*SIDES, "since", "margin", "expect")
OWN = (
    "target", "model_name", "replica", "engine", "engine_version", "draft_model", "method",
    "num_speculative_tokens",
)  # fmt: skip
"""What a selector may say of a stream itself; every other name is a label's."""
MOST_STREAMS = 64
"""So many streams of a side are compared: more make the word no surer, and cost a second each thousand."""
DEFAULT_MARGIN, MOST_MARGIN = 0.1, 0.9
_REASONS = {
    "better": "the candidate is better than the baseline",
    "worse": "the candidate is worse than the baseline",
    "no_difference": "no difference shows, and a loss of the margin is excluded",
    "not_enough": "too little was seen to show a difference or to exclude a loss of the margin",
}
_TERM = re.compile(r"\s*([A-Za-z_][\w./-]*)\s*(!?=)\s*(.*?)\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a selector."""

    name: str
    value: str
    equal: bool


def verdict(ask: Ask, view: View) -> Answer:
    """Answer `/api/v1/verdict`."""
    ask.expect(*PARAMETERS)
    expected = _words(ask)
    margin = _margin(ask.query.get("margin"))
    terms = [terms_of(name, ask.query.get(name, "")) for name in SIDES]
    sides = [[each for each in view.streams() if _fits(each, side)] for side in terms]
    _refuse_mixed(sides)
    chosen = [sorted(stream.id for stream in side)[:MOST_STREAMS] for side in sides]
    found = view.verdict((chosen[0], chosen[1]), ask.time("since"), margin)
    named = dict(zip(SIDES, chosen, strict=True))
    missing = [f"no stream has {ask.query[name]} ({name})" for name, side in named.items() if not side]
    reason = "; ".join(missing) or _REASONS[str(found["verdict"])]
    record = {"at": view.now, **found, "reason": reason, **named}
    status = HTTPStatus.OK if found["verdict"] in expected else HTTPStatus.CONFLICT
    return answers.as_json(record, status)


def terms_of(name: str, text: str) -> tuple[Term, ...]:
    """Return the conditions of a selector, the parameter `name`; raises Refused."""
    expected = "expected name=value or name!=value, joined by commas, such as model_name=m,version=v2"
    found = [_TERM.fullmatch(part) for part in text.split(",")]
    if not text.strip() or None in found:
        raise Refused(400, f"parameter {name!r} is {text!r}; {expected}")
    return tuple(Term(each[1], each[3], each[2] == "=") for each in found if each is not None)


def _fits(stream: StreamView, terms: tuple[Term, ...]) -> bool:
    return all((_value(stream, term.name) == term.value) == term.equal for term in terms)


def _value(stream: StreamView, name: str) -> str:
    return str(getattr(stream, name)) if name in OWN else stream.labels.get(name, "")


def _refuse_mixed(sides: list[list[StreamView]]) -> None:
    """Raise Refused where a side has several models, or a stream is on both sides."""
    for name, side in zip(SIDES, sides, strict=True):
        models = sorted({stream.model_name for stream in side})
        if len(models) > 1:
            listed = ", ".join(models[:5])
            raise Refused(400, f"parameter {name!r} chooses the models {listed}; add model_name=… for one")
    both = {stream.id for stream in sides[0]} & {stream.id for stream in sides[1]}
    if both:
        raise Refused(400, f"baseline and candidate both choose the stream {min(both)!r}; expected two sides")


def _words(ask: Ask) -> tuple[str, ...]:
    given = ask.query.get("expect")
    if given is None:
        return WORDS
    found = tuple(word.strip() for word in given.split(","))
    if not set(found) <= set(WORDS):
        raise Refused(
            400, f"parameter 'expect' is {given!r}; expected words of {', '.join(WORDS)}, by commas"
        )
    return found


def _margin(given: str | None) -> float:
    if given is None:
        return DEFAULT_MARGIN
    try:
        margin = float(given)
    except ValueError:
        margin = -1.0
    if not 0.0 < margin <= MOST_MARGIN:
        raise Refused(
            400, f"parameter 'margin' is {given!r}; expected a share above 0, at most {MOST_MARGIN}"
        )
    return margin
