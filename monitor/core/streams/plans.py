"""What the user asks of the whole core, in one record."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor.core import detectors
from monitor.core.streams import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.streams.regimes import Declared


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a step needs to know besides the scrapes; `windows` in seconds, shortest first.

    `plain_step_seconds` is the engine's step time without speculation, NaN where nobody measured it.
    """

    detection: detectors.DetectionPlan = field(default_factory=detectors.DetectionPlan)
    limits: Limits = field(default_factory=Limits)
    windows: tuple[float, ...] = (60.0, 300.0, 3600.0)
    declared: Mapping[str, Declared] = field(default_factory=dict)
    plain_step_seconds: float = math.nan
