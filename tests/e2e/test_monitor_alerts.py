"""Alerts about specmon itself, on the pages of a running one that meets each trouble, gets over it, and ends.

The pages are read from the process while its receiver, its query API, its store and its settings fail and
work again; each page that is read stands for a minute, and promtool plays the rules over them.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING

import aiohttp
import yaml

from tests import real_engine
from tests.alerts import recording, test_situations, tools
from tests.e2e import farm, parts
from tests.e2e.parts import Part
from tests.notify import receivers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

WELL_MINUTES, MENDED_MINUTES, GONE_MINUTES = 20, 60, 20
RECEIVER = "people"
FAILING: Mapping[str, Mapping[str, str]] = {
    "SpecmonConfigReloadFailed": {},
    "SpecmonNotificationsFailing": {"receiver": RECEIVER},
    "SpecmonQueriesFailing": {},
    "SpecmonStoreNotWriting": {},
}
# What must have failed how often by the middle of the minutes in which all fails. The store tries again seldom.
STORE = "specmon_store_write_failures_total"
GROWN = {"specmon_notify_failures_total": 3.0, "specmon_prometheus_query_failures_total": 3.0, STORE: 1.0}
FAILING_MINUTES = 40
STORE_ALERT_MINUTES = 8  # after one failure, of which the rule knows for a quarter of an hour
LARGEST_FILE = 16384  # bytes: above the log, below the store


async def test_alerts_about_specmon_itself(tmp_path: Path) -> None:
    """Four troubles have their alerts while they last; once it has ended it is down and absent, and no watchdog barks."""
    engines = farm.Farm(time.time)
    engines.add("engine-0", "org/model", farm.DEAD)
    people = receivers.Server()
    async with engines.serving(), receivers.up(people):
        scene = _Scene(tmp_path, people, engines.port)
        try:
            pages = await scene.played()
        finally:
            await scene.stop()
    told: Mapping[str, Mapping[str, Mapping[str, str]]] = {
        "well": {"SpecmonWatchdog": {}},
        "failing": {"SpecmonWatchdog": {}, **FAILING},
        "mended": {"SpecmonWatchdog": {}},
        "gone": {"SpecmonDown": {}, "SpecmonAbsent": {}},
    }
    checks, minute = [], 0
    for phase, open_ in told.items():
        minute += len(pages[phase])
        for alert in test_situations.OF_THE_MONITOR:
            when = minute - 1
            if (phase, alert) == ("failing", "SpecmonStoreNotWriting"):
                when = WELL_MINUTES + _first_failure(pages["failing"]) + STORE_ALERT_MINUTES
            checks.append(
                {"eval_time": f"{when}m", "alertname": alert, "exp_alerts": _expected(alert, open_)}
            )
    tools.play("itself", _series([page for part in pages.values() for page in part]), checks, tmp_path)


def _first_failure(pages: list[str]) -> int:
    """The first of the pages that says that the store could not be written."""
    return next(n for n, page in enumerate(pages) if _value(page, STORE) > 0.0)


def _expected(alert: str, open_: Mapping[str, Mapping[str, str]]) -> list[Mapping[str, object]]:
    if alert not in open_:
        return []
    found = test_situations.ALERTS[alert]
    labels = {"severity": found.severity, "scope": found.scope, "trouble": found.trouble}
    whole = alert in ("SpecmonWatchdog", "SpecmonAbsent")
    return [{"exp_labels": {**labels, **({} if whole else test_situations.SCRAPED), **open_[alert]}}]


def _series(pages: list[str]) -> Iterator[Mapping[str, str]]:
    """Yield the series of a page a minute, and Prometheus's own: whether anybody answered."""
    kept = recording.of_pages(((n, page) for n, page in enumerate(pages) if page), len(pages))
    for series, values in kept.items():
        yield {"series": series, "values": values}
    up = " ".join("1" if page else "0" for page in pages)
    yield {"series": f"up{{{recording.SCRAPED}}}", "values": up}


