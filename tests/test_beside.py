"""An engine's other pages are read over HTTP before its first page counts, so its streams have one name from the start."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from monitor.core import pipeline, streams
from monitor.core.counts import estimates, windows
from monitor.service import service
from monitor.service.commands import fetching
from monitor.sources.targets import Target
from monitor.store import Store
from tests.engines import runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

INTERVAL = 0.2
PATIENCE = 30.0


class Engine:
    """An engine that answers with a run's first pages, then with its last ones, and notes what was asked."""

    def __init__(self, name: str, run: str) -> None:
        self.run = next(each for each in runs.of(name) if each.name == run)
        self.asked: list[str] = []
        self.looks = 0

    async def answer(self, request: web.Request) -> web.Response:
        """Answer with the page of this path, 404 where the run has none."""
        self.asked.append(request.path_qs)
        if request.path == "/metrics":
            self.looks += 1
            body = self.run.pages[0 if self.looks <= 3 else -1]
            return web.Response(body=body, content_type="text/plain")
        found = self.run.beside[0 if self.looks <= 3 else -1].get(request.path_qs)
        if found is None:
            raise web.HTTPNotFound
        return web.json_response(json.loads(found))


@contextlib.asynccontextmanager
async def listening(engine: Engine) -> AsyncIterator[str]:
    """Serve an engine on a free port; its URL without a path."""
    app = web.Application()
    app.router.add_get("/{path:.*}", engine.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def counted(engine: Engine) -> streams.State:
    """The state of a service that watched the engine until its last page had been counted."""
    limits = streams.Limits(scrape_interval=INTERVAL)
    stop = asyncio.Event()
    async with listening(engine) as url:
        target = Target("engine", f"{url}/metrics", interval=INTERVAL, timeout=INTERVAL / 2)
        one = service.Service(pipeline.Plan(limits=limits), [target], Store(), clock=time.time, bucket=1.0)
        task = asyncio.create_task(one.run(stop))
        async with asyncio.timeout(PATIENCE):
            while engine.looks < 8:  # noqa: ASYNC110 - what is waited for is seen from outside
                await asyncio.sleep(INTERVAL / 4)
        stop.set()
        await task
    return one._state


async def test_sglang_is_exact_from_its_first_page() -> None:
    """The ranks of /v1/loads are the streams; the counters of the whole server are never taken for one."""
    engine = Engine("sglang", "dp2")
    state = await counted(engine)
    assert sorted(each.key.replica for each in state.identities) == ["0", "1"]
    assert estimates.from_sums(windows.total(state.sums)).mal == pytest.approx([2.5, 1.25])
    assert engine.asked.count("/v1/loads") >= engine.looks - 2
    assert engine.asked.count("/server_info") <= 2


async def test_a_page_without_a_model_has_its_alias_from_the_start() -> None:
    """llama.cpp's name comes from /props, which is asked before its first page is counted, and then no more."""
    engine = Engine("llama.cpp", "dialled_in")
    state = await counted(engine)
    assert [each.key.model_name for each in state.identities] == ["tiny"]
    assert state.identities[0].config["target_model"] == "/models/draft.gguf"
    assert engine.asked.count("/props") == 1


async def test_one_look_reads_the_other_pages_too() -> None:
    """`inspect URL` asks for them before it says anything."""
    engine = Engine("sglang", "exact_healthy")
    async with listening(engine) as url:
        scrapes = await asyncio.to_thread(fetching.pages, [f"{url}/metrics"], wait=0.0, timeout=5.0)
    assert set(scrapes[0].beside) == {"/v1/loads", "/server_info", "/model_info"}
