"""What a stream was like when its open change began; what the change costs follows from it (`losses`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outset:
    """What was usual up to `at` (unix seconds), NaN where unknown, and what had been counted until then.

    `counted` are seconds, what the spread needs and one value per `Counter`: the head of `windows.Sums`.
    """

    at: float
    counted: tuple[float, ...]
    mal: float
    coverage: float
    tokens_per_step: float
    step_seconds: float
    batch_size: float