class _Scene:
    """A specmon over one engine with a dead draft, of which it tells people, and all that it depends on."""

    def __init__(self, folder: Path, people: receivers.Server, engine_port: int) -> None:
        self._folder, self._people = folder, people
        self._settings = folder / "specmon.yml"
        port = real_engine.free_port()
        (folder / "prometheus.yml").write_text("{}")
        command = [
            parts.generation("installed").prometheus,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'prometheus'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self._prometheus = Part("prometheus", command, port, "/-/ready", folder / "prometheus.log")
        port = real_engine.free_port()
        command = [sys.executable, "-m", "monitor", "run", "--config", str(self._settings)]
        self._specmon = Part("specmon", command, port, "/-/ready", folder / "specmon.log")
        self._written = yaml.safe_dump(
            {
                "targets": [{"url": f"http://127.0.0.1:{engine_port}/engine-0/metrics", "name": "engine-0"}],
                "scrape": {"interval": "1s"},
                "prometheus": {"url": self._prometheus.url},
                "web": {"listen_address": f"127.0.0.1:{port}"},
                "store": {"path": str(folder / "specmon.db")},
                "notify": {"alertmanagers": [{"url": people.url, "name": RECEIVER}], "resend_interval": "2s"},
            }
        )

    async def stop(self) -> None:
        """End what runs."""
        await self._specmon.stop()
        await self._prometheus.stop()

    async def played(self) -> Mapping[str, list[str]]:
        """Return the pages of each phase, a minute each, "" where nobody answers."""
        self._settings.write_text(self._written)
        await self._prometheus.start()
        await self._specmon.start()
        await self._people.until(lambda server: bool(server.accepted), 60.0)
        found = {"well": [await self._page()] * WELL_MINUTES}
        await self._prometheus.stop()
        self._people.status = 500
        self._reload("targets: 5")
        with self._disk_full():
            found["failing"] = await self._failing(found["well"][0])
        self._people.status = 200
        await self._prometheus.start()
        self._reload(self._written)
        told = len(self._people.accepted)
        await parts.until("all works again", lambda: self._works(told))
        found["mended"] = [await self._page()] * MENDED_MINUTES
        await self._specmon.stop()
        found["gone"] = [await self._page()] * GONE_MINUTES
        return found

    async def _failing(self, before: str) -> list[str]:
        """Return what the pages said while all failed, as so many minutes."""
        pages: list[str] = []

        async def enough() -> bool:
            pages.append(await self._page())
            middle = pages[len(pages) // 2]
            grown = all(_value(middle, name) - _value(before, name) >= least for name, least in GROWN.items())
            return grown and len(pages) >= FAILING_MINUTES

        await parts.until("everything has failed for a while", enough)
        return [pages[n * len(pages) // FAILING_MINUTES] for n in range(FAILING_MINUTES)]

    async def _works(self, told: int) -> bool:
        page = await self._page()
        return (
            len(self._people.accepted) > told
            and _value(page, "specmon_config_last_reload_successful") == 1.0
            and _value(page, "specmon_notify_queue_length") == 0.0
        )

    async def _page(self) -> str:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self._specmon.url}/metrics") as answer,
            ):
                return await answer.text()
        except aiohttp.ClientError:
            return ""

    def _reload(self, settings: str) -> None:
        self._settings.write_text(settings)
        assert self._specmon.process is not None
        self._specmon.process.send_signal(signal.SIGHUP)

    @contextlib.contextmanager
    def _disk_full(self) -> Iterator[None]:
        """Let the process write no file beyond its first pages, as a full disk would."""
        assert self._specmon.process is not None
        _, most = resource.prlimit(self._specmon.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._specmon.process.pid, resource.RLIMIT_FSIZE, (LARGEST_FILE, most))
        yield
        resource.prlimit(self._specmon.process.pid, resource.RLIMIT_FSIZE, (most, most))


def _value(page: str, name: str) -> float:
    """The sum of a series' values over the labels that are not given, 0 where there is none."""
    lines = [line for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
