"""`http://host:port` is enough: the page is looked for, once, without taking anything away from anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.core.pages import engines
from monitor.sources import http, probing, targets
from monitor.sources.client import Client
from tests.sources.servers import PAGE, answer, serving

if TYPE_CHECKING:
    import asyncio

    from tests.sources.servers import Handler, Request

NOW = 1_700_000_000.0
FRONTEND = b"dynamo_frontend_requests_total 4\n"


def at(pages: dict[str, bytes]) -> Handler:
    """A server with these pages, and 404 for every other path."""

    async def handler(request: Request, writer: asyncio.StreamWriter) -> None:
        body = pages.get(request.path)
        await (answer(body) if body is not None else answer(status="404 Not Found"))(request, writer)

    return handler


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        ({"/metrics": PAGE}, "/metrics"),
        ({"/prometheus/metrics": PAGE, "/metrics": b"[]"}, "/prometheus/metrics"),
        ({"/metrics/": PAGE}, "/metrics/"),
        ({"/brpc_metrics": FRONTEND, "/metrics": PAGE}, "/metrics"),
    ],
    ids=[
        "usual",
        "beside a page that is drained by looking",
        "with a slash",
        "beside a page of another kind",
    ],
)
async def test_the_page_is_found_and_remembered(pages: dict[str, bytes], found: str) -> None:
    """The first look tries the paths in their order, the next ones ask for the one that was found."""
    async with serving(at(pages)) as server, Client(lambda: NOW) as client:
        target = targets.Target("t", server.url.removesuffix("/metrics"))
        for _ in range(3):
            scrape = await client.fetch(target)
            assert scrape.body == PAGE
    asked = [request.path for request in server.requests]
    order = list(engines.PROBE_PATHS)
    assert asked == [*order[: order.index(found) + 1], found, found]


async def test_a_page_of_another_kind_is_shown_where_there_is_no_engine() -> None:
    """A frontend's page says where to look instead, so it is better than a 404; it is looked for again."""
    async with serving(at({"/metrics": FRONTEND})) as server, Client(lambda: NOW) as client:
        target = targets.Target("t", server.url.removesuffix("/metrics"))
        for _ in range(2):
            assert (await client.fetch(target)).body == FRONTEND
    assert [request.path for request in server.requests] == [*engines.PROBE_PATHS] * 2


async def test_no_page_at_all_is_a_failure_with_the_last_place() -> None:
    """A server that has none of the paths is told as one that answers 404."""
    async with serving(at({})) as server:
        scrape = await http.fetch_once(targets.Target("t", server.url.removesuffix("/metrics")), lambda: NOW)
    assert scrape.failure is not None
    assert (scrape.failure.reason, "404" in scrape.failure.detail) == ("http_status", True)


def test_the_order_is_the_documented_one() -> None:
    """With a port only paths are tried, without one the engines' own ports after the URL's."""
    paths = engines.PROBE_PATHS
    with_port = [str(url) for url in probing.places(targets.Target("t", "http://h:9/"))]
    assert with_port == [f"http://h:9{path}" for path in paths]
    without = [str(url) for url in probing.places(targets.Target("t", "http://h"))]
    ports = ["", *(f":{port}" for port in engines.PROBE_PORTS)]
    assert without == [f"http://h{port}{path}" for port in ports for path in paths]


@pytest.mark.parametrize(
    "secret",
    [{"bearer_token": "s"}, {"bearer_token_file": "f"}, {"headers": (("x-key", "s"),)}],
    ids=["token", "token file", "header"],
)
def test_a_secret_is_not_carried_to_other_ports(secret: dict[str, object]) -> None:
    """Another port of the host may be somebody else's server."""
    target = targets.Target("t", "https://h", **secret)  # type: ignore[arg-type]
    assert {url.port for url in probing.places(target)} == {443}
