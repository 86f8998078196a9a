"""The simulated engines of the demo behind real HTTP servers on free loopback ports."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from monitor.service.demo.engine import WARM_UP_SECONDS, Scenario, SimulatedEngine
from monitor.service.demo.page import SimulatedPage
from monitor.service.demo.story import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Member:
    """One engine of the fleet with its page."""

    scenario: Scenario
    engine: SimulatedEngine
    page: SimulatedPage


class SimulatedFleet:
    """The engines of `scenarios`, simulated from `seed`; `clock` gives unix seconds."""

    def __init__(
        self,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
        scenarios: Sequence[Scenario] = SCENARIOS,
    ) -> None:
        self._clock = clock
        self._servers = contextlib.AsyncExitStack()
        self._began_at = clock()
        self.members = [
            self._member(each, np.random.default_rng([seed, index])) for index, each in enumerate(scenarios)
        ]

    def _member(self, scenario: Scenario, rng: np.random.Generator) -> Member:
        engine = SimulatedEngine(scenario, rng)
        page = SimulatedPage(engine, scenario.model_name, self._began_at - WARM_UP_SECONDS)
        return Member(scenario, engine, page)

    async def start(self) -> list[tuple[str, str]]:
        """Serve every engine and return the name and the page's URL of each; their live time begins now."""
        self.begin()
        return [(member.scenario.name, await self._serve(member)) for member in self.members]

    def begin(self) -> None:
        """Have the live time begin now (anew, where nothing was read yet)."""
        self._began_at = self._clock()
        for member in self.members:
            member.page.first_at = self._began_at

    async def stop(self) -> None:
        """Stop serving."""
        await self._servers.aclose()

    async def _serve(self, member: Member) -> str:
        scenario, engine = member.scenario, member.engine

        async def metrics(_: web.Request) -> web.Response:
            engine.advance(self._clock() - self._began_at)
            return web.Response(body=member.page.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})

        async def version(_: web.Request) -> web.Response:
            return web.json_response({"version": engine.version})

        async def models(_: web.Request) -> web.Response:
            return web.json_response(
                {"object": "list", "data": [{"id": scenario.model_name, "object": "model"}]}
            )

        application = web.Application()
        application.add_routes(
            [web.get("/metrics", metrics), web.get("/version", version), web.get("/v1/models", models)]
        )
        runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        self._servers.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, HOST, 0).start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}/metrics"
