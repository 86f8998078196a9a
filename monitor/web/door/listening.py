"""Listening sockets whose connections are bounded in number and in the time that they may rest.

A connection has seconds to bring a whole request and, once answered, seconds to take the answer and bring
the next one. When all places are taken, the one that has rested longest gives way to the newcomer, so that
a thousand idle connections keep nobody out.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
from typing import TYPE_CHECKING

from aiohttp import web

from monitor.web import app
from monitor.web.door import webfile

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterable

HEAD_SECONDS = 10.0
KEEP_SECONDS = 30.0
MOST_CONNECTIONS = 512
MOST_DESCRIPTORS = 65_536
LAST_ANSWERS_SECONDS = 1.0  # so long requests that are being answered may hold up the end
_SHARE = 4  # of the descriptors that the process may have, one in so many is for connections to us


class TakenError(Exception):
    """An address cannot be listened on; the message says which and why."""


class Connection(web.RequestHandler):
    """aiohttp's protocol of one connection, known to its `Listener`."""

    __slots__ = ("_listener", "deadline")

    def __init__(self, listener: Listener, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=KEEP_SECONDS,
            access_log=None,  # type: ignore[arg-type] # as AppRunner gives it
            lingering_time=1.0,
        )
        self._listener = listener
        self.deadline = loop.time() + HEAD_SECONDS

    def allow(self, seconds: float) -> None:
        """Let the connection live for so long from now."""
        self.deadline = asyncio.get_running_loop().time() + seconds

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place."""
        super().connection_made(transport)
        self._listener.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place back."""
        self._listener.remove(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no HTTP with our headers too, and without repeating it."""
        said = "this is no HTTP request\n" if status == web.HTTPBadRequest.status_code else message
        response: web.StreamResponse = super().handle_error(request, status, exc, said)
        response.headers.update(app.HEADERS)
        return response


class Listener:
    """Makes the connections of an application, and ends those whose time is up."""

    def __init__(self, server: web.Server, most: int) -> None:
        self._server, self._most = server, most
        self._connections: dict[Connection, None] = {}

    def __call__(self) -> Connection:
        """Return the protocol of one more connection."""
        return Connection(self, self._server)

    def add(self, connection: Connection) -> None:
        """Give a place to a connection; where none is left, the one that rests longest loses its own."""
        self._connections[connection] = None
        if len(self._connections) > self._most:
            _end(min(self._connections, key=lambda each: each.deadline))

    def remove(self, connection: Connection) -> None:
        """Take its place from a connection."""
        self._connections.pop(connection, None)

    async def sweep(self) -> None:
        """End connections whose time is up, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1.0)
            for connection in [each for each in self._connections if each.deadline < loop.time()]:
                _end(connection)


@contextlib.asynccontextmanager
async def listening(
    application: web.Application, sockets: Iterable[tuple[str | None, int]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[list[tuple[str, int]]]:
    """Serve until the block ends; gives the addresses listened on. Raises TakenError where one cannot be."""
    runner = web.AppRunner(
        application, access_log=None, handle_signals=False, shutdown_timeout=LAST_ANSWERS_SECONDS
    )
    await runner.setup()
    assert runner.server is not None  # noqa: S101 - set up
    listener = Listener(runner.server, _places())
    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server] = []
    sweeping = asyncio.ensure_future(listener.sweep())
    handshake = webfile.HANDSHAKE_SECONDS if tls is not None else None
    try:
        for host, port in sockets:
            try:
                server = await loop.create_server(
                    listener, host, port, ssl=tls, ssl_handshake_timeout=handshake
                )
            except OSError as error:
                why = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
                raise TakenError(f"cannot listen on {host or ''}:{port}: {why}") from error
            servers.append(server)
        yield [each.getsockname()[:2] for server in servers for each in server.sockets]
    finally:
        for server in servers:
            server.close()
        sweeping.cancel()
        await runner.cleanup()


def _places() -> int:
    """Return how many connections may be open; the process may have as many descriptors as it can get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return (
        MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else max(min(MOST_CONNECTIONS, soft // _SHARE), 8)
    )


def _end(connection: Connection) -> None:
    if connection.transport is not None:
        connection.transport.abort()
