"""Raw HTTP servers on free loopback ports, for answers that no well-behaved server would give."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[["Request", asyncio.StreamWriter], Awaitable[None]]

PAGE = b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1.0\n"


class Request:
    """A request as it came."""

    def __init__(self, head: bytes) -> None:
        first, *rest = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = dict(line.lower().split(": ", 1) for line in rest if ": " in line)


class Server:
    """Where a server listens, and what it has been asked."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[Request] = []
        self.connections = 0
        self.open = 0
        self.most_open = 0


@contextlib.asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Answer every request with `handler` until the block ends."""
    server = Server()
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        task = asyncio.ensure_future(_connection(server, handler, reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/metrics"
    try:
        yield server
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _connection(
    server: Server, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        while True:
            request = Request(await reader.readuntil(b"\r\n\r\n"))
            server.requests.append(request)
            server.open += 1
            server.most_open = max(server.most_open, server.open)
            try:
                await handler(request, writer)
                await writer.drain()
            finally:
                server.open -= 1
    except (ConnectionError, asyncio.IncompleteReadError):
        return
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def answer(body: bytes = PAGE, status: str = "200 OK", **headers: str) -> Handler:
    """A handler that always gives this answer; `content_type="x"` is the header Content-Type."""
    lines = {name.replace("_", "-"): value for name, value in headers.items()}
    lines.setdefault("content-length", str(len(body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    async def handle(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)

    return handle
