"""The running service against a real HTTP engine, and `specmon run` as a process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from aiohttp import web

from monitor import notify
from monitor.core import pipeline, streams
from monitor.core.streams.pinned import Pinned
from monitor.metrics import textformat
from monitor.service import service
from monitor.sources.targets import Target
from monitor.store import Store
from monitor.web import fields
from tests import made, real_engine
from tests.notify import receivers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

ROOT = Path(__file__).parents[1]
INTERVAL = 0.2
PATIENCE = 60.0
FASTER = 600.0
"""Times that a clock of a test goes as fast as real time."""


class Engine:
    """An engine whose counters grow with every look at its page; `acceptance` may be changed meanwhile."""

    def __init__(self) -> None:
        self.acceptance = 0.8
        self.drafts = 0
        self.accepted = [0.0, 0.0, 0.0]
        self.asked: list[str] = []
        self.looked: Callable[[], None] = lambda: None
        self.broken = False

    async def page(self, request: web.Request) -> web.Response:
        """Answer with the page after another 4000 drafts."""
        self.asked.append(request.path)
        self.looked()
        if self.broken:
            raise web.HTTPInternalServerError
        self.drafts += 4000
        kept = 4000.0
        for position in range(3):
            kept = round(kept * self.acceptance)
            self.accepted[position] += kept
        tokens = {"generation_tokens_total": float(self.drafts + sum(self.accepted))}
        body = made.page(self.accepted, drafts=self.drafts, more=tokens, started_at=1.0e9)
        return web.Response(body=body, content_type="text/plain")

    async def version(self, request: web.Request) -> web.Response:
        """Answer as vLLM does."""
        self.asked.append(request.path)
        return web.json_response({"version": "0.32.0"})


@contextlib.asynccontextmanager
async def listening(engine: Engine) -> AsyncIterator[str]:
    """Serve an engine on a free port; the URL of its page."""
    app = web.Application()
    app.router.add_get("/metrics", engine.page)
    app.router.add_get("/version", engine.version)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def running(
    url: str, kept: Store, plan: pipeline.Plan | None = None, clock: Callable[[], float] = time.time
) -> AsyncIterator[service.Service]:
    """Run a service on one target until the block ends."""
    plan = plan or pipeline.Plan(limits=streams.Limits(scrape_interval=INTERVAL))
    target = Target("engine", url, interval=INTERVAL, timeout=INTERVAL / 2)
    made_service = service.Service(plan, [target], kept, clock=clock, bucket=1.0)
    stop = asyncio.Event()
    task = asyncio.create_task(made_service.run(stop))
    try:
        yield made_service
    finally:
        stop.set()
        await asyncio.wait_for(task, PATIENCE)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - what is waited for is seen from outside
            await asyncio.sleep(INTERVAL / 4)


def drafts(one: service.Service) -> float:
    """The drafts that the service has counted."""
    values = [
        value
        for family in one.snapshot().families()
        if family.name == "specmon_drafts"
        for column in family.columns
        for value in np.asarray(column.values).tolist()
    ]
    return float(sum(values))


async def test_a_restart_continues_the_counts(tmp_path: Path) -> None:
    """After a restart the totals go on where the last save stood, the time between included, and nothing is raised."""
    engine, path = Engine(), str(tmp_path / "specmon.db")
    async with listening(engine) as url:
        kept = Store(path)
        async with running(url, kept) as first:
            await until(lambda: drafts(first) >= 20_000)
        before = drafts(first)
        kept.close()
        engine.drafts += 100_000
        kept = Store(path)
        async with running(url, kept) as second:
            assert drafts(second) == before
            await until(lambda: drafts(second) > before)
            assert drafts(second) >= before + 100_000
            assert second.snapshot().events() == []
        kept.close()


async def test_an_event_reaches_the_store_and_the_pages() -> None:
    """A draft that dies is in the store, on the stream's page and among the metrics within seconds."""
    engine, kept = Engine(), Store()
    async with listening(engine) as url, running(url, kept) as one:
        await until(lambda: drafts(one) >= 40_000)
        engine.acceptance = 0.0
        await until(lambda: bool(kept.events(status="open")))
        stream = one.snapshot().streams()[0]
        assert (stream.state, stream.open_event is not None) == ("collapsed", True)
        names = {
            family.name for family in one.snapshot().families() if any(len(c.blocks) for c in family.columns)
        }
        assert "specmon_change_active" in names
    kept.close()


