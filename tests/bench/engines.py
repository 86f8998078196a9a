"""A process that serves the metrics pages of many busy engines: `python -m tests.bench.engines PORT`.

Each path `/0/metrics`, `/1/metrics`, … is an engine. Its counters grow with every request, on a real page.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import ClassVar

from tests.bench.pages import real_page

PAGES = 256
GROWING = re.compile(
    rb"^(vllm:(?:spec_decode_\w+|generation_tokens|inter_token_latency_seconds|time_to_first_token_seconds|"
    rb"iteration_tokens_total|request_\w+)_(?:total|sum|count)\{[^}]*\}) (\S+)$",
    re.MULTILINE,
)


def pages() -> list[bytes]:
    """Return the answers of an engine in their order: a real page whose counters have grown by a percent each."""
    body = real_page()
    answers = []
    for number in range(PAGES):
        factor = 1 + number / 100
        grown = GROWING.sub(lambda found, by=factor: b"%s %r" % (found[1], float(found[2]) * by), body)  # type: ignore[misc]
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=1.0.0; charset=utf-8\r\nContent-Length: %d\r\n\r\n"
        answers.append(head % len(grown) + grown)
    return answers


class Engines(asyncio.Protocol):
    """One connection; the request's path says which engine is asked."""

    answers: ClassVar[list[bytes]] = []
    asked: ClassVar[dict[bytes, int]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to answer on."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request with the engine's next page."""
        for request in data.split(b"\r\n\r\n")[:-1]:
            path = request.split(b" ", 2)[1]
            number = self.asked.get(path, 0)
            self.asked[path] = min(number + 1, PAGES - 1)
            self.transport.write(self.answers[number])


async def serve(port: int) -> None:
    """Serve until killed; prints the port when ready."""
    Engines.answers = pages()
    server = await asyncio.get_running_loop().create_server(Engines, "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
