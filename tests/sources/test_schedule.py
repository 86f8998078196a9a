"""Targets are asked on their own grid, one request at a time, and a slow one slows no other."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from monitor.sources import http
from tests.sources.servers import PAGE, Request, answer, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from monitor.core.pages.scrapes import Scrape
    from tests.sources.servers import Server

TICK = 0.05


class Delivered:
    """Collects what a scraper delivers; a test waits for what it needs and never for a time."""

    def __init__(self) -> None:
        self.scrapes: list[Scrape] = []
        self._more = asyncio.Event()

    def take(self, scrape: Scrape) -> None:
        """Be told of a scrape."""
        self.scrapes.append(scrape)
        self._more.set()

    def of(self, name: str) -> list[Scrape]:
        """What came of one target."""
        return [scrape for scrape in self.scrapes if scrape.target == name]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds after some scrape."""
        async with asyncio.timeout(20):
            while not condition():
                self._more.clear()
                await self._more.wait()


def target(name: str, server: Server | str, **settings: object) -> http.Target:
    """A target that is asked often."""
    url = server if isinstance(server, str) else server.url
    chosen = {"interval": TICK, "timeout": TICK * 0.9} | settings
    return http.Target(name, url, **chosen)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def scraping(*wanted: http.Target) -> AsyncIterator[tuple[http.Scraper, Delivered]]:
    """A running scraper and what it delivers."""
    delivered = Delivered()
    scraper = http.Scraper(wanted, delivered.take, clock=time.time)
    running = asyncio.create_task(scraper.run())
    try:
        yield scraper, delivered
    finally:
        await scraper.stop()
        await running


def test_slots_are_the_same_after_a_restart() -> None:
    """A target's slots follow from its name and the clock, so targets keep their spread."""
    targets = [http.Target(f"t{number}", "http://a", interval=15.0) for number in range(200)]
    offsets = []
    for each in targets:
        first, later = (now + http.first_delay(each, now) for now in (1_700_000_000.0, 1_700_000_777.3))
        assert (later - first) / 15 == pytest.approx(round((later - first) / 15), abs=1e-6)
        offsets.append(first % 15)
    per_second = [sum(int(offset) == second for offset in offsets) for second in range(15)]
    assert max(per_second) < 3 * 200 / 15


@pytest.mark.parametrize(
    ("now", "intervals", "expected"),
    [
        (100.0, 1, 110.0),
        (103.0, 1, 110.0),
        (109.999, 1, 110.0),
        (110.0, 1, 120.0),
        (125.0, 1, 130.0),
        (103.0, 2, 120.0),
        (103.0, 4, 140.0),
        (165.0, 4, 170.0),
    ],
)
def test_a_missed_slot_is_skipped(now: float, intervals: int, expected: float) -> None:
    """The next try is at a slot of the grid that is still to come."""
    assert http.next_slot(100.0, 10.0, now, intervals) == expected


def test_tries_of_a_failing_target_are_bounded_apart() -> None:
    """At the next slot first, then further apart, never more than four intervals."""
    assert [http.intervals_between(failures) for failures in range(6)] == [1, 1, 2, 4, 4, 4]


async def test_a_target_is_asked_again_and_again() -> None:
    """Scrapes come an interval apart on one connection."""
    async with serving(answer()) as server, scraping(target("a", server)) as (_, delivered):
        await delivered.until(lambda: len(delivered.scrapes) >= 5)
    assert all(scrape.body == PAGE for scrape in delivered.scrapes)
    # A late one is nearer to the next, which is on time again; four intervals are never two.
    assert delivered.scrapes[4].at - delivered.scrapes[0].at > 2 * TICK


async def test_a_target_whose_pages_are_work_for_nothing_is_asked_less_often() -> None:
    """Pages that came and were refused, at some cost, count as failures of the target."""
    async with serving(answer()) as server, scraping(target("a", server)) as (scraper, delivered):
        for seen in range(6):
            await delivered.until(lambda: len(delivered.scrapes) > seen)  # noqa: B023 - waited for here
            scraper.spare("a")
    assert delivered.scrapes[5].at - delivered.scrapes[4].at > 2 * TICK


