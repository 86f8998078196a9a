"""That counters of drafts are there is no proof of speculation, for any engine: one rule, with every way round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.core import pipeline, streams
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams.regimes import Declared
from monitor.core.vocabulary import STATES
from tests import made

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.events import Event

NAMES = {
    "vllm": (
        "vllm:",
        "spec_decode_num_drafts_total",
        "generation_tokens_total",
        '{model_name="m",engine="0"}',
    ),
    "lmdeploy": (
        "lmdeploy:",
        "spec_decode_num_drafts_total",
        "generation_tokens_total",
        '{model_name="m",engine="0"}',
    ),
    "llama.cpp": ("llamacpp:", "spec_decode_num_drafts_total", "tokens_predicted_total", ""),
    "xllm": ("", "speculative_num_drafts_total", "num_processing_tokens_total_generated", ""),
}


def page(engine: str, drafts: float, tokens: float) -> bytes:
    """A page whose counters of speculation were made at start, with positions only once something was drafted."""
    prefix, drafted, generated, labels = NAMES[engine]
    accepted = drafted.replace("num_drafts", "num_accepted_tokens")
    proposed = drafted.replace("num_drafts", "num_draft_tokens")
    lines = [
        f"{prefix}{drafted}{labels} {drafts}",
        f"{prefix}{proposed}{labels} {drafts * 3}",
        f"{prefix}{accepted}{labels} {drafts * 2}",
        f"{prefix}{generated}{labels} {tokens}",
    ]
    return "\n".join([*lines, ""]).encode()


def judged(bodies: Sequence[bytes], declared: Declared | None = None) -> tuple[list[str], list[Event]]:
    """What the stream was called after each page, and the events."""
    plan = pipeline.Plan(declared={"t": declared} if declared else {})
    state = pipeline.begin(plan)
    called: list[str] = []
    events: list[Event] = []
    for number, body in enumerate(bodies):
        at = made.START + 15.0 * number
        events += pipeline.step(plan, state, [Scrape("t", at, body=body)]).events
        called.append(STATES[streams.states(state, made.array([at]), plan.limits)[0]])
    return called, events


@pytest.mark.parametrize("engine", NAMES)
@pytest.mark.parametrize("rate", [3000, 60], ids=["busy", "five tokens a second"])
def test_counters_that_stay_at_0_are_off(engine: str, rate: int) -> None:
    """With tokens and never a draft the stream is off, at no time silent, and nothing is told."""
    called, events = judged([page(engine, 0, rate * number) for number in range(120)])
    assert not events
    assert "silent" not in called
    assert called[-1] == "off"


@pytest.mark.parametrize("engine", NAMES)
@pytest.mark.parametrize("rate", [3000, 60], ids=["busy", "five tokens a second"])
def test_a_restart_without_speculation_is_off_not_silent(engine: str, rate: int) -> None:
    """An engine that drafted and comes back without is said to be off; no silence is warned of."""
    before = [page(engine, 400 * number, 1200 * number) for number in range(1, 60)]
    after = [page(engine, 0, rate * number) for number in range(120)]
    called, events = judged([*before, *after])
    told = {event.id: event.kind for event in events if event.kind != "regime_change"}
    assert list(told.values()) == ["speculation_off"]
    assert called[-1] == "off"


def test_an_engine_that_drafts_late_is_on_from_its_first_draft() -> None:
    """Five hundred tokens without a match of an n-gram, then drafts: every draft is counted, nothing is told."""
    before = [page("vllm", 0, 50 * number) for number in range(10)]
    after = [page("vllm", 100 * number, 500 + 300 * number) for number in range(1, 40)]
    called, events = judged([*before, *after])
    assert not events
    assert called[-1] in ("warming", "ok")
    assert "silent" not in called


def test_an_idle_engine_that_restarts_is_neither_off_nor_silent() -> None:
    """Counters at 0 without tokens say nothing: idle, and on again with the first draft."""
    before = [page("vllm", 400 * number, 1200 * number) for number in range(1, 60)]
    idle = [page("vllm", 0, 0)] * 20
    after = [page("vllm", 400 * number, 1200 * number) for number in range(1, 60)]
    called, events = judged([*before, *idle, *after])
    assert not [event for event in events if event.kind.startswith("speculation")]
    assert called[59 + 15] == "idle"
    assert called[-1] in ("warming", "ok")


def test_where_the_operator_says_what_drafts_no_draft_is_silence() -> None:
    """With a draft model declared, tokens without one draft are silent: something is wrong there."""
    bodies = [page("vllm", 0, 3000 * number) for number in range(60)]
    called, _ = judged(bodies, Declared(draft_model="org/draft"))
    assert called[-1] == "silent"