async def test_a_stream_below_what_is_pinned_is_an_event_everywhere() -> None:
    """From its first page on below the reference: the event is in the store, on the page and among the metrics."""
    began, kept = time.time(), Store()
    pin = Pinned(3.6, 0.1, "the benchmark")
    plan = pipeline.Plan(
        limits=streams.Limits(scrape_interval=INTERVAL * FASTER), pinned={made.MODEL_NAME: (pin,)}
    )

    def clock() -> float:
        """Real time, only faster."""
        return began + (time.time() - began) * FASTER

    async with listening(Engine()) as url, running(url, kept, plan, clock) as one:
        await until(lambda: bool(kept.events(status="open")))
        (event,) = kept.events(status="open")
        assert (event.kind, event.before.mal) == ("below_reference", 3.6)
        shot = one.snapshot()
        (stream,) = shot.streams()
        assert fields.record(shot.closeup(stream.id), "pinned")["outcome"] == "below"
        assert 'kind="below_reference"' in textformat.render(shot.families()).decode()
    kept.close()


async def test_an_event_soon_after_a_reload_is_not_told_as_over() -> None:
    """Receivers changed just before an event opens: it is told as open, once, and not as over."""
    engine, kept, hook = Engine(), Store(), receivers.Server()
    async with receivers.up(hook), listening(engine) as url, running(url, kept) as one:
        plan = notify.NotifyPlan((notify.Receiver("webhook", "hook", hook.url),))
        others = itertools.cycle((plan, dataclasses.replace(plan, resend_seconds=30.0)))
        engine.looked = lambda: one.notify(next(others))
        await until(lambda: drafts(one) >= 40_000)
        engine.acceptance = 0.0
        await until(lambda: bool(hook.accepted))
        engine.looked = lambda: None
        await until(lambda: drafts(one) >= engine.drafts - 8_000 and kept.notices() != [])
        engine.acceptance = 0.8
        await until(lambda: kept.events(status="open") == [])
        await hook.until(lambda found: found.accepted[-1].content["status"] == "closed")
    kept.close()
    told = [(post.content["id"], post.content["kind"], post.content["status"]) for post in hook.accepted]
    assert len(told) == len(set(told))
    assert [status for *_, status in told] == sorted((status for *_, status in told), reverse=True)


async def test_the_engines_version_is_asked_once_and_told() -> None:
    """The version page is asked once in a process life and its answer becomes the stream's version."""
    engine, kept = Engine(), Store()
    async with listening(engine) as url, running(url, kept) as one:
        await until(lambda: any(stream.engine_version == "0.32.0" for stream in one.snapshot().streams()))
        await until(lambda: drafts(one) >= 40_000)
        assert engine.asked.count("/version") == 1
    kept.close()


async def test_ready_only_while_the_loops_run() -> None:
    """A service that does not run yet, or no more, is not ready and says what is missing."""
    engine, kept = Engine(), Store()
    async with listening(engine) as url:
        async with running(url, kept) as one:
            await until(lambda: one.ready()[0])
        assert one.ready() == (False, "not running: notify, save, scrape, step")
    kept.close()


