"""The first screen for a terminal: the verdicts, then the models, worst first, cut to the window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields, states, wording

if TYPE_CHECKING:
    from monitor.web.fields import Record

_HEAD = ("STATE", "MODEL", "REPLICAS", "MAL", "REFERENCE", "CHANGE", "SLOWER", "LOST", "GPU-H/DAY", "SINCE")
_VERDICTS = 3


def screen(fleet: Record, models: Record, width: int, height: int) -> list[str]:
    """Return at most `height` lines of at most `width` from what `/api/v1/fleet` and `/models` answer."""
    now = fields.number(fleet, "at") or 0.0
    simulated = " (SIMULATED engines of `specmon demo`)" if fleet.get("simulated") is True else ""
    counted = fields.record(fleet, "counts")
    counts = ", ".join(f"{number} {state}" for state, number in counted.items())
    verdicts = fields.texts(fleet, "verdicts") or [fields.text(fleet, "headline")]
    rows = [_HEAD, *(_row(model, now) for model in fields.records(models, "models"))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines = [
        f"specmon {fields.text(fleet, 'version')}, {wording.clock(now)}{simulated}: {counts or 'no stream'}",
        "",
        *(
            f"! {sentence}" if len(fields.texts(fleet, "verdicts")) else sentence
            for sentence in verdicts[:_VERDICTS]
        ),
        *([f"  and {len(verdicts) - _VERDICTS} more"] if len(verdicts) > _VERDICTS else []),
        "",
        *table,
    ]
    return [_printable(line)[:width] for line in lines[:height]]


def _row(model: Record, now: float) -> tuple[str, ...]:
    state = fields.text(model, "state")
    known = states.STATES.get(state)
    mal, reference = fields.number(model, "mal"), fields.number(model, "reference_mal")
    since = fields.number(model, "since")
    counted = fields.record(model, "counts")
    return (
        f"{known.shape if known else '?'} {state}",
        fields.text(model, "model_name") or wording.UNKNOWN,
        " ".join(f"{number} {name}" for name, number in counted.items()),
        wording.length(mal),
        wording.length(reference),
        wording.change(mal, reference),
        wording.times(fields.number(model, "tpot_ratio")),
        wording.percent(fields.number(model, "benefit_lost_ratio")),
        wording.amount(fields.number(model, "gpu_hours_per_day")),
        wording.UNKNOWN if since is None else wording.ago(since, now),
    )


def _printable(line: str) -> str:
    """Return a line in which no name can send control sequences to a terminal."""
    return "".join(char if char.isprintable() else "?" for char in line)
