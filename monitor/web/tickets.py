"""What to paste into a ticket: an event in Markdown, and the commands that look at it again."""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import TYPE_CHECKING

from monitor.web import bills, fields, guidance, intervals, sentences, wording

if TYPE_CHECKING:
    from monitor.web.fields import Record
    from monitor.web.links import Links

_BEFORE_SECONDS = 7200
_AFTER_SECONDS = 3600
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|])")


def markdown(event: Record, links: Links, now: float, runbook: str = "") -> str:
    """Return an event as a ticket says it; names cannot leave their place in it."""
    before, after = fields.record(event, "before"), fields.record(event, "after")
    lines = [
        f"## {_plain(sentences.event(event, now))}",
        "",
        f"- severity: {_plain(fields.text(event, 'severity'))}, {_plain(fields.text(event, 'status'))}",
        f"- model: {_plain(fields.text(event, 'model_name')) or 'not said'}",
        *(f"- {name}: {value}" for name, value in costs(event) if value != wording.UNKNOWN),
        f"- report: {links.event(fields.text(event, 'id'))}",
        *([f"- runbook: {runbook}"] if runbook else []),
        "",
        "| | before | after |",
        "| --- | ---: | ---: |",
        f"| mean acceptance length | {_level(before)} | {_level(after)} |",
        *_positions(before, after),
        "",
        *_listed("Likely causes", [_cause(cause) for cause in fields.records(event, "causes")]),
        *_listed("What else changed", [_plain(fact) for fact in fields.texts(event, "facts")]),
        *_listed("What to do", guidance.steps(event)),
        "To see it again:",
        "",
        f"    {replay(event, now)}",
        "",
    ]
    return "\n".join(lines)


def replay(event: Record, now: float) -> str:
    """Return the command that runs the time around an event through the same code, from a Prometheus."""
    at = fields.number(event, "change_point_at") or fields.number(event, "raised_at") or now
    closed = fields.number(event, "closed_at")
    end = min(now, (now if closed is None else closed) + _AFTER_SECONDS)
    start = wording.iso(at - _BEFORE_SECONDS)
    return f"specmon replay http://PROMETHEUS:9090 --start {start} --end {wording.iso(max(end, at))} --json"


def costs(event: Record) -> list[tuple[str, str]]:
    """Return what an event costs, each in words with its value; the dash where it is unknown."""
    cost = fields.record(event, "cost")

    def number(name: str) -> float | None:
        return fields.number(cost, name)

    return [
        ("benefit lost", wording.percent(number("benefit_lost_ratio"))),
        ("time per token", wording.times(number("tpot_ratio"))),
        ("tokens per step", wording.times(number("tokens_per_step_ratio"))),
        *bills.rows(cost),
    ]


def _level(side: Record) -> str:
    ends = wording.interval(fields.number(side, "mal_low"), fields.number(side, "mal_high"))
    return f"{wording.length(fields.number(side, 'mal'))} ({ends})"


def _positions(before: Record, after: Record) -> list[str]:
    pairs = zip_longest(intervals.by_position(before), intervals.by_position(after))
    return [
        f"| conditional acceptance at position {position} | {_share(was)} | {_share(now)} |"
        for position, (was, now) in enumerate(pairs)
    ]


def _share(share: intervals.Share | None) -> str:
    if share is None or share.value is None:
        return wording.UNKNOWN
    ends = "" if share.low is None else f" ({share.low:.3f} to {share.high:.3f})"
    return f"{share.value:.3f}{ends}"


def _cause(cause: Record) -> str:
    words = fields.text(cause, "cause").replace("_", " ")
    weight = wording.percent(fields.number(cause, "weight"))
    return f"{_plain(words)} ({weight}): {_plain(fields.text(cause, 'evidence'))}"


def _listed(title: str, entries: list[str]) -> list[str]:
    return (
        [f"{title}:", "", *(f"{number}. {each}" for number, each in enumerate(entries, 1)), ""]
        if entries
        else []
    )


def _plain(text: str) -> str:
    """Return a text of one line in which nothing means anything in Markdown or HTML."""
    line = "".join(char if char.isprintable() else "?" for char in text)
    return _SPECIAL.sub(r"\\\1", line)
