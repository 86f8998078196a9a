"""Reads what somebody supposes from a request, filled from a stream where one is named; says it as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core.economics import advice, suppositions
from monitor.core.economics.advice import StepModel
from monitor.core.economics.suppositions import CacheMemory, Supposition
from monitor.web import asking, fields
from monitor.web.asking import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.economics.suppositions import Full, Prospect
    from monitor.web.asking import Ask
    from monitor.web.fields import Record
    from monitor.web.view import StreamView, View

_MILLI = 1e-3
_DEEPEST_LIST = 64
_SHOWN_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number that can be supposed: its words, unit, bounds, and what stands there where nobody says it."""

    words: str
    unit: str
    least: float
    most: float
    example: str


QUANTITIES: dict[str, Quantity] = {
    "num_speculative_tokens": Quantity("Draft tokens a step, k", "tokens", 0, advice.DEEPEST, "4"),
    "batch_size": Quantity("Batch size", "requests", 1, 4096, "8"),
    "plain_step_ms": Quantity("Plain step, batch of one", "ms", 1e-3, 1e5, "14.49"),
    "per_request_ms": Quantity("… each further request adds", "ms", 0, 1e4, "0.05"),
    "draft_step_ms": Quantity("Draft step, a token", "ms", 0, 1e4, "0.7"),
    "verify_ms": Quantity("Verifying a token, a request", "ms", 0, 1e3, "0.05"),
    "weights_ratio": Quantity("Step with quantised weights ÷ now", "ratio", 0.05, 2, "1"),
    "cache_gib": Quantity("KV cache without the draft", "GiB", 0, 1e5, ""),
    "request_gib": Quantity("… one request takes", "GiB", 1e-6, 1e4, ""),
    "draft_gib": Quantity("Draft: weights and cache", "GiB", 0, 1e5, ""),
}
ACCEPTANCE = "conditional"
_EXAMPLE_ACCEPTANCE = "0.8"
PARAMETERS = ("stream", ACCEPTANCE, *QUANTITIES)
_MEMORY = ("cache_gib", "request_gib", "draft_gib")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is supposed, as texts for the form and as numbers; what follows; whose numbers they are."""

    texts: Mapping[str, str]
    supposed: Supposition
    prospect: Prospect
    stream: StreamView | None
    notes: tuple[str, ...]


def asked(ask: Ask, view: View) -> Asked:
    """Return the supposition of a request: what it says, else the stream's numbers, else an example."""
    named = ask.query.get("stream", "").strip()
    stream = asking.known_stream(view, named) if named else None
    own, notes = ({}, []) if stream is None else _of_stream(stream, view.advice(stream.id))
    given = {name: value.strip() for name, value in ask.query.items() if value.strip()}
    examples = {name: each.example for name, each in QUANTITIES.items()} | {ACCEPTANCE: _EXAMPLE_ACCEPTANCE}
    texts = {name: given.get(name) or own.get(name) or examples[name] for name in examples}
    supposed = _supposition(texts)
    return Asked(texts, supposed, suppositions.outcome(supposed), stream, tuple(notes))


def _of_stream(stream: StreamView, advised: Record) -> tuple[dict[str, str], list[str]]:
    """Return the numbers that a stream has, and a sentence for what it has not."""
    notes = []
    told = fields.numbers(stream.estimate, "conditional")
    conditional = advice.measured(math.nan if value is None else value for value in told)
    if not conditional and (alpha := fields.number(stream.estimate, "alpha")) is not None:
        conditional = [alpha]
        notes.append("The page has no acceptance per position: one rate for all, fitted to its totals.")
    if not conditional:
        notes.append("No drafts of this stream were counted: its acceptance is an example.")
    step = fields.record(advised, "step_model")
    plain, each = fields.number(step, "base_seconds"), fields.number(step, "per_request_seconds")
    if plain is None or each is None:
        notes.append("What this stream's steps cost is not known: the times are an example.")
    numbers = {
        "num_speculative_tokens": float(stream.num_speculative_tokens) or None,
        "batch_size": _at_least_one(fields.number(stream.estimate, "batch_size")),
        "plain_step_ms": None if plain is None or each is None else (plain + each) / _MILLI,
        "per_request_ms": None if each is None else each / _MILLI,
        "draft_step_ms": _in_ms(fields.number(step, "draft_seconds")),
        "verify_ms": _in_ms(fields.number(step, "verify_seconds")),
    }
    texts = {name: _short(value) for name, value in numbers.items() if value is not None}
    if conditional:
        texts[ACCEPTANCE] = " ".join(_short(value) for value in conditional)
    return texts, notes


def _in_ms(value: float | None) -> float | None:
    return None if value is None else value / _MILLI


def _at_least_one(value: float | None) -> float | None:
    return None if value is None else max(value, 1.0)


def _short(value: float) -> str:
    return f"{value:.{_SHOWN_DIGITS}g}"


