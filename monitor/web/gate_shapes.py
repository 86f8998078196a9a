"""What `/api/v1/verdict` answers, as a type: its schema is made from this."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from monitor.web.shapes import Number, Shape

Word = Literal["better", "worse", "no_difference", "not_enough"]


class GateJson(Shape):
    """The word on a candidate against a baseline, of what it is, how large, how sure, and what it rests on.

    Differences are candidate minus baseline in tokens per draft over the `positions` that both draft; ratios
    are candidate ÷ baseline. The intervals hold at whatever times one looks.
    """

    at: float
    verdict: Word
    by: Literal["acceptance", "tokens_per_second"] = Field(description="What the verdict is of.")
    reason: str
    mal_difference: Number
    mal_difference_low: Number
    mal_difference_high: Number
    confidence: Number
    tokens_per_second_verdict: Word
    tokens_per_second_ratio: Number
    tokens_per_second_ratio_low: Number
    tokens_per_second_ratio_high: Number
    positions: int
    minutes: int
    same_time: bool
    since: float
    margin: float
    baseline: list[str]
    candidate: list[str]
