"""What a stream is like beside what was usual: numbers, where its time per token went, evidence, traffic."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monitor.web import bars, fields, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from monitor.web.fields import Record
    from monitor.web.view import StreamView

_FIGURES: tuple[tuple[str, str, Callable[[float | None], str]], ...] = (
    ("mean acceptance length (MAL)", "mal", wording.length),
    ("coverage", "coverage", wording.percent),
    ("tokens per step", "tokens_per_step", wording.length),
    ("step time", "step_seconds", wording.seconds),
    ("batch size", "batch_size", wording.amount),
)
_SHARES = {
    "acceptance": "What the draft's acceptance did to tokens per step",
    "coverage": "What the share of steps with a draft did to them",
    "delivery": "Tokens accepted and not delivered, as beyond a request's end",
    "batch": "What the batch size did to the step time, by this stream's own history",
    "rest": "All else in the step time: kernels, prefill, the draft's own time",
}


def before_and_now(closeup: Record, now: float) -> Iterator[Child]:
    """Yield the stream's numbers before and now, and where a change of its time per token came from."""
    before, present = fields.record(closeup, "before"), fields.record(closeup, "now")
    rows = [
        [
            name,
            layout.value(form(fields.number(before, key)), "it was not counted"),
            layout.value(form(fields.number(present, key)), "it is not counted"),
            layout.value(
                wording.change(fields.number(present, key), fields.number(before, key)), "it needs both sides"
            ),
        ]
        for name, key, form in _FIGURES
    ]
    yield layout.table(_caption(closeup, now), ("Number", "Before", "Now", "Change"), rows, "narrow")
    yield from _token_time(closeup)


def _caption(closeup: Record, now: float) -> str:
    parted = fields.number(closeup, "parted_at") or now
    if closeup.get("change_open"):
        return f"Now: since the change at {wording.clock(parted)}; before: what was usual up to it"
    seen = fields.number(closeup, "before_seconds") or 0.0
    return f"Now: the last {wording.span(now - parted)}; before: the {wording.span(seen)} before that"


def _token_time(closeup: Record) -> Iterator[Child]:
    shares = fields.record(closeup, "tpot_log_shares")
    sentence = fields.text(closeup, "tpot_sentence")
    if not sentence:
        yield tag("p", "Where a change of the time per token came from: not known without step times.")
        return
    known = {name: fields.number(shares, name) or 0.0 for name in _SHARES}
    most = max(abs(value) for value in known.values())
    rows = [
        [(name, tag("small", _SHARES[name])), _alone(value), _side_bar(name, value, most)]
        for name, value in known.items()
    ]
    yield tag("p", f"{sentence}.")
    caption = (
        "Time per output token (TPOT): what each part alone would have made of it; their logarithms add up"
    )
    yield layout.table(caption, ("Part", "TPOT", "Slower to the right"), rows, "narrow shares")


def _alone(log_share: float) -> str:
    return wording.change(math.exp(log_share), 1.0)


def _side_bar(name: str, value: float, most: float) -> Markup:
    return bars.to_either_side(value, most, f"{name}: {_alone(value)}")


def evidence(stream: StreamView) -> Markup:
    """Return the drift scores against their limit."""
    rows = [
        [
            name,
            layout.value(wording.length(score), "nothing has been judged yet"),
            bars.against_limit(score, f"{name}: {score:.2f} of 1") if score is not None else "",
        ]
        for name, score in (("of a fall", stream.score_down), ("of a rise", stream.score_up))
    ]
    caption = "Drift score: evidence ÷ the limit of its detector; at 1, the tick, there is an alarm"
    return layout.table(caption, ("Evidence", "Score", "From 0 to 2"), rows, "narrow")


def traffic(closeup: Record) -> Markup:
    """Return what requests were like before and now."""
    rows: list[list[Child]] = []
    for each in fields.records(closeup, "traffic"):
        before, now = fields.number(each, "before"), fields.number(each, "now")
        moved = fields.text(each, "moved").replace("_", " ")
        words = f"{fields.text(each, 'name')}, {fields.text(each, 'unit')}".removesuffix(", ")
        rows.append(
            [
                words,
                layout.value(wording.amount(before), "it was not counted"),
                layout.value(wording.amount(now), "it is not counted"),
                layout.value(wording.change(now, before), "it needs both sides"),
                "" if moved in {"", "unknown"} else moved,
            ]
        )
    caption = "What the engine counts of requests, never what they say; sides as above"
    return layout.table(caption, ("Measure", "Before", "Now", "Change", "Beyond chance"), rows, "narrow")