def _supposition(texts: Mapping[str, str]) -> Supposition:
    number = {name: _number(name, texts[name]) for name in QUANTITIES if texts[name]}
    tokens = number["num_speculative_tokens"]
    if not tokens.is_integer():
        raise Refused(400, f"num_speculative_tokens is {tokens:g}; expected a whole number")
    each = number["per_request_ms"]
    if number["plain_step_ms"] < each:
        raise Refused(
            400,
            f"plain_step_ms is {number['plain_step_ms']:g} and per_request_ms {each:g}; expected a plain "
            "step of one request to take at least what a further one adds",
        )
    return Supposition(
        _acceptances(texts[ACCEPTANCE]),
        int(tokens),
        number["batch_size"],
        StepModel(
            (number["plain_step_ms"] - each) * _MILLI,
            each * _MILLI,
            number["draft_step_ms"] * _MILLI,
            number["verify_ms"] * _MILLI,
        ),
        number["weights_ratio"],
        _memory(number),
    )


def _memory(number: Mapping[str, float]) -> CacheMemory | None:
    named = [name for name in _MEMORY if name in number]
    if not named:
        return None
    if len(named) < len(_MEMORY):
        raise Refused(400, f"of {', '.join(_MEMORY)} only {', '.join(named)} is given; expected all or none")
    return CacheMemory(number["cache_gib"], number["request_gib"], number["draft_gib"])


def _number(name: str, text: str) -> float:
    known = QUANTITIES[name]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not known.least <= value <= known.most:
        expected = f"a number from {known.least:g} to {known.most:g} ({known.unit})"
        raise Refused(400, f"parameter {name!r} is {text!r}; expected {expected}")
    return value


def _acceptances(text: str) -> tuple[float, ...]:
    parts = text.replace(",", " ").split()
    try:
        values = tuple(float(part) for part in parts)
    except ValueError:
        values = ()
    if not values or len(values) > _DEEPEST_LIST or not all(0.0 <= value <= 1.0 for value in values):
        raise Refused(
            400,
            f"parameter {ACCEPTANCE!r} is {text[:200]!r}; expected one acceptance from 0 to 1 for all "
            f"positions, or one for each, at most {_DEEPEST_LIST}",
        )
    return values


def as_record(asked_for: Asked) -> dict[str, object]:
    """Return the JSON of a supposition and what follows from it."""
    supposed, found = asked_for.supposed, asked_for.prospect
    return {
        "stream": asked_for.stream.id if asked_for.stream else None,
        "supposed": {
            "conditional": list(supposed.conditional),
            **{name: float(asked_for.texts[name]) if asked_for.texts[name] else None for name in QUANTITIES},
        },
        "notes": list(asked_for.notes),
        "mal": found.mal,
        "step_seconds": found.step_seconds,
        "plain_step_seconds": found.plain_step_seconds,
        "tpot_seconds": found.tpot_seconds,
        "tokens_per_second": found.tokens_per_second,
        "speedup": found.speedup,
        "speedup_of_both": found.speedup_of_both,
        "pays_below_batch_size": found.pays_below if math.isfinite(found.pays_below) else None,
        "always_pays": math.isinf(found.pays_below),
        "best": found.best,
        "options": found.options,
        "by_batch_size": [{"batch_size": size, "speedup": speedup} for size, speedup in found.by_batch],
        "full": found.full,
    }


def sentence(asked_for: Asked) -> str:
    """Return what follows in words."""
    found, tokens = asked_for.prospect, asked_for.supposed.num_speculative_tokens
    if not tokens:
        return f"Without draft tokens a token takes {_ms(found.plain_step_seconds)}."
    faster = (
        f"{found.speedup:.2f}× as fast" if found.speedup >= 1 else f"slower: {found.speedup:.2f}× the speed"
    )
    step = f"A step gives {found.mal:.2f} tokens and takes {_ms(found.step_seconds)}"
    token = f"{_ms(found.tpot_seconds)} a token instead of {_ms(found.plain_step_seconds)}, {faster}"
    further = (_limit(found), _both(asked_for.supposed, found), _filled(found.full))
    return " ".join((f"{step}: {token}.", *filter(None, further)))


def _limit(found: Prospect) -> str:
    if math.isinf(found.pays_below):
        return "By these numbers it pays at every batch size."
    if found.pays_below == 0.0:
        return "By these numbers it pays at no batch size."
    return f"From a batch of {found.pays_below:.0f} requests on it stops paying."


def _both(supposed: Supposition, found: Prospect) -> str:
    if supposed.weights_ratio == 1.0:
        return ""
    return f"Together with the quantised weights: {found.speedup_of_both:.2f}× as fast as plain steps of now."


def _filled(full: Full | None) -> str:
    if full is None:
        return ""
    return (
        f"Where the cache is full, {full.requests:,} requests fit instead of {full.plain_requests:,}: "
        f"{full.tokens_per_second:,.0f} tokens per second of all, not {full.plain_tokens_per_second:,.0f}."
    )


def _ms(seconds: float) -> str:
    return f"{seconds / _MILLI:.2f} ms"
