"""What one receiver is still to be told and what it was told already: rows that the store keeps."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from monitor.web import fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from monitor.web.fields import Record

    Changes = Mapping[str, str | None]

MOST_LATE_SECONDS = 3 * 86_400.0  # what ended so long ago without anybody being told is no news any more


@dataclass(frozen=True, slots=True)
class Notice:
    """One event as one receiver is told it; `told` is what the receiver has accepted so far.

    `event` is as `event_records` writes it, `labels` are the target's. `key` tells apart what is told
    apart; `offered_at` (unix seconds) is when the event was raised or closed, so that whoever comes to the
    same notice once more gives it the same key; of an event that is open again it is when it was.
    """

    key: str
    event: Record
    labels: Mapping[str, str]
    told: Literal["", "open", "closed"] = ""
    offered_at: float = 0.0

    @property
    def event_id(self) -> str:
        """The event's id."""
        return fields.text(self.event, "id")

    @property
    def idempotency_key(self) -> str:
        """What is the same in every attempt to tell this, and in no other notice."""
        return f"{self.key}/{self.offered_at:.3f}"

    @property
    def closed_at(self) -> float | None:
        """When the event ended, in unix seconds; None while it is open."""
        return fields.number(self.event, "closed_at")


class Rows:
    """Notices by key in the order of their arrival, and which of them differ from what is kept."""

    def __init__(self, kept: Iterable[tuple[str, str]] = ()) -> None:
        self._notices: dict[str, Notice] = {}
        self._of_event: dict[str, dict[str, None]] = {}
        self._changed: dict[str, None] = {}
        self.dropped = 0
        damaged: dict[str, None] = {}
        for key, record in kept:
            notice = _notice(key, record)
            if notice is None:
                damaged[key] = None
                self.dropped += 1
            else:
                self.put(notice)
        self._changed = damaged  # to be dropped from the store with the next save

    def get(self, key: str) -> Notice | None:
        """Return the notice at `key`."""
        return self._notices.get(key)

    def all(self) -> list[Notice]:
        """Return every notice, oldest first."""
        return list(self._notices.values())

    def of(self, event_id: str) -> list[Notice]:
        """Return the notices of one event, oldest first."""
        return [self._notices[key] for key in self._of_event.get(event_id, ())]

    def put(self, notice: Notice) -> None:
        """Add a notice, or replace the one with its key, which keeps its place."""
        self._notices[notice.key] = notice
        self._of_event.setdefault(notice.event_id, {})[notice.key] = None
        self._changed[notice.key] = None

    def drop(self, notice: Notice) -> None:
        """Forget a notice."""
        if self._notices.pop(notice.key, None) is None:
            return
        self._changed[notice.key] = None
        keys = self._of_event[notice.event_id]
        del keys[notice.key]
        if not keys:
            del self._of_event[notice.event_id]

    def drop_old(self, now: float) -> None:
        """Give up what ended long ago and could never be told, and count it."""
        for notice in self.all():
            if (
                notice.closed_at is not None
                and not notice.told
                and now - notice.closed_at > MOST_LATE_SECONDS
            ):
                self.drop(notice)
                self.dropped += 1

    def changes(self) -> dict[str, str | None]:
        """Return what is to be kept, by key, None where a row is gone; it counts as kept from here on."""
        changed, self._changed = self._changed, {}
        return {key: _record(self._notices.get(key)) for key in changed}

    def unkept(self, changes: Changes) -> None:
        """Take changes back that could not be kept: they are among the next ones."""
        self._changed = dict.fromkeys(changes) | self._changed


def happened_at(event: Record) -> float:
    """Return when an event closed, or was raised if it is open (unix seconds)."""
    closed_at = fields.number(event, "closed_at")
    return (fields.number(event, "raised_at") or 0.0) if closed_at is None else closed_at


def ended(event: Record, now: float) -> Record:
    """Return an event closed at `now` (unix seconds)."""
    return {**event, "status": "closed", "closed_at": now}


def told(notice: Notice, state: Literal["open", "closed"]) -> Notice:
    """Return a notice that its receiver has accepted as open or as closed."""
    return replace(notice, told=state)


def _record(notice: Notice | None) -> str | None:
    if notice is None:
        return None
    saved = {
        "event": notice.event,
        "labels": dict(notice.labels),
        "told": notice.told,
        "offered_at": notice.offered_at,
    }
    return json.dumps(saved, allow_nan=False, ensure_ascii=False)


def _notice(key: str, record: str) -> Notice | None:
    """Return a kept notice, None where what is kept is damaged."""
    try:
        saved = json.loads(record)
        notice = Notice(key, saved["event"], saved["labels"], saved["told"], saved["offered_at"])
        happened_at(notice.event)
        if saved["told"] not in ("", "open", "closed"):
            return None
        float(saved["offered_at"]), dict(notice.labels)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return notice
