"""What a change costs in words: tokens not delivered, GPU time, money, and what a token's time is made of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from monitor.web import fields, wording

if TYPE_CHECKING:
    from monitor.web.fields import Record

SMALLEST_SHARE = 0.005
"""Smallest share of a change that is named, in logarithms: half a percent."""


def rows(cost: Record) -> list[tuple[str, str]]:
    """Return what a change costs now and so far as names and texts; a text is a dash where it is unknown."""
    most = _bound(cost)
    return [
        ("tokens per second lost", wording.amount(fields.number(cost, "tokens_per_second_lost"))),
        ("extra GPU time", most + _per_million(cost)),
        ("GPU-hours a day", most + wording.amount(fields.number(cost, "gpu_hours_per_day"))),
        ("cost a day", most + wording.amount(fields.number(cost, "money_per_day"))),
        ("since the change", _so_far(cost) or wording.UNKNOWN),
        ("time per token is made of", shares(cost) or wording.UNKNOWN),
    ]


def sentence(cost: Record) -> str:
    """Return what a change costs now and so far as one phrase, empty where nothing of it is known."""
    tokens, hours = (fields.number(cost, name) for name in ("tokens_per_second_lost", "gpu_hours_per_day"))
    parts = []
    if tokens is not None and tokens > 0:
        parts.append(f"{wording.amount(tokens)} tokens/s are lost")
    if hours is not None and hours > 0:
        money = fields.number(cost, "money_per_day")
        price = "" if money is None else f" (cost {wording.amount(money)})"
        parts.append(f"{_bound(cost)}{wording.amount(hours)} GPU-hours{price} a day are extra")
    so_far = _so_far(cost)
    if parts and so_far:
        parts.append(f"{so_far} so far")
    return ", ".join(parts)


def shares(cost: Record) -> str:
    """Return what a change of the time per token is made of, largest share first; empty where unknown."""
    told = fields.record(cost, "tpot_log_shares")
    named = [(name, fields.number(told, name) or 0.0) for name in told if name != "total"]
    named = [each for each in named if abs(each[1]) >= SMALLEST_SHARE]
    named.sort(key=lambda each: -abs(each[1]))
    return ", ".join(f"{name} {wording.change(math.exp(share), 1.0)}" for name, share in named)


def _bound(cost: Record) -> str:
    """Return what stands before GPU time where the page does not tell how long the engine decodes."""
    known = fields.number(cost, "gpu_hours_per_day") is not None
    return "at most " if known and fields.number(cost, "busy_ratio") is None else ""


def _per_million(cost: Record) -> str:
    seconds = fields.number(cost, "gpu_seconds_per_million_tokens")
    return wording.UNKNOWN if seconds is None else f"{wording.amount(seconds)} GPU-seconds per million tokens"


def _so_far(cost: Record) -> str:
    tokens, hours, money = (fields.number(cost, name) for name in ("tokens_lost", "gpu_hours", "money"))
    parts = []
    if tokens is not None and tokens > 0:
        parts.append(f"{wording.amount(tokens)} tokens")
    if hours is not None and hours > 0:
        price = "" if money is None else f" (cost {wording.amount(money)})"
        parts.append(f"{_bound(cost)}{wording.amount(hours)} GPU-hours{price}")
    return ", ".join(parts)
