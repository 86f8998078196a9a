"""Delivers the queue of one receiver over HTTP, again and again until it is accepted."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.notify import posting
from monitor.notify.posting import UndeliveredError
from monitor.notify.queues import AlertQueue, HookQueue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import aiohttp

    from monitor.notify.plan import NotifyPlan, Receiver
    from monitor.notify.queues import Queue
    from monitor.notify.rows import Changes, Notice, Rows

    Keep = Callable[[str, Changes], Awaitable[bool]]

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
LAST_ANSWER_SECONDS = 2.0  # so long a post that is under way may hold up a reload or the end of the process


@dataclass(slots=True)
class Tally:
    """How many posts a receiver accepted, and did not."""

    sent: int = 0
    failures: int = 0


class Courier:
    """One receiver's queue and counts. `clock` gives unix seconds, `jitter` numbers from 0 to 1."""

    def __init__(
        self,
        receiver: Receiver,
        plan: NotifyPlan,
        kept: Rows,
        *,
        clock: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        self.receiver = receiver
        self.queue: Queue = (
            AlertQueue(kept, plan.resend_seconds) if receiver.kind == "alertmanager" else HookQueue(kept)
        )
        self.tally = Tally()
        self._plan = plan
        self._line = posting.Line(receiver)
        self._clock = clock
        self._jitter = jitter
        self._news = asyncio.Event()
        self._streak = 0
        self._started = ""

    def wake(self) -> None:
        """Look at the queue now."""
        self._news.set()

    async def run(self, session: aiohttp.ClientSession, free: asyncio.Event, keep: Keep) -> None:
        """Deliver until cancelled; nothing is posted while `free` is not set; `keep` saves what changed.

        Whoever cancels this waits for the answer to a post that is under way: without it the same would be
        posted once more.
        """
        while True:
            await self._until_due()
            await free.wait()
            self._news.clear()
            turn = asyncio.ensure_future(self._turn(session, keep))
            try:
                pause = await asyncio.shield(turn)
            except asyncio.CancelledError:
                await asyncio.wait([turn], timeout=LAST_ANSWER_SECONDS)
                turn.cancel()
                await asyncio.gather(turn, return_exceptions=True)
                raise
            await asyncio.sleep(pause)

    async def _turn(self, session: aiohttp.ClientSession, keep: Keep) -> float:
        """Post what is due and have what changed saved; return the seconds until there may be a next post."""
        if isinstance(self.queue, AlertQueue) and self.queue.rows.all():
            self._note_restart(await self._line.started(session), self.queue)
        batch = self.queue.due(self._clock())
        pause = await self._deliver(session, batch) if batch else 0.0
        changes, kept = self.queue.rows.changes(), False
        try:
            kept = not changes or await keep(self.receiver.name, changes)
        finally:
            if not kept:
                self.queue.rows.unkept(changes)
        return pause

    async def _until_due(self) -> None:
        seconds = self.queue.wait(self._clock())
        if isinstance(self.queue, AlertQueue) and self.queue.rows.all():
            seconds = min(seconds, self._plan.resend_seconds)
        if seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds if seconds < float("inf") else None):
                await self._news.wait()
        except TimeoutError:
            return

    async def _deliver(self, session: aiohttp.ClientSession, batch: Sequence[Notice]) -> float:
        """Post a batch and return the seconds to wait before the next one."""
        now = self._clock()
        content = self.queue.content(batch, self._plan.site, now)
        fields = {"receiver": self.receiver.name, "url": self.receiver.shown}
        try:
            await self._line.post(session, content, batch[0].idempotency_key)
        except UndeliveredError as error:
            return self._failed(error, batch, fields)
        if self._streak:
            log.info("notifications are accepted again", extra=fields | {"failures": self._streak})
        self._streak = 0
        self.tally.sent += 1
        self.queue.accepted(batch, now)
        return 0.0

    def _failed(self, error: UndeliveredError, batch: Sequence[Notice], fields: dict[str, str]) -> float:
        self.tally.failures += 1
        if error.final and isinstance(self.queue, HookQueue):
            self.queue.rows.dropped += len(batch)
            self.queue.refused(batch)
            log.error("notification refused, not tried again", extra=fields | {"error": str(error)})
            return 0.0
        level = logging.DEBUG if self._streak else logging.WARNING
        log.log(level, "notification not accepted, will be tried again", extra=fields | {"error": str(error)})
        pause = min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._streak, 10), LONGEST_PAUSE_SECONDS)
        self._streak += 1
        return max(pause * (0.5 + self._jitter()), error.pause)

    def _note_restart(self, started: str, queue: AlertQueue) -> None:
        """Have everything told again where the Alertmanager has restarted: it keeps its alerts in memory."""
        if started and self._started and started != self._started:
            queue.forgotten()
        self._started = started or self._started
