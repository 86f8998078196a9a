"""Providers side by side: what their sets add up to, what a failure leaves, what is cut off."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.sources.discovery import Failed, Found, running
from monitor.sources.discovery.running import Discovery
from tests.discovery import listening

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection


@dataclass(frozen=True, eq=False)
class Scripted:
    """Tells what is put into it."""

    kind: str = "file"
    told: asyncio.Queue[tuple[Found, ...] | Failed] = field(default_factory=asyncio.Queue)

    async def news(self) -> AsyncGenerator[tuple[Found, ...] | Failed, None]:
        """Tell all, in order."""
        while True:
            yield await self.told.get()

    def tell(self, *names: str, url: str = "http://{}/metrics") -> None:
        """Tell a set of targets with these names."""
        self.told.put_nowait(tuple(Found(name, url.format(name)) for name in names))

    def fail(self, reason: str) -> None:
        """Tell a failure."""
        self.told.put_nowait(Failed(reason))


@contextlib.asynccontextmanager
async def discovering(
    *providers: Scripted, taken: Collection[str] = (), most: int = 10
) -> AsyncIterator[tuple[Discovery, list[tuple[str, ...]]]]:
    """Run a discovery; the list has the names of its targets after each change."""
    discovery = Discovery(providers, taken, most)
    changes: list[tuple[str, ...]] = []
    discovery.on_change(lambda: changes.append(tuple(target.name for target in discovery.targets)))
    task = asyncio.create_task(discovery.run())
    try:
        yield discovery, changes
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SETTLE_SECONDS", 0.02)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(listening.PATIENCE):
        while not condition():
            await listening.turn()


def values(discovery: Discovery) -> dict[str, float]:
    """The samples of discovery's own metrics."""
    return {
        f"{family.name}{{{block}}}": float(value)
        for family in discovery.families()
        for column in family.columns
        for block, value in zip(column.blocks, np.asarray(column.values).tolist(), strict=True)
    }


async def test_sets_add_up() -> None:
    """The targets of all providers are watched, in the order of their names; one set replaces the last."""
    one, other = Scripted(), Scripted("http")
    async with discovering(one, other) as (discovery, changes):
        one.tell("b:1", "a:1")
        await until(lambda: changes == [("a:1", "b:1")])
        assert not discovery.complete()
        other.tell("c:1")
        await until(lambda: changes[-1] == ("a:1", "b:1", "c:1"))
        assert discovery.complete()
        one.tell("b:1")
        await until(lambda: changes[-1] == ("b:1", "c:1"))


async def test_a_failure_takes_nothing_away(caplog: pytest.LogCaptureFixture) -> None:
    """After a failure the last set stays; each failure is counted, and one that repeats is said once."""
    provider = Scripted()
    with caplog.at_level(logging.INFO, "monitor.sources.discovery"):
        async with discovering(provider) as (discovery, changes):
            provider.tell("a:1")
            await until(lambda: changes == [("a:1",)])
            for _ in range(3):
                provider.fail("x: no such file")
            await until(lambda: values(discovery)['specmon_discovery_failures{provider="file"}'] == 3)
            assert [target.name for target in discovery.targets] == ["a:1"]
            provider.tell("a:1")
            await until(lambda: "discovery works again" in caplog.messages)
    said = [text for text in caplog.messages if "targets it has" in text]
    assert said == ["discovery keeps the targets it has: x: no such file"]


async def test_many_changes_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is told within a moment is passed on together."""
    monkeypatch.setattr(running, "SETTLE_SECONDS", 0.3)
    provider = Scripted()
    async with discovering(provider) as (_, changes):
        for count in range(1, 6):
            provider.tell(*(f"{number}:1" for number in range(count)))
        await until(lambda: bool(changes))
        assert changes == [("0:1", "1:1", "2:1", "3:1", "4:1")]


async def test_the_most_targets(caplog: pytest.LogCaptureFixture) -> None:
    """Above the limit those that are watched stay, and the rest is counted and said."""
    provider = Scripted()
    async with discovering(provider, most=3, taken={"static:1"}) as (discovery, changes):
        provider.tell("m:1")
        await until(lambda: changes == [("m:1",)])
        provider.tell("a:1", "b:1", "m:1", "z:1")
        await until(lambda: changes[-1] == ("a:1", "m:1"))
        assert values(discovery)['specmon_targets_dropped{reason="limit"}'] == 2
        assert values(discovery)['specmon_discovery_targets{provider="file"}'] == 4
        assert "targets are found and not watched" in caplog.messages
        provider.tell("b:1", "m:1")
        await until(lambda: changes[-1] == ("b:1", "m:1"))
        assert values(discovery)['specmon_targets_dropped{reason="limit"}'] == 0


async def test_one_name_is_one_target() -> None:
    """A name that is listed in the settings is theirs; of two that are found the first provider's stays."""
    one, other = Scripted(), Scripted("http")
    async with discovering(one, other, taken={"static:1"}) as (discovery, changes):
        one.tell("a:1", "static:1")
        other.tell("a:1", url="http://elsewhere/metrics")
        await until(lambda: discovery.complete() and bool(changes))
        await until(lambda: values(discovery)['specmon_targets_dropped{reason="name_taken"}'] == 2)
        assert [target.url for target in discovery.targets] == ["http://a:1/metrics"]


async def test_a_url_that_is_none_is_refused() -> None:
    """A set with a target that cannot be asked is a failure as a whole, and the last one stays."""
    provider = Scripted()
    async with discovering(provider) as (discovery, changes):
        provider.tell("a:1")
        await until(lambda: changes == [("a:1",)])
        provider.tell("a:1", "b:1", url="http:///metrics")
        await until(lambda: values(discovery)['specmon_discovery_failures{provider="file"}'] == 1)
        assert changes == [("a:1",)]


async def test_providers_are_replaced() -> None:
    """A reload keeps the sets of providers that stay, drops those of others and starts new ones."""
    stays, goes, comes = Scripted(), Scripted("http"), Scripted("dns")
    async with discovering(stays, goes) as (discovery, changes):
        stays.tell("a:1")
        goes.tell("b:1")
        await until(lambda: bool(changes) and changes[-1] == ("a:1", "b:1"))
        discovery.replace([stays, comes], (), 10)
        assert [target.name for target in discovery.targets] == ["a:1"]
        assert not discovery.complete()
        comes.tell("c:1")
        await until(lambda: changes[-1] == ("a:1", "c:1"))
        assert 'specmon_discovery_targets{provider="http"}' not in values(discovery)


async def test_nothing_to_discover() -> None:
    """Without providers there is nothing to wait for, and no metric."""
    discovery = Discovery([], (), 10)
    assert discovery.complete()
    assert list(discovery.families()) == []


async def test_an_unexpected_error_ends_it() -> None:
    """What a provider does not expect ends discovery, and the service with it, instead of going on without."""

    class Broken(Scripted):
        async def news(self) -> AsyncGenerator[tuple[Found, ...] | Failed, None]:
            """Fail as nobody expects."""
            if self.told.empty():
                raise ZeroDivisionError
            yield ()

    with pytest.raises(ExceptionGroup):
        await asyncio.wait_for(Discovery([Broken()], (), 10).run(), listening.PATIENCE)
