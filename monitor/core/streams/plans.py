"""What the user asks of the whole core, in one record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor.core import detectors
from monitor.core.streams import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.streams.pinned import Pinned
    from monitor.core.streams.regimes import Declared
    from monitor.core.streams.worth import Told


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a step needs to know besides the scrapes; `windows` in seconds, shortest first.

    `pinned` are the references that the operator set, by the name of their model.
    `told` is what the operator says of the step time and prices of a model, by its name; "" of all others.
    """

    detection: detectors.DetectionPlan = field(default_factory=detectors.DetectionPlan)
    limits: Limits = field(default_factory=Limits)
    windows: tuple[float, ...] = (60.0, 300.0, 3600.0)
    declared: Mapping[str, Declared] = field(default_factory=dict)
    told: Mapping[str, Told] = field(default_factory=dict)
    pinned: Mapping[str, Sequence[Pinned]] = field(default_factory=dict)
