"""The real parts of the end-to-end tests as child processes on free loopback ports, ended by their own ids."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
import pytest

from tests import real_engine
from tests.alerts import tools

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

Found = TypeVar("Found")

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.1
NEWER = "NEWER_GENERATION"
CLIENTS = 2
TOKENS = 64
ERRORS = (aiohttp.ClientError, TimeoutError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Generation:
    """Where one generation of Prometheus and Alertmanager is."""

    prometheus: str
    alertmanager: str


def generation(name: str) -> Generation:
    """The programs that are installed, or those in the folder that NEWER_GENERATION names; skips by name."""
    if name == "installed":
        return Generation(
            tools.program("prometheus"), tools.program("prometheus-alertmanager", "alertmanager")
        )
    folder = os.environ.get(NEWER, "")
    found = [
        shutil.which(program, path=f"{folder}/usr/bin")
        for program in ("prometheus", "prometheus-alertmanager")
    ]
    if not folder or None in found:
        pytest.skip(f"{NEWER} names no folder with them; `python -m tests.e2e.newer FOLDER` makes one")
    return Generation(*[program or "" for program in found])


@dataclass(slots=True)
class Part:
    """A program that can be started, stopped and started again at its port; `ready` is the page that says so."""

    name: str
    command: Sequence[str]
    port: int
    ready: str
    log: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it and wait until it answers."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("SPECMON_")}
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, cwd=ROOT, env=clean, stdout=output, stderr=output
            )
        await until(f"{self.name} is ready", self._answers)

    async def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        process, self.process = self.process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _answers(self) -> bool:
        if self.process is not None and self.process.returncode is not None:
            pytest.fail(f"{self.name} ended: {self.log.read_text(errors='replace')[-3000:]}")
        return await status(self.url + self.ready) == 200


class Engine:
    """llama.cpp's server with requests that keep coming; its acceptance is turned by a restart at its port."""

    def __init__(self, folder: Path) -> None:
        self.port = real_engine.free_port()
        self._model = folder / "noise.gguf"
        self._serving = contextlib.ExitStack()
        self._clients: list[asyncio.Task[None]] = []
        real_engine.write_model(self._model, seed=1)

    async def turn(self, rates: Sequence[float]) -> None:
        """Serve with these marginal acceptance rates from now on."""
        await asyncio.to_thread(self._serving.close)
        entered = real_engine.serving(self._model, rates, self.port)
        await asyncio.to_thread(self._serving.enter_context, entered)
        if not self._clients:
            self._clients = [asyncio.create_task(self._ask(number)) for number in range(CLIENTS)]

    async def stop(self) -> None:
        """End the requests and the server."""
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await asyncio.to_thread(self._serving.close)

    async def _ask(self, client: int) -> None:
        # The server closes a connection after some requests, and a request must not meet that moment.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", connector=connector) as session:
            number = client
            while True:
                number += CLIENTS
                body = {"prompt": f"{number} ", "n_predict": TOKENS, "ignore_eos": True, "seed": number}
                with contextlib.suppress(*ERRORS):
                    async with session.post("/completion", json=body) as answer:
                        await answer.read()
                await asyncio.sleep(0.02)  # room for the others on two cores


async def until(what: str, look: Callable[[], Awaitable[Found]], seconds: float = PATIENCE_SECONDS) -> Found:
    """Look until something true is found; fail with what was looked for where it is not in time."""
    found: Found | None = None
    try:
        async with asyncio.timeout(seconds):
            while not (found := await look()):  # noqa: ASYNC110 - other processes set no event of ours
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        pytest.fail(f"not within {seconds:g} s: {what}")
    assert found is not None
    return found


async def status(url: str) -> int:
    """The status of a page, 0 where nobody answers."""
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status
    except ERRORS:
        return 0


async def read(url: str) -> Any:
    """A page as JSON, an empty list where nobody answers or there is none."""
    try:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return await answer.json() if answer.status == 200 else []
    except ERRORS:
        return []
