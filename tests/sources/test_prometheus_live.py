"""The service on a real Prometheus that scrapes a real HTTP engine: restarts, series that vanish, its own restart."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import numpy as np
import yaml
from aiohttp import web

from monitor.core import pipeline, streams
from monitor.service import service
from monitor.sources import prometheus, queries
from monitor.sources.targets import Target
from monitor.store import Store
from tests import made
from tests.alerts import servers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from monitor.web.view import TargetView

INTERVAL = 1.0
PATIENCE = 60.0


class Engine:
    """An engine whose counters grow with each look at it; `positions` is how many tokens it drafts."""

    def __init__(self) -> None:
        self.positions, self.drafts, self.down, self.started_at = 4, 0, False, 1.0e9

    async def page(self, request: web.Request) -> web.Response:
        """Answer with the page after another 1000 drafts."""
        del request
        if self.down:
            return web.Response(status=503)
        self.drafts += 1000
        accepted = [self.drafts * 0.8 ** (position + 1) // 1 for position in range(self.positions)]
        tokens = {"generation_tokens_total": float(self.drafts + sum(accepted))}
        body = made.page(accepted, drafts=self.drafts, more=tokens, started_at=self.started_at)
        return web.Response(body=body, content_type="text/plain")

    def restart(self, positions: int) -> None:
        """Begin anew with another number of tokens."""
        self.positions, self.drafts, self.started_at = positions, 0, self.started_at + 100.0


@contextlib.asynccontextmanager
async def scraped(engine: Engine, folder: Path) -> AsyncIterator[str]:
    """Serve the engine and run a Prometheus that scrapes it; the address of Prometheus."""
    app = web.Application()
    app.router.add_get("/metrics", engine.page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    job = {
        "job_name": "vllm",
        "static_configs": [
            {"targets": [f"127.0.0.1:{runner.addresses[0][1]}"], "labels": {"engine": "x", "pod": "p"}}
        ],
    }
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    running = servers.prometheus(folder / "data", config)
    server = await asyncio.to_thread(running.__enter__)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)
        await runner.cleanup()


@contextlib.asynccontextmanager
async def serving(url: str, kept: Store, *targets: Target) -> AsyncIterator[service.Service]:
    """Run a service that reads the query API until the block ends."""
    plan = pipeline.Plan(limits=streams.Limits(scrape_interval=INTERVAL))
    wanted = prometheus.Wanted(queries.QueryServer(url), interval=INTERVAL, offset=1.5, lookback=600.0)
    reader = prometheus.GridReader(wanted, time.time)
    one = service.Service(plan, targets, kept, clock=time.time, bucket=1.0, queried=reader)
    stop = asyncio.Event()
    task = asyncio.create_task(one.run(stop))
    try:
        yield one
    finally:
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


async def until(found: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE):
        while not found():  # noqa: ASYNC110 - what is waited for is seen from outside
            await asyncio.sleep(0.05)


def value(one: service.Service, name: str) -> float:
    """The sum of a family's values."""
    columns = [
        column for family in one.snapshot().families() if family.name == name for column in family.columns
    ]
    return float(sum(np.asarray(column.values).sum() for column in columns))


def only(one: service.Service) -> TargetView:
    """The one target."""
    (found,) = one.snapshot().targets()
    return found


async def test_what_prometheus_sees_is_what_is_judged(tmp_path: Path) -> None:
    """Counts, a restart with fewer positions, a failing scrape and the monitor's own restart: none is miscounted."""
    engine, path = Engine(), str(tmp_path / "specmon.db")
    async with scraped(engine, tmp_path) as url:
        kept = Store(path)
        async with serving(url, kept) as one:
            await until(lambda: value(one, "specmon_drafts") >= 3000)
            assert one.ready()[0]
            (stream,) = one.snapshot().streams()
            assert (stream.target, stream.replica, stream.num_speculative_tokens) == ("p", "0", 4)
            assert only(one).url == url
            engine.restart(positions=2)
            await until(lambda: one.snapshot().streams()[0].num_speculative_tokens == 2)
            assert value(one, "specmon_data_quality_violations") == 0
            engine.down = True
            await until(lambda: only(one).error_reason == "connection")
            assert not only(one).up
            engine.down = False
            await until(lambda: only(one).up)
        before = value(one, "specmon_drafts")
        kept.close()
        counted = engine.drafts
        await until(lambda: engine.drafts >= counted + 3000)
        kept = Store(path)
        async with serving(url, kept) as one:
            await until(lambda: value(one, "specmon_drafts") >= before + 3000)
            assert value(one, "specmon_prometheus_queries") >= 1
            assert value(one, "specmon_prometheus_query_failures") == 0
            assert value(one, "specmon_prometheus_targets") == 1
            assert one.snapshot().streams()[0].num_speculative_tokens == 2
        kept.close()


async def test_a_target_that_is_scraped_is_not_read_twice(tmp_path: Path) -> None:
    """A target of the same name that the monitor scrapes itself stands before the one of the query API."""
    engine, kept = Engine(), Store()
    async with scraped(engine, tmp_path) as url:
        own = Target("p", "http://127.0.0.1:1/metrics", interval=INTERVAL, timeout=INTERVAL / 2)
        async with serving(url, kept, own) as one:
            await until(lambda: value(one, "specmon_prometheus_targets") == 1)
            await until(lambda: only(one).failures.get("connection", 0) >= 3)
            assert only(one).url == own.url
            assert only(one).last_success_at is None
    kept.close()
