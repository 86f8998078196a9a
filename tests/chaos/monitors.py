"""specmon as a process that can be ended, killed and started again, and the receiver of its notifications."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from tests import real_engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

ROOT = Path(__file__).parents[2]
INTERVAL_SECONDS, TIMEOUT_SECONDS = 0.2, 0.15
END_SECONDS = 5.0  # Kubernetes gives 30, people less
PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Receiver:
    """A webhook; `posts` are the ones that it accepted, with their key."""

    url: str = ""
    status: int = 200
    posts: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        """Answer a post."""
        content = await request.json()
        if self.status == 200:
            self.posts.append((request.headers["Idempotency-Key"], content))
        return web.Response(status=self.status)


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """Have a receiver listen."""
    receiver = Receiver()
    application = web.Application()
    application.router.add_post("/", receiver.take)
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    try:
        yield receiver
    finally:
        await runner.cleanup()


class Monitor:
    """A process in a folder of its own. `took` are the seconds that its ends by SIGTERM took, `logs` all it wrote."""

    def __init__(self, folder: Path, targets: Sequence[tuple[str, str]], receiver: Receiver) -> None:
        folder.mkdir()
        self.store, self._file = str(folder / "specmon.db"), folder / "specmon.yml"
        self.took: list[float] = []
        self._log = folder / "log"
        self._port = real_engine.free_port()
        self._process: asyncio.subprocess.Process | None = None
        self._settings = {
            "targets": [{"name": name, "url": url} for name, url in targets],
            "scrape": {"interval": f"{INTERVAL_SECONDS}s", "timeout": f"{TIMEOUT_SECONDS}s"},
            "store": {"path": self.store},
            "web": {"listen_address": [f"127.0.0.1:{self._port}"]},
            "notify": {"webhooks": [{"name": "hook", "url": receiver.url}], "min_severity": "info"},
        }
        self.write_settings()

    @property
    def pid(self) -> int:
        """The running process's id."""
        assert self._process is not None
        assert self._process.returncode is None, f"ended by itself:\n{self.log[-3000:]}"
        return self._process.pid

    @property
    def log(self) -> str:
        """All that it wrote."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def write_settings(self, *, broken: bool = False) -> None:
        """Write its settings, right or wrong ones."""
        more = {"scrape": {"interval": "soon"}} if broken else {}
        self._file.write_text(json.dumps(self._settings | more), encoding="utf-8")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self.pid
        assert self._process is not None
        self._process.send_signal(number)

    async def start(self) -> None:
        """Start it and wait until it listens."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "monitor", "run", "--config", str(self._file)),
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.pid and not await self._is_alive():  # noqa: ASYNC110 - seen from outside
                await asyncio.sleep(0.05)

    async def end(self) -> None:
        """Send SIGTERM and wait for the end."""
        self.signal(signal.SIGTERM)
        begun = time.monotonic()
        assert self._process is not None
        async with asyncio.timeout(PATIENCE_SECONDS):
            status = await self._process.wait()
        self.took.append(time.monotonic() - begun)
        assert status == 0, f"ended with {status}:\n{self.log[-3000:]}"

    async def kill(self) -> None:
        """Kill it where it runs."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def read(self, path: str) -> Any:
        """Return what one of its pages of JSON says."""
        async with aiohttp.ClientSession() as session, session.get(self._url(path)) as found:
            assert found.status == 200, await found.text()
            return await found.json()

    async def values(self, name: str) -> list[float]:
        """Return the values of one of its metrics, of each series one."""
        async with aiohttp.ClientSession() as session, session.get(self._url("/metrics")) as found:
            lines = (await found.text()).splitlines()
        return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")]

    async def _is_alive(self) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(self._url("/-/healthy")) as found:
                return found.status == 200
        except aiohttp.ClientError:
            return False

    def _url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._port}{path}"
