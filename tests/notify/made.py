"""Events as the pipeline makes them, for the tests of notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.core import events
from monitor.core.detectors.base import Level
from monitor.core.events import event_records
from monitor.core.events.attribution import Cause
from monitor.core.pages import scrapes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.vocabulary import EventKind, Severity


CHANGED, RAISED, CLOSED = 1_700_000_000.0, 1_700_000_030.0, 1_700_000_750.0
LABELS = {"team": "search", "severity": "ours wins"}
BEFORE = Level(3.16, 3.1, 3.22, (0.8, 0.77, 0.75, 0.72), 32_474.0)
AFTER = Level(1.07, 1.05, 1.09, (0.06, 0.1, 0.1, 0.1), 2_362.0)


def event(
    event_id: str = "a1b2c3d4e5f60718",
    *,
    kind: EventKind = "collapse",
    severity: Severity = "critical",
    closed_at: float | None = None,
    target: str = "vllm-3:8000",
    after: Level = AFTER,
) -> dict[str, object]:
    """An event of one stream, open or closed."""
    key = scrapes.StreamKey(target, "meta/llama-70b", "0")
    return event_records.as_json(
        events.Event(
            id=event_id,
            stream=f"{target}~meta-llama-70b~0",
            key=key,
            kind=kind,
            severity=severity,
            status="open" if closed_at is None else "closed",
            change_point_at=CHANGED,
            change_point_low=CHANGED - 15,
            change_point_high=CHANGED + 15,
            raised_at=RAISED,
            closed_at=closed_at,
            before=BEFORE,
            after=after,
            cost=events.Cost(0.34, 2.31, 0.968),
            positions=(0, 1, 2, 3),
            causes=(
                Cause("draft", 0.8, "draft_model went from eagle-1 to eagle-2"),
                Cause("unknown", 0.2, "no cause is exported"),
            ),
            facts=("draft_model went from eagle-1 to eagle-2",),
            detector="plunge",
            model_name=key.model_name,
        )
    )


def fleet_event() -> Mapping[str, object]:
    """The same trouble on two replicas."""
    nobody = {"stream": None, "target": None, "replica": None}
    return event("f1ee7") | nobody | {"scope": "fleet", "streams": ["a", "b"]}
