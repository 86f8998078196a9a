"""The simulated engines of the demo behind real HTTP servers on free loopback ports."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import numpy as np
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from monitor.service.demo.engine import WARM_UP_SECONDS, Phase, Scenario, SimulatedEngine
from monitor.service.demo.page import SimulatedPage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HOST = "127.0.0.1"
VERSION = "0.32.0+simulated"

GOOD = (0.80, 0.77, 0.75, 0.72)  # mean acceptance length 3.2
BROKEN = (0.06, 0.10, 0.10, 0.10)  # 1.07: a draft that no longer fits its target model
CODE = (0.72, 0.68, 0.66, 0.64)  # 2.7
LONG_PROMPTS = (0.60, 0.56, 0.54, 0.52)  # 2.2
COLLAPSE_SECONDS = 25.0

SCENARIOS = (
    Scenario("llama-0", "simulated/llama-70b", (Phase(-WARM_UP_SECONDS, GOOD),)),
    Scenario(
        "llama-1",
        "simulated/llama-70b",
        (Phase(-WARM_UP_SECONDS, GOOD), Phase(COLLAPSE_SECONDS, BROKEN)),
    ),
    Scenario(
        "coder-0",
        "simulated/coder-32b",
        (Phase(-WARM_UP_SECONDS, CODE), Phase(40.0, LONG_PROMPTS, prompt_tokens=6000.0)),
    ),
    Scenario(
        "mistral-0", "simulated/mistral-24b", (Phase(-WARM_UP_SECONDS, GOOD), Phase(-20.0, GOOD, slots=0))
    ),
)


class SimulatedFleet:
    """The engines of `scenarios`, simulated from `seed`; `clock` gives unix seconds."""

    def __init__(
        self,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
        scenarios: Sequence[Scenario] = SCENARIOS,
    ) -> None:
        self._seed = seed
        self._clock = clock
        self._scenarios = scenarios
        self._servers = contextlib.AsyncExitStack()

    async def start(self) -> list[tuple[str, str]]:
        """Serve every engine and return the name and the page's URL of each; their time begins now."""
        return [(each.name, await self._serve(index, each)) for index, each in enumerate(self._scenarios)]

    async def stop(self) -> None:
        """Stop serving."""
        await self._servers.aclose()

    async def _serve(self, index: int, scenario: Scenario) -> str:
        started = self._clock()
        engine = SimulatedEngine(scenario, np.random.default_rng([self._seed, index]))
        page = SimulatedPage(engine, scenario.model_name, started - WARM_UP_SECONDS)

        async def metrics(_: web.Request) -> web.Response:
            engine.advance(self._clock() - started)
            return web.Response(body=page.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})

        async def version(_: web.Request) -> web.Response:
            return web.json_response({"version": VERSION})

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
