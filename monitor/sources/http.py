"""Scrapes HTTP targets, each on its own fixed grid of times, and delivers what came."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING

from monitor.sources import client, targets
from monitor.sources.targets import ONCE, Beside, Target, Tls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from monitor.core.pages.scrapes import Scrape

__all__ = ["ONCE", "Beside", "Scraper", "Target", "Tls", "fetch_once"]

MOST_INTERVALS_BETWEEN = 4  # so far apart are the tries of a target that keeps failing
RETRY_BESIDE_SECONDS = 60.0  # for a page that is asked for once and did not answer

_CHEAP_FAILURES = ("connection", "dns")  # the engine had no work with these, so it is asked at every slot


async def fetch_once(target: Target, clock: Callable[[], float]) -> Scrape:
    """Return one look at `target`, page or failure, with connections of its own."""
    async with client.Client(clock) as connections:
        return await connections.fetch(target, target.beside)


class Scraper:
    """One task a target: waits for its slot, asks, delivers. A slow answer skips slots, it is never queued.

    A target's slots are `interval` apart and begin at its own share of the interval, which follows from
    its name, so that targets are spread out and keep their places over restarts. A target that fails again
    and again is asked every second, then every fourth slot; where nothing listens it is asked at every one.
    """

    def __init__(
        self, wanted: Iterable[Target], deliver: Callable[[Scrape], None], clock: Callable[[], float]
    ) -> None:
        self._deliver = deliver
        self._clock = clock
        self._client = client.Client(clock)
        self._targets: dict[str, Target] = {}
        self._beside: dict[str, _BesidePages] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._spared: set[str] = set()
        self._group: asyncio.TaskGroup | None = None
        self._stopping = asyncio.Event()
        self._stopped = asyncio.Event()
        self.set_targets(wanted)

    async def run(self) -> None:
        """Scrape until `stop` is called; what `deliver` raises ends it."""
        try:
            async with self._client, asyncio.TaskGroup() as self._group:
                for target in self._targets.values():
                    self._start(target)
                await self._stopping.wait()
                self._end(list(self._tasks))
        finally:
            self._group = None
            self._stopped.set()

    async def stop(self) -> None:
        """Give up the requests that are open, close all connections, and return when that is done."""
        self._stopping.set()
        await self._stopped.wait()

    def set_targets(self, wanted: Iterable[Target]) -> set[str]:
        """Scrape these from now on; those that have not changed keep their slots and open requests.

        Return the names of those that ended or begin anew. Raises ValueError, and changes nothing, where two
        targets have one name.
        """
        new: dict[str, Target] = {}
        for target in wanted:
            if target.name in new:
                both = f"{targets.shown(new[target.name].url)} and {targets.shown(target.url)}"
                raise ValueError(f"two targets are called {target.name!r} ({both}), expected a name for each")
            new[target.name] = target
        ended = [name for name, target in self._targets.items() if new.get(name) != target]
        self._end(ended)
        changed = [target for name, target in new.items() if self._targets.get(name) != target]
        self._targets = {name: self._targets.get(name, target) for name, target in new.items()}
        for target in changed:
            self._targets[target.name] = target
            self._start(target)
        return {*ended, *(target.name for target in changed)}

    def set_beside(self, target: str, pages: Sequence[Beside]) -> None:
        """Ask for these pages beside the target's own from the next scrape on; unknown names are ignored."""
        if target in self._targets:
            self._beside[target] = _BesidePages(pages)

    def ask_again(self, target: str) -> None:
        """Ask at the next scrape for the pages that are asked for once: the engine has restarted."""
        if target in self._beside:
            self._beside[target].renew()

    def spare(self, target: str) -> None:
        """Count the last page of a target as a failure: it was read, at some cost, and says nothing."""
        if target in self._targets:
            self._spared.add(target)

    async def fetch(self, target: Target) -> Scrape:
        """Return one look at `target` beside the schedule, with the scraper's connections."""
        return await self._client.fetch(target, target.beside)

    def _start(self, target: Target) -> None:
        if self._group is not None:
            self._beside.setdefault(target.name, _BesidePages(target.beside))
            task = self._group.create_task(self._watch(target), name=f"scrape {target.name}")
            self._tasks[target.name] = task

    def _end(self, names: Iterable[str]) -> None:
        for name in names:
            task = self._tasks.pop(name, None)
            if task is not None:
                task.cancel()
            self._beside.pop(name, None)
            self._spared.discard(name)
            self._client.forget(self._targets[name])

    async def _watch(self, target: Target) -> None:
        loop = asyncio.get_running_loop()
        slot = loop.time() + first_delay(target, self._clock())
        failures = 0
        while True:
            await asyncio.sleep(slot - loop.time())
            scrape = await self._look(target)
            self._deliver(scrape)
            failures = failures + 1 if _was_work(scrape) or target.name in self._spared else 0
            self._spared.discard(target.name)
            slot = next_slot(slot, target.interval, loop.time(), intervals_between(failures))

    async def _look(self, target: Target) -> Scrape:
        pages = self._beside[target.name]
        now = self._clock()
        due = pages.due(now) if pages.pages else ()
        scrape = await self._client.fetch(target, due)
        if scrape.failure is not None:
            pages.renew()
        elif due:
            pages.asked(due, scrape, now)
        return scrape


class _BesidePages:
    """When each page beside a target's own is to be asked for next (unix seconds)."""

    def __init__(self, pages: Sequence[Beside]) -> None:
        self.pages = tuple(pages)
        self._next: dict[str, float] = {}

    def due(self, now: float) -> tuple[Beside, ...]:
        return tuple(page for page in self.pages if self._next.get(page.path, 0.0) <= now)

    def asked(self, pages: Iterable[Beside], scrape: Scrape, now: float) -> None:
        for page in pages:
            answered = page.path in scrape.beside
            wait = page.period if answered else max(RETRY_BESIDE_SECONDS, min(page.period, 3600.0))
            self._next[page.path] = now + wait

    def renew(self) -> None:
        self._next = {page.path: 0.0 for page in self.pages if page.period == ONCE}


def first_delay(target: Target, now: float) -> float:
    """Return the seconds until the target's next slot; slots are the same ones after a restart."""
    share = zlib.crc32(target.name.encode()) / 2**32
    return (share * target.interval - now) % target.interval


def next_slot(slot: float, interval: float, now: float, intervals: int) -> float:
    """Return the first slot that is `intervals` or more after `slot` and still to come."""
    passed = int((now - slot) // interval) + 1
    return slot + interval * max(passed, intervals)


def intervals_between(failures: int) -> int:
    """Return how many intervals after the last try the next one comes: 1, 1, 2, 4 and no more."""
    return int(min(2 ** max(failures - 1, 0), MOST_INTERVALS_BETWEEN))


def _was_work(scrape: Scrape) -> bool:
    return scrape.failure is not None and scrape.failure.reason not in _CHEAP_FAILURES
