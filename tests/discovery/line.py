"""A connection to an API server that a test can cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.discovery.cluster import Cluster


class Line:
    """Passes bytes on in both directions for as long as it is `up`."""

    def __init__(self, api: Cluster) -> None:
        self.up = True
        self._port = int(api.url.rpartition(":")[2])
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a connection, or refuse it."""
        if not self.up:
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._pass_on(reader, writer))
        self._tasks.add(task)

    def cut(self) -> None:
        """Break all connections and take no new ones."""
        self.up = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def end(self) -> None:
        """Break all connections and return when that is done."""
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, there_writer}
        await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
    writer.close()


@contextlib.asynccontextmanager
async def to(api: Cluster) -> AsyncIterator[tuple[Line, str]]:
    """A line to the API server, and the path of a kubeconfig that leads over it."""
    line = Line(api)
    server = await asyncio.start_server(line.connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield line, _kubeconfig(api, port)
    finally:
        server.close()
        await line.end()


def _kubeconfig(api: Cluster, port: int) -> str:
    content = json.loads(Path(api.kubeconfig()).read_text())
    content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
    file = api.folder / f"line-{port}.kubeconfig"
    file.write_text(json.dumps(content))
    return str(file)
