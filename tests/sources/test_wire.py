"""Answers are read whole, however they are framed and wherever they are cut on their way."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.sources import http, wire
from tests.sources.servers import Request, answer, serving

if TYPE_CHECKING:
    from monitor.core.pages.scrapes import Scrape
    from tests.sources.servers import Handler

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

WHOLE = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab 1\n\n",
    "header in capitals": b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH:6\r\n\r\nab 1\n\n",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 6\r\n\r\nab 1\n\n",
    "one chunk": CHUNKED + b"6\r\nab 1\n\n\r\n0\r\n\r\n",
    "chunks": CHUNKED + b"1\r\na\r\n3;ext=1\r\nb 1\r\n02\r\n\n\n\r\n0\r\n\r\n",
    "trailers": CHUNKED + b"6\r\nab 1\n\n\r\n0\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
    "continue first": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab 1\n\n",
}
ENDED_BY_CLOSING = {
    "HTTP/1.1": b"HTTP/1.1 200 OK\r\n\r\nab 1\n\n",
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nServer: x\r\n\r\nab 1\n\n",
}
WRONG = {
    "chunk without size": CHUNKED + b"\r\nab\r\n",
    "negative chunk": CHUNKED + b"-6\r\nab 1\n\n\r\n",
    "chunk size with underscore": CHUNKED + b"1_0\r\nab 1\n\n\r\n",
    "unknown coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nContent-Length: 7\r\n\r\n",
    "no colon": b"HTTP/1.1 200 OK\r\nwhat\r\n\r\n",
    "HTTP/2": b"HTTP/2 200\r\n\r\n",
    "text": b"hello\r\n\r\n",
    "endless head": b"HTTP/1.1 200 OK\r\n" + b"x" * 70_000,
    "endless trailers": CHUNKED + b"0\r\n" + b"x" * 70_000,
    "endless chunk size": CHUNKED + b"1;" + b"x" * 70_000,
}


async def connect(url: str) -> wire.Connection:
    """A connection to a server of the test."""
    parts = urlsplit(url)
    return await wire.connect(parts.hostname or "", parts.port or 0, None, None)


def sending(raw: bytes, cut: int = 0, *, close: bool = False) -> Handler:
    """A handler that writes these bytes, cut in two with a turn of the event loop in between."""

    async def handle(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(raw[:cut])
        await writer.drain()
        await asyncio.sleep(0.002 if cut else 0)
        writer.write(raw[cut:])
        if close:
            await writer.drain()
            writer.close()

    return handle


async def ask(handler: Handler, limit: int = 100) -> wire.Answer:
    """The answer of a server to one request."""
    async with serving(handler) as server, asyncio.timeout(20):
        connection = await connect(server.url)
        try:
            return await connection.get(REQUEST, limit)
        finally:
            connection.close()
            await asyncio.sleep(0)


class Transport(asyncio.Transport):
    """A transport that leads nowhere, to hand bytes to a connection in chosen pieces."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Forget it."""

    def is_closing(self) -> bool:
        """Never."""
        return False

    def abort(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize("case", WHOLE)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, 160), max_size=12))
def test_an_answer_may_be_cut_anywhere(case: str, cuts: list[int]) -> None:
    """The same answer comes out however its bytes arrive, and the connection can be used again."""

    async def run() -> None:
        connection = wire.Connection()
        connection.connection_made(Transport())
        asking = asyncio.ensure_future(connection.get(REQUEST, 100))
        await asyncio.sleep(0)
        edges = sorted({0, *(cut for cut in cuts if cut < len(WHOLE[case])), len(WHOLE[case])})
        for start, end in itertools.pairwise(edges):
            connection.data_received(WHOLE[case][start:end])
        got = await asking
        assert (got.status, got.body, connection.reusable) == (200, b"ab 1\n\n", True)

    asyncio.run(run())


@pytest.mark.parametrize("case", ENDED_BY_CLOSING)
async def test_a_body_without_length_ends_with_the_connection(case: str) -> None:
    """Old servers say the end by closing."""
    got = await ask(sending(ENDED_BY_CLOSING[case], cut=20, close=True))
    assert got.body == b"ab 1\n\n"


@pytest.mark.parametrize("case", WRONG)
async def test_what_is_no_answer_is_refused(case: str) -> None:
    """Nothing is guessed: the message says what was read."""
    with pytest.raises(wire.NotHttpError, match=r"read .*expected"):
        await ask(sending(WRONG[case]))


@pytest.mark.parametrize(
    "raw",
    [WHOLE["length"][:-1], WHOLE["chunks"][:-2], WHOLE["length"][:20], b""],
    ids=["body", "last chunk", "head", "nothing"],
)
async def test_an_answer_that_is_cut_off_is_no_answer(raw: bytes) -> None:
    """A page that ends early is never taken for a whole one."""
    with pytest.raises(wire.ClosedError) as error:
        await ask(sending(raw, close=True))
    assert error.value.untouched is (raw == b"")


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + bytes(101),
        CHUNKED + b"65\r\n",
        CHUNKED + b"32\r\n" + bytes(50) + b"\r\n33\r\n",
        CHUNKED + b"ffffffffffffff\r\n",
    ],
    ids=["length", "no length", "chunk", "chunks", "huge chunk"],
)
async def test_a_body_beyond_the_limit_is_given_up(raw: bytes) -> None:
    """As soon as it is known, and not after it has been read."""
    with pytest.raises(wire.TooLargeError):
        await ask(sending(raw))


@pytest.mark.parametrize(
    ("raw", "reusable"),
    [
        (WHOLE["length"], True),
        (WHOLE["length"].replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), False),
        (WHOLE["length"].replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (WHOLE["length"] + b"more", False),
        (WHOLE["one chunk"] + b"more", False),
    ],
    ids=["kept", "close", "HTTP/1.0", "more than the length", "more than the chunks"],
)
async def test_a_connection_is_used_again_only_when_both_sides_agree(raw: bytes, *, reusable: bool) -> None:
    """Left-over bytes would be taken for the next answer."""
    async with serving(sending(raw)) as server:
        connection = await connect(server.url)
        assert (await connection.get(REQUEST, 100)).body == b"ab 1\n\n"
        assert connection.reusable is reusable
        connection.close()
        await asyncio.sleep(0)


async def test_a_connection_that_the_server_has_closed_is_replaced() -> None:
    """Servers close resting connections (uvicorn after 5 s): the next scrape does not fail by that."""
    closed = asyncio.Event()

    async def once(request: Request, writer: asyncio.StreamWriter) -> None:
        await answer()(request, writer)
        await writer.drain()
        writer.close()
        closed.set()

    delivered: asyncio.Queue[Scrape] = asyncio.Queue()
    async with serving(once) as server:
        target = http.Target("t", server.url, interval=0.05, timeout=0.045)
        scraper = http.Scraper([target], delivered.put_nowait, clock=lambda: 1.0)
        running = asyncio.create_task(scraper.run())
        async with asyncio.timeout(20):
            scrapes = [await delivered.get() for _ in range(4)]
        await scraper.stop()
        await running
    assert [scrape.failure for scrape in scrapes] == [None] * 4


async def test_a_storm_of_first_answers_is_passed_over() -> None:
    """Thousands of answers before the final one are no deeper a call than one."""
    storm = b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000
    answered = await ask(sending(storm + WHOLE["length"]))
    assert (answered.status, answered.body) == (200, b"ab 1\n\n")
