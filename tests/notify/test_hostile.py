"""Whatever an Alertmanager answers, the alerts are posted and the process lives in bounded memory."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import aiohttp
import pytest

from monitor import notify
from monitor.notify import posting
from tests.sources import servers

if TYPE_CHECKING:
    from tests.sources.servers import Handler

ENDLESS_PIECES = 20_000  # of 1 KiB, or until the other side has had enough

NO_STATUS = {
    "nested": servers.answer(b"[" * 200_000),
    "unknown charset": servers.answer(b'{"uptime": "x"}', content_type="application/json; charset=zip"),
    "charset of no text": servers.answer(b'{"uptime": "x"}', content_type="application/json; charset=rot13"),
    "no UTF-8": servers.answer(b'{"uptime": "\xff"}'),
    "no object": servers.answer(b"[1]"),
    "a number of many digits": servers.answer(b"9" * 10_000),
    "longer than it says": servers.answer(b"{}", content_length="99"),
    "a redirect": servers.answer(b"", "302 Found", location="http://127.0.0.1:1/"),
    "too long": servers.answer(b" " * (posting.LARGEST_STATUS_BYTES + 1) + b"{}"),
    "an empty page": servers.answer(b"", content_type="application/json"),
}


async def asked(handler: Handler) -> tuple[str, servers.Server]:
    """What one question to a server with this handler gives."""
    waiting = aiohttp.ClientTimeout(total=0.5)
    async with servers.serving(handler) as server, aiohttp.ClientSession(timeout=waiting) as session:
        receiver = notify.Receiver("alertmanager", "a", server.url)
        async with asyncio.timeout(20):
            return await posting.Line(receiver).started(session), server


@pytest.mark.parametrize("name", NO_STATUS)
async def test_an_answer_of_any_kind_is_taken_for_silence(name: str) -> None:
    """An answer to the question since when it runs ends nothing; a decodable one is taken at its word."""
    started, _ = await asked(NO_STATUS[name])
    assert started in {"", "x"}


async def test_an_endless_answer_is_cut_off() -> None:
    """No more is read than a status can have."""
    sent = 0

    async def endless(_: servers.Request, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while sent < ENDLESS_PIECES:
            writer.write(b"x" * 1024)
            sent += 1
            await writer.drain()

    begun = time.monotonic()
    started, _ = await asked(endless)
    assert started == ""
    assert sent < ENDLESS_PIECES, f"read all of it in {time.monotonic() - begun:.1f}s"


async def test_a_refusal_without_end_is_cut_off() -> None:
    """What a receiver says of a refused post is shown in a few words."""

    async def refuse(_: servers.Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 No\r\ncontent-length: 99999999\r\n\r\n" + b"word " * 1000)

    async with servers.serving(refuse) as server, aiohttp.ClientSession() as session:
        line = posting.Line(notify.Receiver("webhook", "a", server.url))
        with pytest.raises(posting.UndeliveredError) as refusal:
            await line.post(session, {}, "key")
    assert "read status 500 No (word word" in str(refusal.value)
    assert len(str(refusal.value)) < 300


async def test_the_path_of_a_webhook_is_in_no_message() -> None:
    """What is wrong with an answer is said without the URL: a webhook's path is its secret."""
    async with (
        servers.serving(servers.answer(status="nonsense")) as server,
        aiohttp.ClientSession() as session,
    ):
        secret = server.url.replace("/metrics", "/hooks/hunter2")
        line = posting.Line(notify.Receiver("webhook", "a", secret))
        with pytest.raises(posting.UndeliveredError) as refusal:
            await line.post(session, {}, "key")
    assert "no HTTP/1.1 answer" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