async def test_a_failing_target_is_logged_once_and_once_more_when_it_is_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says when a target has no good page, why, and when it has one again; not at every scrape."""
    caplog.set_level("INFO", "monitor.service")
    engine, kept = Engine(), Store()
    async with listening(engine) as url, running(url, kept) as one:
        engine.broken = True
        await until(lambda: one.snapshot().targets()[0].failures.get("http_status", 0) >= 3)
        engine.broken = False
        await until(lambda: "a good page again" in caplog.messages)
        assert caplog.messages.count("no good page") == 1
        (failed,) = [vars(record) for record in caplog.records if record.message == "no good page"]
        assert (failed["target"], failed["reason"]) == ("engine", "http_status")
    kept.close()


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `specmon run` and give its report's address once it is printed."""
    command = [sys.executable, "-m", "monitor", "run", "--web.listen-address", "127.0.0.1:0", *arguments]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SPECMON_")}
    with subprocess.Popen(
        command, cwd=ROOT, env=clean, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        try:
            assert started.stdout is not None
            yield started, started.stdout.readline().split()[-1].removesuffix("/report")
        finally:
            started.send_signal(signal.SIGTERM)
            started.wait(PATIENCE)


def read(url: str) -> str:
    """What a URL answers, errors included."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - ours
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.read().decode())


def waited_for(condition: Callable[[], bool]) -> None:
    """Return once a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_run_says_where_the_report_is_and_ends_on_sigterm() -> None:
    """The first line of output ends in the report's address; SIGTERM ends the process with 0."""
    with process(
        "--target", f"http://127.0.0.1:{real_engine.free_port()}/metrics", "--scrape.interval", "0.5s"
    ) as (
        started,
        address,
    ):
        assert json.loads(read(f"{address}/api/v1/streams"))["streams"] == []
        waited_for(lambda: "no connection" in read(f"{address}/targets?format=json"))
        started.send_signal(signal.SIGTERM)
        assert started.wait(PATIENCE) == 0


def test_run_without_targets_is_refused() -> None:
    """Without a target the command says how to give one, and exits with 2."""
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "run"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("specmon: no target to watch: expected --target URL, ")


def test_a_taken_port_is_one_clear_line() -> None:
    """A port that somebody else listens on ends the command with 2 and says which."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "monitor", "run", "--target", "http://127.0.0.1:1/metrics"]
        done = subprocess.run(
            [*command, "--web.listen-address", f"127.0.0.1:{port}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize(
    "wrong", ["targts: []\n", "", "targets: [\n"], ids=["misspelt", "emptied", "cut off"]
)
@pytest.mark.parametrize("good", [True, False], ids=["good", "bad"])
def test_sighup_reads_the_settings_again(tmp_path: Path, good: bool, wrong: str) -> None:  # noqa: FBT001
    """SIGHUP takes new targets; where the file is wrong now, the old ones stay and a metric says so."""
    file = tmp_path / "specmon.yml"
    file.write_text("targets: ['http://127.0.0.1:1/metrics']\n", encoding="utf-8")
    with process("--config", str(file)) as (started, address):
        new = "targets: ['http://127.0.0.1:1/metrics', 'http://127.0.0.1:2/metrics']\n"
        file.write_text(new if good else wrong, encoding="utf-8")
        started.send_signal(signal.SIGHUP)
        expected = "127.0.0.1:2" if good else "specmon_config_last_reload_successful 0"
        page = "/targets?format=json" if good else "/metrics"
        waited_for(lambda: expected in read(f"{address}{page}"))
        assert ("127.0.0.1:2" in read(f"{address}/targets?format=json")) is good


def test_settings_that_wait_for_a_restart_are_named_and_not_shown_as_in_force(tmp_path: Path) -> None:
    """A reload goes on with the routes that it has, and the log names what only a restart takes up."""
    file = tmp_path / "specmon.yml"
    file.write_text("targets: ['http://127.0.0.1:1/metrics']\n", encoding="utf-8")
    with process("--config", str(file)) as (started, address):
        assert started.stderr is not None
        file.write_text(
            "targets: ['http://127.0.0.1:2/metrics']\nweb: {route_prefix: /moved}\n", encoding="utf-8"
        )
        started.send_signal(signal.SIGHUP)
        waited_for(lambda: "127.0.0.1:2" in read(f"{address}/targets?format=json"))
        assert "route_prefix: ''" in read(f"{address}/config?format=text")
        started.send_signal(signal.SIGTERM)
        assert "settings=web.route_prefix" in started.stderr.read()
