"""An event's page: what it was told with stands beside what holds now."""

from __future__ import annotations

import pytest

from tests.web import reading
from tests.web.fleet_of_five import COLLAPSE, COLLAPSED_AT, NOW, Service

OPENING = {
    "after": {"mal": 1.9, "mal_low": 1.7, "mal_high": 2.1, "conditional": [0.4], "drafts": 800},
    "cost": {"tpot_ratio": 1.74, "benefit_lost_ratio": 0.61},
    "causes": [{"cause": "draft", "weight": 0.55, "evidence": "every position fell alike"}],
}


@pytest.mark.parametrize(
    ("closed_at", "heading"),
    [(None, "When it was told, and now"), (NOW - 60, "When it was told, and at its end")],
)
async def test_what_was_told_stands_beside_what_holds(closed_at: float | None, heading: str) -> None:
    """The level, every cost and the likeliest cause are there twice; what is known on no side is left out."""
    status = "open" if closed_at is None else "closed"
    event = {**COLLAPSE, "at_opening": OPENING, "status": status, "closed_at": closed_at}
    page = await reading.read("/report/events/c0ffee1234", Service(kept=(event,)))
    for words in (
        heading,
        "Told at 2026-05-01 11:50:45 UTC; looked at last 15 min ago",
        "mean acceptance length1.901.24",
        "benefit lost61 %90 %",
        "time per token1.7×2.6×",
        "tokens per step–0.4×",
        "likeliest causedraft (55 %)traffic (70 %)",
    ):
        assert words in page.text
    assert COLLAPSE["raised_at"] == COLLAPSED_AT + 45
    assert "cost a day" not in page.text


async def test_an_event_that_keeps_no_opening_claims_none() -> None:
    """Events of earlier versions do not say what they were told with; nothing is made up."""
    page = await reading.read("/report/events/c0ffee1234", Service())
    assert "When it was told" not in page.text
