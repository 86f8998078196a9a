"""Starts the web part over made records on a free port of the loopback interface."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp.test_utils import TestClient, TestServer

from monitor.web import app
from tests.web.fleet_of_five import Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp import web

    from monitor.web.view import View

    Client = TestClient[web.Request, web.Application]


@asynccontextmanager
async def client(
    service: Service | None = None,
    options: app.Options | None = None,
    make_view: Callable[[], View] | None = None,
) -> AsyncIterator[Client]:
    """Yield a client of a running server; `service` is what it shows, or what `make_view` gives each time."""
    shown = service or Service()
    server = TestServer(app.application(make_view or (lambda: shown), options), host="127.0.0.1")
    async with TestClient(server) as made:
        yield made
