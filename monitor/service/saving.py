"""What is saved together is of one moment: the state, its events, the notices of these, the history.

A notice that is older or younger than the state beside it would, after a reload or a kill, tell an open event
as over, or a told one once more. So the events, the list of all that is open and the frozen state are taken
under one lock, and the notices are made of these very events before the transaction begins.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor import store
from monitor.core import pipeline, streams
from monitor.core.events import event_records
from monitor.core.streams import checkpoint, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Executor

    from monitor.core.events import Event
    from monitor.core.pipeline import Plan
    from monitor.core.streams import State
    from monitor.core.streams.history import HistoryBucket
    from monitor.notify import Notifier
    from monitor.notify.notifier import KeptNotices
    from monitor.service.snapshot import SnapshotParts
    from monitor.store import Store

    Labels = Callable[[Event], Mapping[str, str]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Offer:
    event: Event
    again: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """One moment of the service; `open_now` is None where nobody asked what is open."""

    blobs: Mapping[str, bytes]
    events: Sequence[Event]
    offers: Sequence[_Offer]
    open_now: Sequence[Event] | None
    buckets: Sequence[HistoryBucket]


def restored(plan: Plan, kept: Store) -> State:
    """Return the state that was saved, or a new one where there is none that this version can use.

    It has the changes that were told of before.
    """
    state = _saved(plan, kept)
    for change in kept.changes()[: told.MOST_CHANGES]:
        told.tell(state, told.from_record(change))
    return state


def _saved(plan: Plan, kept: Store) -> State:
    blobs = kept.load()
    if not blobs:
        return pipeline.begin(plan)
    try:
        return checkpoint.thaw(plan, blobs)
    except checkpoint.UnusableStateError as error:
        log.warning("beginning anew: %s", error)
        return pipeline.begin(plan)


class Saver:
    """Saves what `facts` hold and what was noted; `labels` gives those of an event's target."""

    def __init__(self, facts: SnapshotParts, notifier: Notifier, labels: Labels) -> None:
        self._facts, self._notifier, self._labels = facts, notifier, labels
        self._unsaved: list[Event] = []
        self._offers: list[_Offer] = []
        self._all_asked = True
        self._buckets: list[HistoryBucket] = []

    @property
    def waits(self) -> bool:
        """Whether something happened since the last save that is not to wait for the next bucket."""
        return bool(self._unsaved or self._offers or self._all_asked or self._buckets)

    async def tell(self, change: Mapping[str, object]) -> Mapping[str, object]:
        """Keep a change that somebody told of, or return the one that has its id; raises OSError."""
        return await asyncio.to_thread(self._told, change)

    def _told(self, change: Mapping[str, object]) -> Mapping[str, object]:
        try:
            kept = self._facts.store.tell(change)
        except store.UnwritableError as error:
            raise OSError(str(error)) from error
        if kept is change:
            with self._facts.lock.first():
                told.tell(self._facts.state, told.from_record(change))
        return kept

    def note(self, news: Iterable[Event], *, again: bool = False) -> None:
        """Take events of the state, its lock held. `again`: they are open after their end was told."""
        for event in news:
            log.info("event", extra=_in_short(event))
            self._unsaved.append(event)
            self._offers.append(_Offer(event, again and event.status == "open"))

    def keep(self, buckets: Iterable[HistoryBucket]) -> None:
        """Take buckets of history that are not those of a save's own time, the state's lock held."""
        self._buckets += buckets

    def ask_all(self) -> None:
        """Have the receivers brought to what is open at the next save."""
        self._all_asked = True

    async def run(self, pool: Executor, record: Callable[[], Sequence[HistoryBucket]] | None) -> None:
        """Save on a thread of `pool` and let the notices go; `record` makes the buckets, the lock held.

        Whoever cancels this waits for its end: what was taken to be saved is nowhere else any more.
        """
        saving = asyncio.ensure_future(self._run(pool, record))
        try:
            await asyncio.shield(saving)
        except asyncio.CancelledError:
            await saving
            raise

    async def _run(self, pool: Executor, record: Callable[[], Sequence[HistoryBucket]] | None) -> None:
        loop = asyncio.get_running_loop()
        cut = await loop.run_in_executor(pool, self._cut, record)
        notices = self._notices(cut)
        saved = await loop.run_in_executor(pool, self._save, cut, notices)
        # What cannot be saved is told all the same: a full disk must not keep an alarm back.
        self._notifier.release(() if saved else notices)

    def save_last(self, record: Callable[[], Sequence[HistoryBucket]]) -> None:
        """Save here and now, at the end of the process."""
        cut = self._cut(record)
        self._save(cut, self._notices(cut))

    def _cut(self, record: Callable[[], Sequence[HistoryBucket]] | None) -> Cut:
        with self._facts.lock:
            kept, self._buckets = self._buckets, []
            buckets = [*kept, *(record() if record is not None else ())]
            unsaved, self._unsaved = self._unsaved, []
            offers, self._offers = self._offers, []
            asked, self._all_asked = self._all_asked, False
            open_now = self._open() if asked else None
            return Cut(checkpoint.freeze(self._facts.state), unsaved, offers, open_now, buckets)

    def _open(self) -> list[Event]:
        state = self._facts.state
        found = [
            event
            for identity in state.identities
            if not state.targets[identity.key.target].left
            for event in streams.open_events(identity)
        ]
        return [*found, *state.groups.open.values(), *state.groups.releases.told()]

    def _notices(self, cut: Cut) -> KeptNotices:
        for offer in cut.offers:
            self._notifier.offer(
                event_records.as_json(offer.event), self._labels(offer.event), again=offer.again
            )
        if cut.open_now is None:
            return self._notifier.changes()
        return self._notifier.changes(
            [(event_records.as_json(each), self._labels(each)) for each in cut.open_now]
        )

    def _save(self, cut: Cut, notices: KeptNotices) -> bool:
        try:
            self._facts.store.save(cut.blobs, cut.events, cut.buckets, notices)
        except store.UnwritableError as error:
            log.error("the store cannot be written, will be tried again: %s", error)  # noqa: TRY400 - expected
            with self._facts.lock:
                self._unsaved = [*cut.events, *self._unsaved]
            return False
        return True


def _in_short(event: Event) -> dict[str, object]:
    """Return what a line of the log says of an event; the whole of it is on its page."""
    levels = {"mal_before": event.before.mal, "mal_after": event.after.mal}
    return {
        "kind": event.kind,
        "severity": event.severity,
        "status": event.status,
        "stream": event.stream or event.model_name,
        "changed_at": round(event.change_point_at, 3),
        **{key: round(value, 3) for key, value in levels.items() if math.isfinite(value)},
        "event": event.id,
    }
