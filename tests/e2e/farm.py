"""Many simulated engines behind one address, on a clock that runs fast: twenty minutes are a minute.

The engines' pages, the scrapes and specmon's clock are all on that clock, so that specmon sees scrapes 15 s
apart; Prometheus, Alertmanager and people live in real time.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from aiohttp import web

from monitor.core.pages.scrapes import Scrape
from monitor.sources.targets import Target
from tests import made

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

FASTER = 20.0
INTERVAL = 15.0  # of the scrapes, on the fast clock
GOOD = (0.8, 0.76, 0.73, 0.7)
DEAD = (0.03, 0.0, 0.0, 0.0)
DRAFTS_A_SECOND = 300.0


class FastClock:
    """Unix time that runs `FASTER` from its making on."""

    def __init__(self) -> None:
        self._began = time.time()

    def __call__(self) -> float:
        """The fast time now."""
        return self._began + FASTER * (time.time() - self._began)


@dataclass(slots=True)
class Engine:
    """One vLLM whose counters grow with time; `acceptance` may be turned."""

    model_name: str
    random: np.random.Generator
    at: float
    acceptance: Sequence[float] = GOOD
    drafts: float = 1000.0
    answered: int = 0  # requests, since the start
    accepted: list[float] = field(default_factory=lambda: [800.0, 600.0, 450.0, 300.0])

    def page(self, now: float) -> bytes:
        """The page at this time."""
        kept = grown = int(self.random.poisson(DRAFTS_A_SECOND * max(now - self.at, 0.0)))
        self.at = max(now, self.at)
        self.drafts += grown
        mood = float(np.exp(0.02 * self.random.normal()))
        for position, rate in enumerate(self.acceptance):
            kept = int(self.random.binomial(kept, min(rate * mood, 1.0)))
            self.accepted[position] += kept
        tokens = {"generation_tokens_total": self.drafts + sum(self.accepted)}
        return made.page(self.accepted, drafts=self.drafts, more=tokens, model_name=self.model_name)


class Farm:
    """Engines by name, all served at one port."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.engines: dict[str, Engine] = {}
        self.port = 0

    def add(self, name: str, model_name: str, acceptance: Sequence[float] = GOOD) -> None:
        """Start an engine."""
        random = np.random.default_rng(len(self.engines))
        self.engines[name] = Engine(model_name, random, self._clock(), acceptance)

    def turn(self, model_name: str, acceptance: Sequence[float], *names: str) -> None:
        """Turn the acceptance of a model's engines, all of them or those that are named."""
        for name, engine in self.engines.items():
            if engine.model_name == model_name and (not names or name in names):
                engine.acceptance = acceptance

    def past(self, seconds: float) -> Iterator[list[Scrape]]:
        """Yield what scrapes of all engines would have been in the `seconds` before now, oldest first."""
        began = self._clock() - seconds
        for engine in self.engines.values():
            engine.at = began
        for tick in range(int(seconds / INTERVAL)):
            at = began + INTERVAL * tick
            yield [Scrape(name, at, body=engine.page(at)) for name, engine in self.engines.items()]

    def targets(self) -> list[Target]:
        """What there is to scrape, as often as the fast clock asks for."""
        return [
            Target(
                name=name,
                url=f"http://127.0.0.1:{self.port}/{name}/metrics",
                interval=INTERVAL / FASTER,
                timeout=0.9 * INTERVAL / FASTER,
            )
            for name in self.engines
        ]

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Have all engines answer."""
        application = web.Application()
        application.router.add_get("/{name}/metrics", self._answer)
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.5)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        engine = self.engines[request.match_info["name"]]
        engine.answered += 1
        return web.Response(body=engine.page(self._clock()), content_type="text/plain")