async def test_a_slow_target_has_one_request_and_slows_no_other() -> None:
    """While one target hangs until its timeout, the other is asked at every slot (sglang#28163)."""

    async def hang(_: Request, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(hang) as slow, serving(answer()) as quick:
        wanted = (target("slow", slow, interval=1.0, timeout=0.9), target("quick", quick))
        async with scraping(*wanted) as (_, delivered):
            await delivered.until(lambda: len(delivered.of("slow")) >= 1)
            quick_ones = len(delivered.of("quick"))
        assert slow.most_open == 1
    assert quick_ones >= 8
    failure = delivered.of("slow")[0].failure
    assert failure is not None
    assert failure.reason == "timeout"


async def test_an_engine_that_comes_back_is_read_again() -> None:
    """A 503 and then a page: the failure is delivered, and so is the page after it."""
    seen = 0

    async def handle(request: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await (answer(status="503 Busy") if seen == 1 else answer())(request, writer)

    async with serving(handle) as server, scraping(target("a", server)) as (_, delivered):
        await delivered.until(lambda: len(delivered.scrapes) >= 2)
    first, second = delivered.scrapes[:2]
    assert first.failure is not None
    assert second.body == PAGE


async def test_stopping_does_not_wait_for_an_answer() -> None:
    """Open requests are given up at once."""

    async def hang(_: Request, __: asyncio.StreamWriter) -> None:
        asked.set()
        await asyncio.Event().wait()

    asked = asyncio.Event()
    async with serving(hang) as server:
        waiting = target("a", server, interval=30.0 * TICK, timeout=29.0 * TICK)
        async with scraping(waiting) as (_, delivered), asyncio.timeout(20):
            await asked.wait()
        assert delivered.scrapes == []


async def test_targets_are_exchanged_while_running() -> None:
    """A removed target is asked no more, a new one is, and one that stays keeps its connection and slots."""
    async with serving(answer()) as server, serving(answer()) as other:
        stays, goes, comes = target("stays", server), target("goes", server), target("comes", other)
        async with scraping(stays, goes) as (scraper, delivered):
            await delivered.until(lambda: bool(delivered.of("stays") and delivered.of("goes")))
            scraper.set_targets([target("stays", server), comes])
            before = len(delivered.of("goes"))
            await delivered.until(lambda: len(delivered.of("comes")) >= 3)
            assert len(delivered.of("goes")) == before
            count = len(delivered.of("stays"))
            await delivered.until(lambda: len(delivered.of("stays")) > count)
            scraper.set_targets([])
            total = len(delivered.scrapes)
        assert len(delivered.scrapes) == total


async def test_a_target_that_has_changed_is_asked_in_the_new_way() -> None:
    """Another URL under the same name takes effect at once."""
    async with (
        serving(answer(b"old 1\n")) as old,
        serving(answer(b"new 1\n")) as new,
        scraping(target("a", old)) as (scraper, delivered),
    ):
        await delivered.until(lambda: bool(delivered.scrapes))
        scraper.set_targets([target("a", new)])
        await delivered.until(lambda: delivered.scrapes[-1].body == b"new 1\n")


def test_two_targets_of_one_name_are_refused() -> None:
    """The message names both, without their credentials."""
    twins = [target("a", "http://u:secret@h:1/metrics"), target("a", "http://h:2/metrics")]
    with pytest.raises(ValueError) as refusal:
        http.Scraper(twins, print, clock=time.time)
    expected = (
        "two targets are called 'a' (http://h:1/metrics and http://h:2/metrics), expected a name for each"
    )
    assert str(refusal.value) == expected


async def test_pages_beside_are_asked_as_often_as_they_should() -> None:
    """One with each scrape, one once, and the latter again when the engine has restarted."""
    async with serving(answer()) as server, scraping(target("a", server)) as (scraper, delivered):
        scraper.set_beside("a", [http.Beside("/v1/loads", 0), http.Beside("/version")])
        scraper.set_beside("unknown", [http.Beside("/version")])
        await delivered.until(lambda: len(delivered.scrapes) >= 4)
        scraper.ask_again("a")
        count = len(delivered.scrapes)
        await delivered.until(lambda: len(delivered.scrapes) >= count + 3)
    beside = [frozenset(scrape.beside) for scrape in delivered.scrapes]
    assert all("/v1/loads" in paths for paths in beside[1:])
    assert sum("/version" in paths for paths in beside) == 2


async def test_what_deliver_raises_ends_the_scraper() -> None:
    """An unexpected error is not swallowed."""

    def refuse(_: Scrape) -> None:
        raise RuntimeError("unexpected")

    async with serving(answer()) as server:
        scraper = http.Scraper([target("a", server)], refuse, clock=time.time)
        with pytest.raises(ExceptionGroup, match="unhandled"):
            async with asyncio.timeout(20):
                await scraper.run()
