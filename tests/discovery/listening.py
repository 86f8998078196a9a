"""Reads a provider's news in tests, with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from monitor.sources.discovery import Failed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from monitor.sources.discovery import Found, Provider

PATIENCE = 60.0
News = "tuple[Found, ...] | Failed"


class Listener:
    """What a provider tells, one after the other."""

    def __init__(self, provider: Provider) -> None:
        self._news = provider.news()

    async def until(self, wanted: Callable[[tuple[Found, ...] | Failed], bool]) -> tuple[Found, ...] | Failed:
        """The first news that is wanted; what comes before is passed over."""
        async with asyncio.timeout(PATIENCE):
            async for each in self._news:
                if wanted(each):
                    return each
        raise AssertionError("the provider ended")

    async def names(self, *expected: str) -> tuple[Found, ...]:
        """The first set with exactly these names."""
        wanted = sorted(expected)
        found = await self.until(
            lambda each: not isinstance(each, Failed) and sorted(one.name for one in each) == wanted
        )
        assert not isinstance(found, Failed)
        return found

    async def failure(self) -> str:
        """The reason of the next failure."""
        found = await self.until(lambda each: isinstance(each, Failed))
        assert isinstance(found, Failed)
        return found.reason

    async def next(self) -> tuple[Found, ...] | Failed:
        """What is told next, whatever it is."""
        return await self.until(lambda _: True)

    async def close(self) -> None:
        """Have the provider end."""
        await self._news.aclose()


@contextlib.asynccontextmanager
async def to(provider: Provider) -> AsyncIterator[Listener]:
    """Listen to a provider until the block ends."""
    listener = Listener(provider)
    try:
        yield listener
    finally:
        await listener.close()


async def turn() -> None:
    """Let others run for a moment."""
    await asyncio.sleep(0.01)
