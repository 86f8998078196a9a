"""Targets from a URL, against a real server."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from monitor.sources.discovery import target_urls
from monitor.sources.targets import Target
from tests.discovery import listening
from tests.sources import servers

if TYPE_CHECKING:
    import asyncio

    from tests.sources.servers import Request

INTERVAL = 0.2


def provider(url: str, token: str | None = None) -> target_urls.Url:
    """A provider that asks this URL."""
    headers = (("Accept", "application/json"),)
    page = Target(
        "discovery", url, headers=headers, bearer_token=token, interval=INTERVAL, timeout=INTERVAL / 2
    )
    return target_urls.Url(page, time.time)


def listed(*addresses: str) -> bytes:
    """A list with these targets."""
    return json.dumps([{"targets": list(addresses), "labels": {"zone": "x"}}]).encode()


async def test_a_list_is_followed_and_survives_failures() -> None:
    """What the URL answers is told, a status other than 200 is a failure, and the next list is told again."""
    answers = [
        servers.answer(listed("a:1")),
        servers.answer(b"busy", "503 Busy"),
        servers.answer(listed("b:1")),
    ]

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        await (answers.pop(0) if len(answers) > 1 else answers[0])(request, writer)

    async with servers.serving(handle) as server, listening.to(provider(server.url, "secret")) as listener:
        await listener.names("a:1")
        assert await listener.failure() == f"{server.url}: read status 503 Busy, expected 200"
        await listener.names("b:1")
        headers = server.requests[0].headers
        assert (headers["accept"], headers["authorization"]) == ("application/json", "bearer secret")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>", "read b'<html>', expected JSON with target groups"),
        (b'{"targets": []}', "read a mapping, expected a list of target groups"),
        (b"[" * 100_000, f"read {b'[' * 40!r}, expected JSON with target groups"),
    ],
    ids=["html", "no-list", "deep"],
)
async def test_an_answer_that_is_no_list(body: bytes, said: str) -> None:
    """What is no list of groups is a failure that names the URL and what came."""
    async with (
        servers.serving(servers.answer(body)) as server,
        listening.to(provider(server.url)) as listener,
    ):
        assert await listener.failure() == f"{server.url}: {said}"


async def test_nobody_listens() -> None:
    """A server that is away is a failure."""
    async with servers.serving(servers.answer(listed())) as server:
        url = server.url
    async with listening.to(provider(url)) as listener:
        assert await listener.failure() == f"{url}: no connection (Connection refused)"
