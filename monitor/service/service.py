"""The running service: loops that scrape, step, save and serve, started and stopped together.

Every loop is a named task of one group. An expected failure (a target that does not answer, a full disk)
is a value or a counter; an unexpected one ends the group and the process with it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor import notify
from monitor.core import pipeline, streams
from monitor.core.streams import history, losses, presence
from monitor.core.vocabulary import STATES
from monitor.metrics import selfmetrics
from monitor.service import complaints, probes, pulse, saving, snapshot
from monitor.service.locking import StateLock
from monitor.sources import http
from monitor.sources.discovery import shards
from monitor.sources.targets import ONCE, Beside
from monitor.web import states as shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Executor

    from monitor.core.events import Event
    from monitor.core.pages.engines.base import Engine
    from monitor.core.pages.scrapes import Failure, Scrape
    from monitor.core.pipeline import Looked, Plan
    from monitor.metrics.textformat import Family
    from monitor.notify import Notifier
    from monitor.notify.notifier import KeptNotices
    from monitor.service.snapshot import Snapshot, SnapshotParts
    from monitor.sources.discovery.running import Discovery
    from monitor.sources.prometheus import GridReader
    from monitor.sources.targets import Target
    from monitor.store import Store

log = logging.getLogger(__name__)

LONGEST_BATCH_SECONDS = 1.0
BATCHES_PER_INTERVAL = 4.0
ROWS_SAVED_PER_SECOND = 50.0
LARGE_PAGE_BYTES = 1 << 20  # one that is refused is asked for less often


class Service:
    """Scrapes the targets, steps the pipeline, keeps the store, and makes the snapshots that pages show.

    `clock` gives unix seconds. `interval` is the scrape interval and `bucket` the length of a history
    bucket, both in seconds. `discovery` runs with the service; whoever made it calls `replace` on its news.
    `external_url` is how people reach the pages, "" where nobody said so.
    `queried` reads targets from a query API; a target that is scraped too is not taken from there.
    """

    def __init__(  # noqa: PLR0913 - the parts that a service is made of
        self,
        plan: Plan,
        targets: Sequence[Target],
        kept: Store,
        *,
        clock: Callable[[], float],
        bucket: float = 60.0,
        config: Callable[[], str] = str,
        simulated: bool = False,
        discovery: Discovery | None = None,
        notifier: Notifier | None = None,
        queried: GridReader | None = None,
        shard: shards.Shard | None = None,
        external_url: str = "",
    ) -> None:
        self._plan, self._store = plan, kept
        self._clock, self._bucket = clock, bucket
        self._discovery = discovery
        self._queried, self._shard = queried, shard or shards.Shard()
        self._targets = {target.name: target for target in targets}
        self._scraped = {target.name: target.url for target in targets}
        self._notifier = notifier or notify.Notifier(clock=clock)
        self._pending: list[Scrape] = []
        self._arrived, self._stepping = asyncio.Event(), threading.Lock()
        self._recorder, self._pulse = history.Recorder(), pulse.Pulse()
        self._past = math.nan  # the time of the past that is being stepped, while it is
        self._running: set[str] = set()
        self._reload = (True, clock())
        self._state = saving.restored(plan, kept)
        self._scraper = http.Scraper(targets, self._deliver, clock)
        self._engines: dict[str, str] = {}
        self._complaints = complaints.Complaints()
        self._facts = self._first_facts(config, simulated=simulated, external_url=external_url)
        self._saver = saving.Saver(self._facts, self._notifier, self._labels)
        self.tell = self._saver.tell

    def snapshot(self) -> snapshot.Snapshot:
        """Return a look at everything now."""
        return snapshot.Snapshot(self._facts, self._clock())

    async def probe(self, name: str, seconds: float | None) -> Snapshot | None:
        """Scrape one of the targets once and return what that shows; None where none has this name."""
        target = self._targets.get(name)
        return None if target is None else await probes.probed(self._facts, self._plan, target, seconds)

    def ready(self) -> tuple[bool, str]:
        """Return whether all loops run, and which does not."""
        wanted = {"scrape", "step", "save", "notify"} | ({"discovery"} if self._discovery else set())
        wanted |= {"query"} if self._queried else set()
        missing = wanted - self._running
        if missing:
            return False, f"not running: {', '.join(sorted(missing))}"
        return True, "; ".join(filter(None, ("all loops run", self._progress())))

    def _progress(self) -> str:
        return self._queried.progress if self._queried is not None else ""

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, then save and return."""
        with (
            ThreadPoolExecutor(1, thread_name_prefix="store") as pool,
            ThreadPoolExecutor(1, thread_name_prefix="step") as stepping,
        ):
            loops = {
                "pulse": self._pulse.run(),
                "scrape": self._scraper.run(),
                "step": self._steps(stepping),
                "save": self._saves(pool),
                "notify": self._notifier.run(functools.partial(self._keep_notices, pool)),
            }
            if self._discovery is not None:
                loops["discovery"] = self._discovery.run()
            if self._queried is not None:
                loops["query"] = self._queried.run(self._take, self._queried_until())
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._named(*each), name=each[0]) for each in loops.items()]
                await stop.wait()
                await self._scraper.stop()
                for task in tasks:
                    task.cancel()
        self._step()
        self._saver.save_last(self._record)

    def replace(self, plan: Plan, targets: Sequence[http.Target]) -> None:
        """Go on with other targets and other settings of the detectors; the state stays.

        Raises ValueError, and changes nothing, where two targets have one name.
        """
        for name in self._scraper.set_targets(targets):
            self._engines.pop(name, None)
            self._complaints.forget(name)
        self._plan = self._facts.plan = plan
        self._targets = {target.name: target for target in targets}
        self._scraped = {target.name: target.url for target in targets}
        self._list()

    def notify(self, plan: notify.NotifyPlan) -> None:
        """Go on with other receivers of notifications; they are told what is open."""
        self._notifier.replace(plan)
        self._saver.ask_all()

    def note_reload(self, *, successful: bool) -> None:
        """Remember how the last reload of the configuration went."""
        self._reload = (successful, self._clock() if successful else self._reload[1])

    def _first_facts(self, config: Callable[[], str], *, simulated: bool, external_url: str) -> SnapshotParts:
        return snapshot.SnapshotParts(
            plan=self._plan,
            state=self._state,
            store=self._store,
            lock=StateLock(),
            urls=self._scraped,
            config=config,
            ready=self.ready,
            progress=self._progress,
            self_families=self._self_families,
            started_at=self._clock(),
            simulated=simulated,
            external_url=external_url.rstrip("/"),
        )

    async def _named(self, name: str, loop: Awaitable[None]) -> None:
        self._running.add(name)
        try:
            await loop
        finally:
            self._running.discard(name)

    def _deliver(self, scrape: Scrape) -> None:
        self._pending.append(scrape)
        self._arrived.set()

    def _take(self, batch: list[Scrape]) -> None:
        """Step at once with what the query API had at one time, so that no hour of it is held in memory.

        What is of the past is noted under its own times.
        """
        self._list()
        self._pending += [scrape for scrape in batch if scrape.target not in self._scraped]
        at = min((scrape.at for scrape in batch), default=math.inf)
        if self._scraped or self._queried is None or not self._queried.is_past(at):
            self._step()
            return
        self._past = at
        try:
            self._step()
            with self._facts.lock.first():
                if not at - self._recorder.at < self._bucket:
                    self._saver.keep(self._taken())
        finally:
            self._past = math.nan

    def _list(self) -> None:
        """Note which targets there are; one that is scraped is not read from the query API."""
        self._facts.urls = {**(self._queried.urls if self._queried else {}), **self._scraped}

    def _queried_until(self) -> float:
        """Return up to when the targets that are not scraped were read before the restart, NaN if never."""
        read = [each.last_at for name, each in self._state.targets.items() if name not in self._scraped]
        return max(read, default=math.nan)

    async def _steps(self, pool: Executor) -> None:
        delay = min(LONGEST_BATCH_SECONDS, self._plan.limits.scrape_interval / BATCHES_PER_INTERVAL)
        loop = asyncio.get_running_loop()
        while True:
            await self._arrived.wait()
            await asyncio.sleep(delay)
            # On a thread: whatever is in a page, it must not hold up the scrapes of the others.
            self._follow(await loop.run_in_executor(pool, self._stepped, self._batch()))

    def _step(self) -> None:
        self._follow(self._stepped(self._batch()))

    def _batch(self) -> list[Scrape]:
        self._arrived.clear()
        batch, self._pending = self._pending, []
        return sorted(batch, key=lambda scrape: scrape.at)

    def _stepped(self, batch: Sequence[Scrape]) -> _Stepped:
        """Step the pipeline; may run on any thread, one step after the other."""
        with self._stepping:
            return self._stepped_alone(batch)

    def _stepped_alone(self, batch: Sequence[Scrape]) -> _Stepped:
        plan, known = self._plan, dict(self._engines)
        # Pages are read before the lock is taken: who asks for metrics does not wait for one of 20 MB.
        looked = pipeline.look(plan, self._state, batch)
        seen = {each.scrape.target: each.memory.schema.engine for each in looked if each.memory.schema}
        # Of an engine that is new the next look brings the pages that this one is to be read with.
        looked = [each for each in looked if each.scrape.target in known or not _lacks_beside(each)]
        if not looked:
            return _Stepped(seen)
        with self._facts.lock.first():
            step = pipeline.advance(plan, self._state, looked)
            self._note_states()
            self._saver.note(step.events)
            names = sorted({each.scrape.target for each in looked})
            dropped = {name: self._state.targets[name].dropped for name in names}
            failures = {name: self._state.targets[name].failure for name in names}
            restarted = [
                self._state.identities[row].key.target
                for observation in step.observations
                for row in observation.counts.rows[observation.counts.restarted]
            ]
        wasted = [each.scrape.target for each in looked if _was_wasted(each)]
        return _Stepped(seen, failures, restarted, dropped, wasted)

    def _follow(self, stepped: _Stepped) -> None:
        """Do what a step asks for, on the event loop."""
        for name, failure in stepped.failures.items():
            if name in self._facts.urls:
                self._complaints.tell_failure(name, failure)
        for name, engine in stepped.engines.items():
            if name in self._facts.urls:
                self._ask_beside(name, engine)
        for name, count in stepped.dropped.items():
            self._complaints.tell_dropped(name, count)
        for name in stepped.wasted:
            self._scraper.spare(name)
        for name in stepped.restarted:
            self._scraper.ask_again(name)

    def _ask_beside(self, name: str, engine: Engine) -> None:
        """Have the engine's other pages read too, once it is known which engine it is."""
        if self._engines.get(name) != engine.name:
            self._engines[name] = engine.name
            always = [Beside(path, 0.0) for path in engine.beside]
            self._scraper.set_beside(name, [*always, *(Beside(path, ONCE) for path in engine.identity)])

    def _note_states(self) -> None:
        """Remember since when each stream is in its state."""
        streams.note_states(self._state, self._now(), self._plan.limits)

    def _now(self) -> float:
        """The time of what is being stepped: the clock's, but for the past that is being read."""
        return self._clock() if math.isnan(self._past) else self._past

    def _labels(self, event: Event) -> dict[str, str]:
        declared = self._plan.declared.get(event.key.target) if event.key else None
        return dict(declared.labels) if declared else {}

    def _attend(self) -> None:
        """Once all targets are known: close the events of those that left, forget those that stay away."""
        if self._discovery is not None and not self._discovery.complete():
            return
        if self._queried is not None and not self._queried.complete:
            return
        now, limits = self._clock(), self._plan.limits
        with self._facts.lock.first():
            left = presence.attend(self._state, limits, self._facts.urls, now)
            self._saver.note(losses.stamped(self._plan, self._state, left), again=True)
            self._note_states()
            presence.forget(self._state, limits, now)

    async def _saves(self, pool: Executor) -> None:
        """Save events within a second, state and history each bucket (less often for many streams)."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await asyncio.sleep(min(1.0, self._bucket))
            now = loop.time()  # not the wall clock: set back by days it would stop the saving for days
            if now >= due:
                await loop.run_in_executor(pool, self._attend)
                due = now + max(self._bucket, len(self._state.identities) / ROWS_SAVED_PER_SECOND)
                await self._saver.run(pool, self._record)
            elif self._saver.waits:
                await self._saver.run(pool, None)

    async def _keep_notices(self, pool: ThreadPoolExecutor, notices: KeptNotices) -> bool:
        return await asyncio.get_running_loop().run_in_executor(pool, self._store.keep_notices, notices)

    def _record(self) -> list[history.HistoryBucket]:
        """Return the buckets of history since the last call, the lock held.

        Nothing while the query API is behind: what it has will come with its own times.
        """
        if self._queried is not None and not self._scraped and not self._queried.complete:
            if not self._progress():
                self._note_states()
            return []
        self._note_states()
        return self._taken()

    def _taken(self) -> list[history.HistoryBucket]:
        taken = self._recorder.take(self._state, STATES, self._now())
        return [*taken, *history.of_models(self._state, taken, tuple(shown.STATES))]

    def _self_families(self) -> Iterable[Family]:
        yield from self._store.families()
        yield from self._notifier.families()
        successful, at = self._reload
        if self._discovery is not None:
            yield from self._discovery.families()
        if self._queried is not None:
            yield from self._queried.families()
        yield from self._shard.families()
        yield from self._pulse.families()
        yield selfmetrics.web_family(self._facts.external_url)
        yield from selfmetrics.reload_families(successful=successful, succeeded_at=at)


@dataclass(frozen=True, slots=True)
class _Stepped:
    """What a step asks of the event loop: engines recognised, failures to tell, engines that restarted.

    `dropped` has how often streams of a target found no room; `wasted` the targets whose page was work for
    nothing.
    """

    engines: Mapping[str, Engine]
    failures: Mapping[str, Failure | None] = field(default_factory=dict)
    restarted: Sequence[str] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    wasted: Sequence[str] = ()


def _lacks_beside(looked: Looked) -> bool:
    """Return whether this is the page of an engine whose pages say little alone."""
    schema = looked.memory.schema
    return looked.scrape.body is not None and schema is not None and schema.engine.needs_beside


def _was_wasted(looked: Looked) -> bool:
    """Return whether a page of megabytes was read and then refused."""
    body = looked.scrape.body
    return body is not None and len(body) >= LARGE_PAGE_BYTES and looked.said.failure is not None


if TYPE_CHECKING:
    from collections.abc import Awaitable
