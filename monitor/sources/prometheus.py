"""Reads the engines' counters from a Prometheus-compatible API instead of scraping the engines.

One query for all series at each time of a grid (the multiples of the interval, `offset` later so that late
samples have come). What was missed, by a restart or a failed query, is read with range queries at the same
times, so that it makes no difference. Live service and replay make their pages by the same code.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor import sources
from monitor.metrics import textformat
from monitor.metrics.textformat import Column, Family
from monitor.sources import promql, queries, vectors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from monitor.core.pages.scrapes import Scrape
    from monitor.sources.queries import QueryServer
    from monitor.sources.vectors import QueriedSeries

log = logging.getLogger(__name__)

FIRST_STEPS = 60  # of a range, as long as it is not known how many series there are
MOST_VALUES = 1_000_000  # of all series in one answer: some 50 MB of JSON
_SHORT = 4  # intervals: nobody is told that so little is missing
_EXACT = 3  # decimals of a time that the API keeps


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to ask, of whom and when. Times in seconds; at most `lookback` of what was missed is read."""

    server: QueryServer
    interval: float = 15.0
    offset: float = 30.0
    lookback: float = 3600.0
    selector: str = ""
    target_labels: tuple[str, ...] = ()


class GridReader:
    """Asks at each time of the grid and delivers what all targets had then, oldest first.

    `since` is the last time that was read before, NaN where there is none. `owned` says which targets are
    this monitor's. `clock` gives unix seconds.
    """

    def __init__(
        self,
        wanted: Wanted,
        clock: Callable[[], float],
        *,
        owned: Callable[[str], bool] | None = None,
    ) -> None:
        self._wanted = wanted
        self._clock = clock
        self._query = promql.query(wanted.selector)
        self._pages = vectors.Pages(wanted.target_labels, owned)
        self._series = 0
        self._last = math.nan
        self._counts: dict[str, int] = dict.fromkeys(queries.REASONS, 0)
        self._asked = 0
        self._seconds = math.nan
        self._failing = ""
        self._first = math.nan  # of what is being caught up with

    @property
    def unread(self) -> float:
        """Seconds of the past that are being read and have not been delivered yet; 0 where that is done."""
        return 0.0 if math.isnan(self._first) else max(self._due() - max(self._first, self._last), 0.0)

    @property
    def progress(self) -> str:
        """How far the past has been read, in a sentence; empty where nothing of it is being read."""
        unread = self.unread
        if unread <= _SHORT * self._wanted.interval:
            return ""
        span = self._due() - self._first
        done = 100.0 * (1.0 - unread / span)
        return f"the past of {span / 60:.0f} min is being read: {done:.0f} % done"

    def is_past(self, unix_seconds: float) -> bool:
        """Whether later times than this are there to be read already."""
        return unix_seconds < self._due() - self._wanted.interval / 2.0

    @property
    def complete(self) -> bool:
        """Whether everything up to now has been read, so that a target that is not told is not there."""
        return self._last >= self._due() - self._wanted.interval

    @property
    def urls(self) -> Mapping[str, str]:
        """The targets there are, each with the address that it is read from."""
        return dict.fromkeys(self._pages.targets, self._wanted.server.url)

    async def run(self, deliver: Callable[[list[Scrape]], None], since: float = math.nan) -> None:
        """Deliver one time after the other until cancelled; what `deliver` raises ends it."""
        self._last = since
        async with queries.Api(self._wanted.server) as api:
            while True:
                due = self._due()
                if self._last > due + self._wanted.interval:
                    self._last = math.nan  # the clock was set back: what was read then was not there yet
                if not self._last >= due:
                    await self._catch_up(api, due, deliver)
                next_at = self._due() + self._wanted.interval + self._wanted.offset
                await asyncio.sleep(max(next_at - self._clock(), 0.0))

    def families(self) -> Iterator[Family]:
        """Yield how the queries go."""
        single = textformat.single
        yield single("specmon_prometheus_queries", "counter", "Queries of the query API.", self._asked)
        columns = [
            Column((textformat.labels({"reason": reason}),), (count,))
            for reason, count in self._counts.items()
        ]
        help_text = "Queries without a usable answer; what was missed is read later."
        yield Family("specmon_prometheus_query_failures", "counter", help_text, tuple(columns))
        name = "specmon_prometheus_query_duration_seconds"
        yield single(name, "gauge", "Time that the last query took.", self._seconds)
        name, help_text = (
            "specmon_prometheus_last_read_timestamp_seconds",
            "Unix time up to which all is read.",
        )
        yield single(name, "gauge", help_text, self._last)
        help_text = "Seconds of the past that are being caught up with and not read yet."
        yield single("specmon_prometheus_unread_seconds", "gauge", help_text, self.unread)
        help_text = "Targets that the query API has series of, this shard's."
        yield single("specmon_prometheus_targets", "gauge", help_text, len(self._pages.targets))
        name = "specmon_prometheus_ambiguous_targets"
        help_text = (
            "Targets with series of several scrapes, one of which is read; see prometheus.target_labels."
        )
        yield single(name, "gauge", help_text, self._pages.ambiguous)

    def _due(self) -> float:
        """Return the last time of the grid whose samples have come by now."""
        interval = self._wanted.interval
        return round(math.floor((self._clock() - self._wanted.offset) / interval) * interval, _EXACT)

    async def _catch_up(self, api: queries.Api, due: float, deliver: Callable[[list[Scrape]], None]) -> None:
        """Read everything after the last time that was read, and at most `lookback` of it."""
        wanted = self._wanted
        earliest = due - wanted.lookback
        first = earliest if not self._last >= earliest else self._last + wanted.interval
        self._first = first - wanted.interval
        try:
            async for batch in self.history(api, _on_grid(first, wanted.interval), due):
                if batch:
                    deliver(batch)
                    await asyncio.sleep(0)
        except queries.QueryError as error:
            self._counts[error.reason] += 1
            if self._failing != error.reason:
                self._failing = error.reason
                log.warning("nothing read, will be read later: %s", error, extra={"reason": error.reason})
            return
        finally:
            self._first = math.nan
        if self._failing:
            self._failing = ""
            log.info("the query API answers again")

    async def history(self, api: queries.Api, start: float, end: float) -> AsyncIterator[list[Scrape]]:
        """Yield what the targets had at each time from `start` to `end`, asked for in bounded pieces."""
        step = self._wanted.interval
        while start <= end:
            times = _times(start, min(end, start + (self._steps() - 1) * step), step)
            found = await self._ask(api, times)
            batches = self._pages.scrapes(found, times)
            for at in times:
                # Beside the event loop: the pages of thousands of engines take a while to write.
                yield await asyncio.to_thread(next, batches)
                self._last = at
            start = round(times[-1] + step, _EXACT)

    async def _ask(self, api: queries.Api, times: Sequence[float]) -> list[QueriedSeries]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        self._asked += 1
        try:
            if len(times) == 1:
                found = await api.instant(self._query, times[0])
            else:
                found = await api.over(self._query, times[0], times[-1], self._wanted.interval)
        finally:
            self._seconds = loop.time() - started
        self._series = len(found)
        return found

    def _steps(self) -> int:
        if not self._series:
            return FIRST_STEPS
        return max(min(MOST_VALUES // self._series, queries.MOST_POINTS), 1)


def replay(
    wanted: Wanted, start: float, end: float, progress: Callable[[float], None] | None = None
) -> Iterator[list[Scrape]]:
    """Yield what the targets had at each time of the grid from `start` to `end`, read as the service does.

    `progress` is called with the share that has been read. Raises Unreadable where a query fails.
    """
    first, last = _on_grid(start, wanted.interval), end
    reader = GridReader(wanted, lambda: end)
    with asyncio.Runner() as runner:
        api = queries.Api(wanted.server)
        runner.run(api.__aenter__())
        batches = reader.history(api, first, last)
        try:
            while (batch := runner.run(_next(batches))) is not None:
                if batch:
                    yield batch
                    if progress is not None:
                        progress((batch[0].at - first) / max(last - first, wanted.interval))
        except queries.QueryError as error:
            raise sources.Unreadable(str(error)) from error
        finally:
            runner.run(api.__aexit__())
    if progress is not None:
        progress(1.0)


async def _next(batches: AsyncIterator[list[Scrape]]) -> list[Scrape] | None:
    return await anext(batches, None)


def _on_grid(unix_seconds: float, interval: float) -> float:
    """Return the first time of the grid that is not before `unix_seconds`."""
    return round(math.ceil(round(unix_seconds / interval, 6)) * interval, _EXACT)


def _times(start: float, end: float, step: float) -> list[float]:
    count = int((end - start) / step + 1e-6) + 1
    return [round(start + index * step, _EXACT) for index in range(count)]
