"""Answers are read whole, however they are framed and wherever they are cut on their way."""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.sources import http
from monitor.sources.client import Client
from tests.sources.servers import Request, answer, serving

if TYPE_CHECKING:
    from monitor.core.pages.scrapes import Scrape
    from tests.sources.servers import Handler

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
    "more than the length": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab 1\n\nmore",
}


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


async def ask(handler: Handler, limit: int = 100) -> Scrape:
    """What comes of one look at a server."""
    async with serving(handler) as server, asyncio.timeout(20):
        return await http.fetch_once(http.Target("t", server.url, body_limit=limit), lambda: 1.0)


def pieces(raw: bytes, cuts: list[int]) -> Handler:
    """A handler that sends the answer in pieces, each a packet of its own."""
    edges = sorted({0, *(cut for cut in cuts if cut < len(raw)), len(raw)})

    async def handle(_: Request, writer: asyncio.StreamWriter) -> None:
        for start, end in itertools.pairwise(edges):
            writer.write(raw[start:end])
            await writer.drain()
            await asyncio.sleep(0)

    return handle


@pytest.mark.parametrize("case", WHOLE)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 160), max_size=12))
def test_an_answer_may_be_cut_anywhere(case: str, cuts: list[int]) -> None:
    """The same page comes out however its bytes arrive."""
    assert asyncio.run(ask(pieces(WHOLE[case], cuts))).body == b"ab 1\n\n"


@pytest.mark.parametrize("case", ENDED_BY_CLOSING)
async def test_a_body_without_length_ends_with_the_connection(case: str) -> None:
    """Old servers say the end by closing."""
    got = await ask(sending(ENDED_BY_CLOSING[case], cut=20, close=True))
    assert got.body == b"ab 1\n\n"


@pytest.mark.parametrize("case", WRONG)
async def test_what_is_no_answer_is_refused(case: str) -> None:
    """Nothing is guessed, and what never ends is given up before the deadline: the message says what was read."""
    scrape = await ask(sending(WRONG[case]))
    assert scrape.failure is not None
    assert scrape.failure.reason in ("connection", "encoding")


@pytest.mark.parametrize(
    "raw",
    [WHOLE["length"][:-1], WHOLE["chunks"][:-2], WHOLE["length"][:20], b""],
    ids=["body", "last chunk", "head", "nothing"],
)
async def test_an_answer_that_is_cut_off_is_no_answer(raw: bytes) -> None:
    """A page that ends early is never taken for a whole one."""
    scrape = await ask(sending(raw, close=True))
    assert scrape.failure is not None
    assert scrape.failure.reason == "connection"
    assert scrape.failure.detail.endswith("the connection was closed before the page had ended")


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + bytes(101),
        CHUNKED + b"65\r\n" + bytes(101),
        CHUNKED + b"32\r\n" + bytes(50) + b"\r\n33\r\n" + bytes(51),
        CHUNKED + b"ffffffffffffff\r\n" + bytes(101),
    ],
    ids=["length", "no length", "chunk", "chunks", "huge chunk"],
)
async def test_a_body_beyond_the_limit_is_given_up(raw: bytes) -> None:
    """As soon as it is known, and not after it has been read."""
    scrape = await ask(sending(raw))
    assert scrape.failure is not None
    assert scrape.failure.reason == "too_large"


@pytest.mark.parametrize(
    ("raw", "connections"),
    [
        (WHOLE["length"], 1),
        (WHOLE["length"].replace(b"OK\r\n", b"OK\r\nConnection: close\r\n"), 3),
        (WHOLE["length"].replace(b"HTTP/1.1", b"HTTP/1.0"), 3),
    ],
    ids=["kept", "close", "HTTP/1.0"],
)
async def test_a_connection_is_used_again_only_when_both_sides_agree(raw: bytes, connections: int) -> None:
    """A server that says it closes is asked over a new one."""
    async with serving(sending(raw)) as server, Client(lambda: 1.0) as client, asyncio.timeout(20):
        scrapes = [await client.fetch(http.Target("t", server.url)) for _ in range(3)]
    assert [scrape.body for scrape in scrapes] == [b"ab 1\n\n"] * 3
    assert server.connections == connections


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


async def test_a_storm_of_first_answers_ends_nothing() -> None:
    """Thousands of answers before the final one are passed over or refused, before the deadline."""
    storm = b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000
    scrape = await ask(sending(storm + WHOLE["length"]))
    assert scrape.body in (b"ab 1\n\n", None)
    assert scrape.failure is None or scrape.failure.reason != "timeout"


async def test_an_endless_chunk_size_ends_with_the_deadline() -> None:
    """What stands behind a chunk's size is passed over and kept nowhere, however long it is."""
    async with serving(sending(CHUNKED + b"1;" + b"x" * 4_000_000)) as server:
        tracemalloc.start()
        scrape = await http.fetch_once(http.Target("t", server.url, timeout=0.3), lambda: 1.0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert scrape.failure is not None
    assert scrape.failure.reason == "timeout"
    assert peak < 16 << 20


async def test_a_cookie_is_not_kept() -> None:
    """What a server wants to be told again is not told, to it or to any other."""
    raw = WHOLE["length"].replace(b"OK\r\n", b"OK\r\nSet-Cookie: a=b; Path=/\r\n")
    async with serving(sending(raw)) as server, Client(lambda: 1.0) as client:
        for _ in range(2):
            await client.fetch(http.Target("t", server.url))
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]
