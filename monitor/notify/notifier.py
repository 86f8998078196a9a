"""All receivers together: takes events, hands them to each receiver's queue, runs the deliveries."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

import aiohttp

import monitor
from monitor.metrics import textformat
from monitor.metrics.textformat import Column, Family
from monitor.notify import rows
from monitor.notify.courier import Courier
from monitor.notify.plan import NotifyPlan
from monitor.notify.rows import Rows
from monitor.sources import lookups
from monitor.web import fields

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

    from monitor.notify.queues import Queue
    from monitor.web.fields import Record

    KeptNotices = Sequence[tuple[str, str, str | None]]
    OpenEvents = Sequence[tuple[Record, Mapping[str, str]]]
    Offer = tuple[Record, Mapping[str, str], bool]

log = logging.getLogger(__name__)

POST_SECONDS = 10.0


class Notifier:
    """Tells the receivers of `plan` what happens; `kept` are (receiver, key, record) of an earlier life.

    The events of a save are offered just before it, `changes` goes into the same transaction as they do, and
    `release` lets the deliveries see them. `clock` gives unix seconds, `jitter` numbers from 0 to 1.
    """

    def __init__(
        self,
        plan: NotifyPlan | None = None,
        kept: Iterable[tuple[str, str, str]] = (),
        *,
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._offered: list[Offer] = []
        self._orphans: list[tuple[str, str]] = []
        self._free = asyncio.Event()
        self._free.set()
        self._replaced = asyncio.Event()
        self._couriers: dict[str, Courier] = {}
        found: dict[str, list[tuple[str, str]]] = {}
        for receiver, key, record in kept:
            found.setdefault(receiver, []).append((key, record))
        self._install(plan or NotifyPlan(), {name: Rows(each) for name, each in found.items()})

    def offer(self, event: Record, labels: Mapping[str, str], *, again: bool = False) -> None:
        """Take an event that opened, grew or closed, as `event_records` writes it, with its target's labels.

        `again`: it is open again after its end was told.
        """
        if self._couriers:
            self._offered.append((event, labels, again))

    def changes(self, open_now: OpenEvents | None = None) -> list[tuple[str, str, str | None]]:
        """Return what the store is to keep of the notices; to be followed by `release` after the save.

        `open_now` is given at the start and when targets or receivers changed: all that is open at the moment
        of this very save, as the events offered before. What is open and was not told is told; what was told
        as open and is no longer watched is ended.
        """
        offered, self._offered = self._offered, []
        offered += [(event, labels, False) for event, labels in open_now or ()]
        self._free.clear()
        now = self._clock()
        for courier in self._couriers.values():
            queue = courier.queue
            for event, labels, again in offered:
                if self._plan.covers(event["severity"]) or queue.rows.of(fields.text(event, "id")):
                    queue.offer(event, labels, now, again=again)
            if open_now is not None:
                _end_others(queue, {fields.text(event, "id") for event, _ in open_now}, now)
        orphans: list[tuple[str, str, str | None]] = [(name, key, None) for name, key in self._orphans]
        self._orphans = []
        return orphans + [
            (name, key, record)
            for name, courier in self._couriers.items()
            for key, record in courier.queue.rows.changes().items()
        ]

    def release(self, unkept: KeptNotices = ()) -> None:
        """Deliver what was offered; `unkept` could not be saved and is among the next changes."""
        for name, key, record in unkept:
            if name in self._couriers:
                self._couriers[name].queue.rows.unkept({key: record})
            elif record is None:
                self._orphans.append((name, key))
        self._free.set()
        for courier in self._couriers.values():
            courier.wake()

    def replace(self, plan: NotifyPlan) -> None:
        """Go on with other receivers and settings; a receiver that stays by name keeps its queue."""
        if plan == self._plan:
            return
        before = self._couriers
        self._install(plan, {name: old.queue.rows for name, old in before.items()})
        for name in before.keys() & self._couriers.keys():
            self._couriers[name].tally = before[name].tally
        self._replaced.set()

    async def run(self, keep: Callable[[KeptNotices], Awaitable[bool]]) -> None:
        """Deliver until cancelled; `keep` saves what was accepted and says whether it could."""

        async def keep_of(name: str, changes: rows.Changes) -> bool:
            return await keep([(name, key, record) for key, record in changes.items()])

        while True:
            self._replaced.clear()
            async with _session() as session, asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(courier.run(session, self._free, keep_of), name=f"notify {name}")
                    for name, courier in self._couriers.items()
                ]
                await self._replaced.wait()
                for task in tasks:
                    task.cancel()

    def families(self) -> Iterator[Family]:
        """Yield what is known of the deliveries, per receiver; nothing where there is none."""
        couriers = list(self._couriers.values())
        blocks = [textformat.labels({"receiver": courier.receiver.name}) for courier in couriers]
        counted: tuple[tuple[str, textformat.FamilyKind, str, list[int]], ...] = (
            ("sent", "counter", "Posts that the receiver accepted.", [each.tally.sent for each in couriers]),
            (
                "failures",
                "counter",
                "Posts that were not accepted; they are tried again.",
                [each.tally.failures for each in couriers],
            ),
            (
                "dropped",
                "counter",
                "Notices given up: refused by the receiver for what they say, or over for days.",
                [each.queue.rows.dropped for each in couriers],
            ),
            (
                "queue_length",
                "gauge",
                "Notices that the receiver has not accepted yet.",
                [each.queue.waiting() for each in couriers],
            ),
        )
        for name, kind, help_text, values in counted:
            yield Family(f"specmon_notify_{name}", kind, help_text, (Column(blocks, values),))

    def _install(self, plan: NotifyPlan, kept: Mapping[str, Rows]) -> None:
        self._plan = plan
        self._couriers = {
            receiver.name: Courier(
                receiver, plan, kept.get(receiver.name, Rows()), clock=self._clock, jitter=self._jitter
            )
            for receiver in plan.receivers
        }
        for name in kept.keys() - self._couriers.keys():
            waiting = kept[name].all()
            log.warning(
                "receiver is gone, its notices with it", extra={"receiver": name, "notices": len(waiting)}
            )
            self._orphans += [(name, notice.key) for notice in waiting]


def _end_others(queue: Queue, still_open: set[str], now: float) -> None:
    for event_id in queue.open_ids() - still_open:
        newest = queue.rows.of(event_id)[-1]
        queue.offer(rows.ended(newest.event, now), newest.labels, now)


def _session() -> aiohttp.ClientSession:
    # Posts are rare: a connection of its own for each never meets one that the other side has closed.
    return aiohttp.ClientSession(
        connector=lookups.connector(keepalive=None),
        timeout=aiohttp.ClientTimeout(total=POST_SECONDS),
        headers={"User-Agent": f"specmon/{monitor.__version__}"},
    )
