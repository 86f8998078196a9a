"""Receivers of notifications as real HTTP servers of this test, which can be down, slow to accept or refuse."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping


@dataclass(slots=True)
class Post:
    """A request as it came, and what was answered."""

    path: str
    headers: Mapping[str, str]
    content: Any
    status: int


def _set() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True)
class Server:
    """A receiver: `answers` are the statuses of the next posts, then `status`; answers wait for `answering`."""

    port: int = 0
    status: int = 200
    answers: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    posts: list[Post] = field(default_factory=list)
    started: str = "2026-01-01T00:00:00Z"
    answering: asyncio.Event = field(default_factory=_set)
    came: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def url(self) -> str:
        """Where it listens, or would if it was up."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def accepted(self) -> list[Post]:
        """The posts that were answered well."""
        return [post for post in self.posts if post.status == 200]

    async def until(self, condition: Callable[[Server], bool], seconds: float = 20.0) -> None:
        """Wait until the posts are as expected."""
        async with asyncio.timeout(seconds), self.came:
            await self.came.wait_for(lambda: condition(self))

    async def take(self, request: web.Request) -> web.Response:
        """Answer a post."""
        if request.method == "GET":
            return web.json_response({"uptime": self.started})
        content = await request.json()
        status = self.answers.pop(0) if self.answers else self.status
        self.posts.append(Post(request.path, dict(request.headers), content, status))
        async with self.came:
            self.came.notify_all()
        await self.answering.wait()
        return web.Response(status=status, headers=self.headers, text="as the test wants it")


@contextlib.asynccontextmanager
async def up(server: Server | None = None) -> AsyncIterator[Server]:
    """Have a server listen; one that was up before listens at its old port again."""
    server = server or Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.take)
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", server.port).start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()
