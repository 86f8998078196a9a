"""A real engine over real HTTP: llama.cpp's server with dialled-in acceptance, read as any target is.

Each round is a batch of requests and a look at the page. The rounds are a few hundredths of a second long
and are told to the pipeline as half a minute, so that three quarters of an hour of traffic take some seconds.
"""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from typing import TYPE_CHECKING

import aiohttp
import numpy as np
import pytest

from monitor.core import events, pipeline
from monitor.core.counts import estimates, windows
from monitor.core.pages import engines
from monitor.sources import http, targets
from tests import real_engine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from monitor.core.events import Event

MISSING = [name for name in ("xllamacpp", "gguf") if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (a real llama.cpp server)"
)

INTERVAL = 30.0
BEGAN = 1_800_000_000.0
REQUESTS = 8
TOKENS = 64
GOOD = (0.7, 0.49, 0.343, 0.24)
WORSE = (0.5, 0.2, 0.08, 0.03)
DEAD = (0.004, 0.0, 0.0, 0.0)
WARM_ROUNDS = 90
SOON_ROUNDS = 30
VERDICT_ROUNDS = 40


class Watch:
    """A monitor of one target, whose clock goes on by an interval each round."""

    def __init__(self, port: int) -> None:
        identity = tuple(targets.Beside(path) for path in engines.ENGINES["llama.cpp"].identity)
        self.target = targets.Target("engine", f"http://127.0.0.1:{port}/metrics", beside=identity)
        self.plan = pipeline.Plan()
        self.state = pipeline.begin(self.plan)
        self.now = BEGAN
        self.events: list[Event] = []

    async def rounds(self, count: int, *until: str) -> None:
        """Make requests and look, `count` times or until an event of one of these kinds has opened."""
        base = self.target.url.removesuffix("metrics")
        # The server closes a connection after some requests, and a request must not meet that moment.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(base, connector=connector) as session:
            for _ in range(count):
                await asyncio.gather(*(self._ask(session, number) for number in range(REQUESTS)))
                self.now += INTERVAL
                scrape = await http.fetch_once(self.target, lambda: self.now)
                assert scrape.failure is None
                self.events += pipeline.step(self.plan, self.state, [scrape]).events
                if any(event.kind in until for event in self.events):
                    return

    async def _ask(self, session: aiohttp.ClientSession, number: int) -> None:
        seed = int(self.now - BEGAN) * REQUESTS + number
        body = {"prompt": f"{seed} ", "n_predict": TOKENS, "ignore_eos": True, "seed": seed}
        async with session.post("completion", json=body) as answer:
            assert answer.status == 200

    def kinds(self) -> list[str]:
        """The kinds of all events so far."""
        return [event.kind for event in self.events]

    def totals(self) -> estimates.Estimates:
        """The estimates over everything that was counted."""
        return estimates.from_sums(windows.total(self.state.sums))

    def lately(self) -> estimates.Estimates:
        """The estimates over the last window of five minutes."""
        length = self.plan.windows[1]
        sums = windows.over(self.state.sums, 1, length, np.array([self.now]))
        return estimates.from_sums(sums)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny model that this test wrote."""
    path = tmp_path / "release-1.gguf"
    real_engine.write_model(path, seed=1)
    return path


def mal(rates: Sequence[float]) -> float:
    """The mean acceptance length of marginal rates."""
    return 1.0 + sum(rates)


async def test_the_dialled_in_acceptance_is_read(model: Path) -> None:
    """Model, build and k are known, and the acceptance per position and its mean are those of the engine."""
    with real_engine.serving(model, GOOD, port := real_engine.free_port()):
        watch = Watch(port)
        await watch.rounds(40)
    (identity,) = watch.state.identities
    assert (identity.engine, identity.key.model_name) == ("llama.cpp", real_engine.ALIAS)
    assert (identity.num_speculative_tokens, bool(identity.engine_version)) == (4, True)
    found = watch.totals()
    slack = (found.mal_high[0] - found.mal_low[0]) / 2
    assert found.mal_low[0] - slack <= mal(GOOD) <= found.mal_high[0] + slack
    assert found.marginal[0, :4] == pytest.approx(GOOD, abs=0.05)
    assert found.drafts[0] > 1000
    assert watch.events == []


async def test_a_release_with_worse_acceptance_is_told(model: Path) -> None:
    """Another model behind the same name accepts less: a new regime, both levels, the cause, and a verdict."""
    port = real_engine.free_port()
    watch = Watch(port)
    with real_engine.serving(model, GOOD, port):
        await watch.rounds(WARM_ROUNDS)
    assert watch.kinds() == []
    good = watch.totals().mal[0]
    assert watch.state.status["baseline_mal"][0] == pytest.approx(good, abs=0.1)
    release = model.with_name("release-2.gguf")
    shutil.copyfile(model, release)
    with real_engine.serving(release, WORSE, port):
        await watch.rounds(SOON_ROUNDS, "drop", "collapse")
        event = watch.events[-1]
        await watch.rounds(VERDICT_ROUNDS, "regime_change")
    assert watch.state.identities[0].regimes == 2
    assert event.before.mal == pytest.approx(good, abs=0.15)
    assert event.after.mal < event.before.mal_low - 0.3
    assert event.causes[0].cause == "target_model"
    assert watch.lately().mal[0] == pytest.approx(mal(WORSE), abs=0.1)
    note = watch.events[-1]
    verdict = events.verdict(note.before, note.after)
    assert (note.kind, note.severity, note.status) == ("regime_change", "info", "closed")
    assert verdict is not None
    assert (verdict.outcome, verdict.confidence >= 0.99) == ("worse", True)


async def test_a_draft_that_dies_is_a_collapse(model: Path) -> None:
    """A restart after which almost nothing is accepted is told as a collapse or a dead draft."""
    port = real_engine.free_port()
    watch = Watch(port)
    with real_engine.serving(model, GOOD, port):
        await watch.rounds(WARM_ROUNDS)
    assert watch.kinds() == []
    with real_engine.serving(model, DEAD, port):
        await watch.rounds(SOON_ROUNDS, "collapse", "dead_draft")
    assert set(watch.kinds()) & {"collapse", "dead_draft"}
