"""Idle, off, silent, stale and warming are five different things, and each takes its time to tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core import pipeline, streams
from monitor.core.pages.scrapes import Failure
from monitor.core.vocabulary import STATES
from tests import made

if TYPE_CHECKING:
    from collections.abc import Sequence


def states_of(bodies: Sequence[bytes | Failure], later: float = 0.0) -> list[str]:
    """Return the state of one stream after each of its pages, `later` seconds after it."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    found: list[str] = []
    for look in made.looks(bodies):
        pipeline.step(plan, state, [look])
        codes = streams.states(state, np.array([look.at + later]), plan.limits)
        found.append(STATES[int(codes[0])])
    return found


def served(tokens: float, drafts: float = 0.0) -> bytes:
    """Return a page with so many generated tokens and drafts."""
    return made.page((drafts * 0.8, drafts * 0.5), drafts=drafts, more={"generation_tokens_total": tokens})


def test_nothing_is_known_after_one_page() -> None:
    """The first page says what was, not what is: the stream is warming; with the second it is what it is."""
    assert states_of([served(5000), served(5000)]) == ["warming", "idle"]
    assert states_of([made.steady(1), made.steady(2)]) == ["warming", "warming"]


def test_silence_takes_its_time() -> None:
    """Tokens without a draft are silence after two minutes of them, and idleness is not silence."""
    found = states_of([served(1000.0 * n) for n in range(12)])
    assert found[:8] == ["warming"] * 8
    assert found[9:] == ["silent"] * 3
    stopped = [served(1000.0 * n, 100.0 * n) for n in range(5)] + [
        served(4000 + 1000.0 * n, 400) for n in range(1, 12)
    ]
    found = states_of(stopped)
    assert found[5:12] == ["warming"] * 7
    assert found[-1] == "silent"
    quiet = [served(1000.0 * n, 100.0 * n) for n in range(5)] + [served(4000, 400)] * 12
    assert states_of(quiet)[-1] == "idle"


def test_a_stream_is_stale_when_its_target_does_not_answer() -> None:
    """Failed looks leave the state for three and a half intervals; then the stream is stale until a good page."""
    down = Failure("timeout", "no answer within 10 s")
    found = states_of(
        [made.steady(1), made.steady(2), made.steady(3), down, down, down, down, made.steady(8)]
    )
    assert found == ["warming"] * 6 + ["stale", "warming"]


def test_no_state_is_mistaken_for_another() -> None:
    """Off, idle, silent and stale are told apart also where all could be said: stale first, then off."""
    off = made.page(more={"generation_tokens_total": 10.0})
    assert states_of([off, off], later=1.0)[-1] == "off"
    assert states_of([off, off], later=1000.0)[-1] == "stale"
