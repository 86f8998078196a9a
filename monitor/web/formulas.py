"""The definitions of the estimates with the counters' own numbers filled in, as a person would check them."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from monitor.web.fields import Record

_DEFINITIONS: tuple[tuple[str, str, Callable[[Mapping[str, float]], float]], ...] = (
    ("mal", "1 + {accepted_tokens} ÷ {drafts}", lambda c: 1 + c["accepted_tokens"] / c["drafts"]),
    (
        "draft_token_acceptance_ratio",
        "{accepted_tokens} ÷ {draft_tokens}",
        lambda c: c["accepted_tokens"] / c["draft_tokens"],
    ),
    (
        "coverage",
        "{drafts} ÷ {decode_outputs}, at most 1",
        lambda c: min(c["drafts"] / c["decode_outputs"], 1.0),
    ),
    (
        "tokens_per_step",
        "({generation_tokens} − {first_tokens}) ÷ {decode_outputs}",
        lambda c: (c["generation_tokens"] - c["first_tokens"]) / c["decode_outputs"],
    ),
    (
        "step_seconds",
        "{decode_seconds} s ÷ {decode_outputs}",
        lambda c: c["decode_seconds"] / c["decode_outputs"],
    ),
    (
        "step_seconds",
        "{engine_step_seconds} s ÷ {engine_steps}",
        lambda c: c["engine_step_seconds"] / c["engine_steps"],
    ),
    (
        "implied_tpot_seconds",
        "{decode_seconds} s ÷ ({generation_tokens} − {first_tokens})",
        lambda c: c["decode_seconds"] / (c["generation_tokens"] - c["first_tokens"]),
    ),
    (
        "implied_tpot_seconds",
        (
            "{engine_step_seconds} s ÷ {engine_steps} · {decode_outputs} "
            "÷ ({generation_tokens} − {first_tokens})"
        ),
        lambda c: (
            c["engine_step_seconds"]
            * c["decode_outputs"]
            / c["engine_steps"]
            / (c["generation_tokens"] - c["first_tokens"])
        ),
    ),
    (
        "observed_tpot_seconds",
        "{request_decode_seconds} s ÷ ({output_tokens} − {finished_requests})",
        lambda c: c["request_decode_seconds"] / (c["output_tokens"] - c["finished_requests"]),
    ),
    (
        "batch_size",
        "({decode_outputs} + {first_tokens}) ÷ {engine_steps}",
        lambda c: (c["decode_outputs"] + c["first_tokens"]) / c["engine_steps"],
    ),
)


@dataclass(frozen=True, slots=True)
class Formula:
    """An estimate's name in the API, its definition, the same with numbers, and what comes out."""

    name: str
    definition: str
    filled: str
    value: float


def of(moved: Record) -> list[Formula]:
    """Return every estimate that the counters give; `moved` is how far each moved in a window, by name.

    A time follows from the first of its two definitions that is possible, as in the estimates.
    """
    found: dict[str, Formula] = {}
    for name, template, value in _DEFINITIONS:
        names = [part[1] for part in string.Formatter().parse(template) if part[1]]
        known = {each: number for each in names if (number := fields.number(moved, each)) is not None}
        if (
            name not in found
            and len(known) == len(set(names))
            and (made := _filled(name, template, known, value))
        ):
            found[name] = made
    return list(found.values())


def _filled(
    name: str, template: str, known: Mapping[str, float], value: Callable[[Mapping[str, float]], float]
) -> Formula | None:
    words = template.format_map({each: each.replace("_", " ") for each in known}).replace(" s ÷", " ÷")
    numbers = template.format_map({each: _number(number) for each, number in known.items()})
    try:
        return Formula(name, words, numbers, value(known))
    except ZeroDivisionError:
        return None


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.6g}"
