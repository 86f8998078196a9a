"""One scene: an engine, specmon, Prometheus with our rules, two Alertmanagers with our example routes, and people.

Told by Prometheus:   engine → specmon → rules in Prometheus → Alertmanager `ruled` → its webhooks
Told directly:        engine → specmon → Alertmanager `direct` → its webhooks, and specmon → a plain webhook
"""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from tests import real_engine
from tests.e2e import parts
from tests.e2e.parts import ROOT, Engine, Part
from tests.notify import receivers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from pathlib import Path

    from tests.e2e.parts import Generation

TARGET = "engine-0"
RULES = ROOT / "alerts" / "generated" / "specmon.rules.yaml"
ROUTES = ROOT / "alerts" / "alertmanager.example.yml"
SITE = "https://specmon.example.com"  # of alerts/site.yaml
RESEND = "2s"
# inhibits the ticket that people are followed by here, where a busy machine lets it come first
PAGE = "SpecmonCollapseSlowsDecoding"
SHORT = {"for": "1s", "keep_firing_for": "4s"}  # instead of minutes
SOON = {"group_wait": "1s", "group_interval": "1s"}  # instead of half a minute and more


@dataclass(slots=True)
class Scene:
    """Everything that runs; `ruled`, `direct` and `plain` are the people at the three ends."""

    engine: Engine
    specmon: Part
    prometheus: Part
    ruled_alertmanager: Part
    direct_alertmanager: Part
    ruled: receivers.Server = field(default_factory=receivers.Server)
    direct: receivers.Server = field(default_factory=receivers.Server)
    plain: receivers.Server = field(default_factory=receivers.Server)

    async def stop(self) -> None:
        """End all of it."""
        for part in (self.specmon, self.prometheus, self.ruled_alertmanager, self.direct_alertmanager):
            await part.stop()
        await self.engine.stop()

    async def events(self, wanted: str) -> list[dict[str, Any]]:
        """The events of specmon with this status."""
        found = await parts.read(f"{self.specmon.url}/api/v1/events?status={wanted}")
        return list(found["events"]) if found else []

    async def watched_seconds(self) -> float:
        """How long specmon has watched the engine's drafts."""
        found = await parts.read(f"{self.specmon.url}/api/v1/streams")
        streams = found["streams"] if found else []
        return float(streams[0]["estimate"]["window_seconds"] or 0) if streams else 0.0


def alerts_of(server: receivers.Server, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every alert that an Alertmanager told people at `path`: its status and the whole alert, in order."""
    return [
        (alert["status"], alert)
        for post in server.posts
        if post.path.startswith(path)
        for alert in post.content["alerts"]
    ]


@contextlib.asynccontextmanager
async def playing(programs: Generation, folder: Path) -> AsyncIterator[Scene]:
    """Start everything but the engine's requests, in the order in which they need each other."""
    scene = _made(programs, folder)
    async with receivers.up(scene.ruled), receivers.up(scene.direct), receivers.up(scene.plain):
        _write(scene, folder)
        try:
            for part in (scene.ruled_alertmanager, scene.direct_alertmanager, scene.prometheus):
                await part.start()
            yield scene
        finally:
            await scene.stop()


def _made(programs: Generation, folder: Path) -> Scene:
    alertmanagers: list[Part] = []
    for name in ("ruled", "direct"):
        port = real_engine.free_port()
        command = [
            programs.alertmanager,
            f"--config.file={folder / name}.yml",
            f"--storage.path={folder / name}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        alertmanagers.append(Part(f"alertmanager {name}", command, port, "/-/ready", folder / f"{name}.log"))
    port = real_engine.free_port()
    command = [
        programs.prometheus,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    prometheus = Part("prometheus", command, port, "/-/ready", folder / "prometheus.log")
    command = [sys.executable, "-m", "monitor", "run", "--config", str(folder / "specmon.yml")]
    specmon = Part("specmon", command, real_engine.free_port(), "/-/ready", folder / "specmon.log")
    ruled, direct = alertmanagers
    return Scene(Engine(folder), specmon, prometheus, ruled, direct)


def _write(scene: Scene, folder: Path) -> None:
    written: Mapping[str, object] = {
        "ruled.yml": routes(scene.ruled),
        "direct.yml": routes(scene.direct),
        "rules.yml": rules(scene.specmon.url, without=PAGE),
        "prometheus.yml": prometheus_settings(folder, scene.specmon.url, scene.ruled_alertmanager.url),
        "specmon.yml": _settings(scene, folder),
    }
    for name, content in written.items():
        (folder / name).write_text(yaml.safe_dump(content, sort_keys=False))


def _settings(scene: Scene, folder: Path) -> dict[str, object]:
    return {
        "targets": [
            {
                "url": f"http://127.0.0.1:{scene.engine.port}/metrics",
                "name": TARGET,
                "labels": {"team": "search"},
            }
        ],
        "scrape": {"interval": "1s"},
        "web": {"listen_address": f"127.0.0.1:{scene.specmon.port}", "external_url": scene.specmon.url},
        "store": {"path": str(folder / "specmon.db")},
        "notify": {
            "alertmanagers": [{"url": scene.direct_alertmanager.url, "name": "direct"}],
            "webhooks": [{"url": f"{scene.plain.url}/hook", "name": "plain"}],
            "resend_interval": RESEND,
            "runbooks_url": "https://example.com/runbooks",
        },
    }


def prometheus_settings(folder: Path, specmon: str, alertmanager: str) -> dict[str, object]:
    """Prometheus with the rules in `folder`, over a specmon and with an Alertmanager at these addresses."""

    def at(url: str) -> list[dict[str, list[str]]]:
        return [{"targets": [url.removeprefix("http://")]}]

    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(folder / "rules.yml")],
        "alerting": {"alertmanagers": [{"static_configs": at(alertmanager)}]},
        "scrape_configs": [{"job_name": "specmon", "static_configs": at(specmon)}],
    }


def rules(specmon: str, times: Mapping[str, str] = SHORT, without: str = "") -> object:
    """The generated rules but for one, with the times of a test, and links to the specmon at this address."""
    found = yaml.safe_load(RULES.read_text().replace(f"{SITE}/report", f"{specmon}/report"))
    for group in found["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert") != without]
        for rule in group["rules"]:
            rule.update({name: value for name, value in times.items() if name in rule})
    return found


def routes(people: receivers.Server, times: Mapping[str, str] = SOON) -> object:
    """The example configuration of Alertmanager with the times of a test and the receivers of this scene."""
    found = yaml.safe_load(ROUTES.read_text())
    for route in _every_route(found["route"]):
        route.update({name: value for name, value in times.items() if name in route})
    for receiver in found["receivers"]:
        for hook in receiver["webhook_configs"]:
            hook["url"] = f"{people.url}/{receiver['name']}"
    return found


def _every_route(route: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield route
    for inner in route.get("routes", ()):
        yield from _every_route(inner)
