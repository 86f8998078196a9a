"""Whom a collapse wakes: a whole model once, one replica by its name, a new pod at once; all of it ends.

specmon runs on a fast clock over simulated engines; Prometheus with the shipped rules, Alertmanager with the
example routes and the people are real. Only the waits of rules and routes are seconds instead of minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml
from aiohttp import web

from monitor.core import pipeline, streams
from monitor.core.streams import checkpoint
from monitor.service import service
from monitor.store import Store
from monitor.web import app
from tests import real_engine
from tests.e2e import farm, parts, scene
from tests.e2e.parts import Part
from tests.notify import receivers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from pathlib import Path

    from monitor.web.view import View

MANY, FEW = "org/many", "org/few"
WATCHED_SECONDS = 1500.0
ROUNDS = 5  # of scrapes, after which replicas are compared again
PAGE_SECONDS = 180.0  # on the fast clock
# As the shipped rules and routes wait on the fast clock (1m and 30s there): replicas that fall a scrape before the
# event of their model are held back by it.
RULES_WAIT = {"for": "3s", "keep_firing_for": "4s"}
ROUTES_WAIT = {"group_wait": "2s", "group_interval": "1s"}
PAGES = ("SpecmonFleetCollapseSlowsDecoding", "SpecmonCollapseSlowsDecoding")


async def test_a_model_a_replica_and_a_new_pod_collapse_and_recover(tmp_path: Path) -> None:
    """8 replicas are one page that names model and count, one replica is its own, a new dead pod too; all resolve.

    Nobody hears of a replica of the model that collapsed as a whole, and every text says what the event's page
    says, to the digit.
    """
    clock = farm.FastClock()
    engines = farm.Farm(clock)
    for number in range(8):
        engines.add(f"many-{number}", MANY)
    for number in range(4):
        engines.add(f"few-{number}", FEW)
    people = receivers.Server()
    async with (
        engines.serving(),
        receivers.up(people),
        _watching(engines, clock, tmp_path) as site,
        _telling(site.url, people, tmp_path),
    ):
        await parts.until("the engines are known", lambda: _watched(site, engines))
        assert _pages(people) == {}
        engines.turn(MANY, farm.DEAD)
        engines.turn(FEW, farm.DEAD, "few-1")
        engines.add("few-4", FEW, farm.DEAD)
        site.running.replace(site.plan, engines.targets())
        turned = clock()
        wanted = {("fleet", MANY), ("few-1", FEW), ("few-4", FEW)}
        await people.until(lambda server: _pages(server).keys() >= wanted, 60.0)
        took = clock() - turned
        assert _pages(people).keys() == wanted
        for alert in _pages(people).values():
            await _assert_agrees(site, alert)
        # Alertmanager and Prometheus need real seconds, which the fast clock multiplies.
        assert await _raised_within(site, turned) <= PAGE_SECONDS, took

        engines.turn(MANY, farm.GOOD)
        engines.turn(FEW, farm.GOOD)
        await people.until(lambda server: _ended(server) >= wanted, 90.0)
        told = {alert["labels"].get("target", "fleet") for _, alert in scene.alerts_of(people)}
        assert told <= {"fleet", "few-1", "few-4"}


class _Site:
    """specmon as it runs here."""

    def __init__(self, running: service.Service, plan: pipeline.Plan, url: str) -> None:
        self.running, self.plan, self.url = running, plan, url


@contextlib.asynccontextmanager
async def _watching(engines: farm.Farm, clock: Callable[[], float], folder: Path) -> AsyncIterator[_Site]:
    """Run specmon over the engines, with its pages."""
    plan = pipeline.Plan(limits=streams.Limits(scrape_interval=farm.INTERVAL))
    port = real_engine.free_port()
    url = f"http://127.0.0.1:{port}"
    kept = Store(str(folder / "specmon.db"))
    state = pipeline.begin(plan)
    for scrapes in engines.past(WATCHED_SECONDS):
        pipeline.step(plan, state, scrapes)
    kept.save(checkpoint.freeze(state))
    running = service.Service(plan, engines.targets(), kept, clock=clock, bucket=60.0, external_url=url)
    stop = asyncio.Event()

    def shown() -> View:
        return running.snapshot()

    runner = web.AppRunner(app.application(shown, app.Options(external_url=url)), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    task = asyncio.create_task(running.run(stop))
    try:
        yield _Site(running, plan, url)
    finally:
        stop.set()
        await task
        await runner.cleanup()
        kept.close()


@contextlib.asynccontextmanager
async def _telling(url: str, people: receivers.Server, folder: Path) -> AsyncIterator[None]:
    """Run Prometheus with the rules over specmon, and Alertmanager with the example routes to people."""
    programs = parts.generation("installed")
    alertmanager = _part("alertmanager", programs.alertmanager, folder, "--cluster.listen-address=")
    prometheus = _part("prometheus", programs.prometheus, folder)
    written = {
        "alertmanager": scene.routes(people, ROUTES_WAIT),
        "rules": scene.rules(url, RULES_WAIT),
        "prometheus": scene.prometheus_settings(folder, url, alertmanager.url),
    }
    for name, content in written.items():
        (folder / f"{name}.yml").write_text(yaml.safe_dump(content, sort_keys=False))
    try:
        await alertmanager.start()
        await prometheus.start()
        yield
    finally:
        await prometheus.stop()
        await alertmanager.stop()


def _part(name: str, program: str, folder: Path, *more: str) -> Part:
    port = real_engine.free_port()
    storage = "--storage.path" if name == "alertmanager" else "--storage.tsdb.path"
    command = [
        program,
        f"--config.file={folder / name}.yml",
        f"{storage}={folder / name}",
        f"--web.listen-address=127.0.0.1:{port}",
        *more,
    ]
    return Part(name, command, port, "/-/ready", folder / f"{name}.log")


async def _watched(site: _Site, engines: farm.Farm) -> bool:
    """Every engine was scraped some times since the start, and is judged: against its own first minutes."""
    found = await parts.read(f"{site.url}/api/v1/streams")
    return all(engine.answered >= ROUNDS for engine in engines.engines.values()) and (
        [each["state"] for each in found["streams"]] == ["warming"] * 12
    )


def _pages(server: receivers.Server) -> dict[tuple[str, str], Mapping[str, Any]]:
    """What woke somebody, by whom it is about: "fleet" or a target, and the model."""
    return {
        (alert["labels"].get("target", "fleet"), alert["labels"]["model_name"]): alert
        for status, alert in scene.alerts_of(server, "/pager")
        if status == "firing"
    }


def _ended(server: receivers.Server) -> set[tuple[str, str]]:
    return {
        (alert["labels"].get("target", "fleet"), alert["labels"]["model_name"])
        for status, alert in scene.alerts_of(server, "/pager")
        if status == "resolved"
    }


async def _assert_agrees(site: _Site, alert: Mapping[str, Any]) -> None:
    """A page names who, from what to what, and the factor; the event's own page has the same digits."""
    said, labels = alert["annotations"], alert["labels"]
    assert labels["alertname"] in PAGES
    who = f"{MANY} on 8 replicas" if "target" not in labels else f"{FEW} on {labels['target']} (replica 0)"
    assert who in said["summary"]
    assert who in said["description"]
    assert said["report_url"].startswith(f"{site.url}/report/events/"), said
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{said['report_url']}?format=text") as answer:
            assert answer.status == 200
            page = await answer.text()
        async with session.get(f"{said['report_url']}?format=json") as answer:
            event = await answer.json()
    (levels,) = re.findall(r"MAL ((?:\d+\.\d+ → )?\d+\.\d+)", said["summary"])
    if "→" in levels:
        assert f"MAL {levels}" in page
        (factor,) = re.findall(r"a token takes ([\d.]+×) as long", said["summary"])
        assert f"{factor} as long" in page
        (lost,) = re.findall(r"(\d+ %) of speculation's benefit", said["description"])
        assert f"{lost} of the benefit is lost" in page
    else:
        assert f"{event['after']['mal']:.2f}" == levels
    (since,) = re.findall(r"since ([\d-]+ [\d:]+ UTC)", said["description"])
    assert since in page


async def _raised_within(site: _Site, turned: float) -> float:
    """How long after the change the last event about it was raised, on the fast clock."""
    found = await parts.read(f"{site.url}/api/v1/events?status=open")
    return max(float(event["raised_at"]) - turned for event in found["events"])
