"""Two ways to tell: an Alertmanager is told a state again and again, a webhook each change once, in order.

Nothing here does input or output; time comes in as unix seconds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Protocol

from monitor.notify import alerts, rows
from monitor.notify.rows import Notice
from monitor.web import fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.notify.plan import LinkBases
    from monitor.notify.rows import Rows
    from monitor.web.fields import Record

MOST_ALERTS_A_POST = 64
RETOLD_SECONDS = 900.0  # so long an Alertmanager that restarts is told again that an alert is over


class Queue(Protocol):
    """What one receiver is told; `rows` is all that a restart needs."""

    rows: Rows

    def offer(self, event: Record, labels: Mapping[str, str], now: float, *, again: bool = False) -> None:
        """Take an event that opened, grew or closed; the same event again changes nothing.

        `again`: it is open again after its end was told, which is another notice than its first one.
        """

    def open_ids(self) -> set[str]:
        """Return the ids of the events that the receiver is told to be open, or will be."""

    def due(self, now: float) -> list[Notice]:
        """Return what one post is to say now."""

    def wait(self, now: float) -> float:
        """Return the seconds until something is due, infinite where only an event can bring that about."""

    def accepted(self, notices: Sequence[Notice], now: float) -> None:
        """Note that a post of `notices` was accepted."""

    def waiting(self) -> int:
        """Return how many notices the receiver has not accepted."""

    def content(self, notices: Sequence[Notice], site: LinkBases, now: float) -> object:
        """Return the JSON value to post."""


class AlertQueue:
    """The state of each alert, posted every `resend_seconds` while it is open, at once when it changes."""

    def __init__(self, kept: Rows, resend_seconds: float) -> None:
        self.rows = kept
        self._resend = resend_seconds
        self._posted: dict[str, float] = {}
        self._keys = {_same_alert(notice.event, notice.labels): notice.key for notice in kept.all()}

    def offer(self, event: Record, labels: Mapping[str, str], now: float, *, again: bool = False) -> None:
        """Replace the alert's state. An event that grew is another alert: the one that it was is over."""
        key = f"{event['id']}/{event['kind']}/{event['severity']}"
        before = self.rows.get(key)
        if before is not None and before.event == event:
            return
        others = self.rows.of(fields.text(event, "id"))
        for other in others:
            if other.key != key and other.closed_at is None:
                self._end(other, now)
        labels = others[0].labels if others else labels
        told: Literal["", "open", "closed"] = "open" if before and before.told == "open" else ""
        same = _same_alert(event, labels)
        earlier = self.rows.get(self._keys.get(same, ""))
        if earlier is not None and earlier.key != key:
            # An earlier event of the same stream and kind: for Alertmanager one alert that goes on.
            told = "open" if earlier.told == "open" else told
            self.rows.drop(earlier)
        self._keys[same] = key
        self.rows.put(Notice(key, event, labels, told, now if again else rows.happened_at(event)))
        self._posted.pop(key, None)

    def open_ids(self) -> set[str]:
        """Return the ids of the events whose alert is open."""
        return {notice.event_id for notice in self.rows.all() if notice.closed_at is None}

    def due(self, now: float) -> list[Notice]:
        """Return the alerts that changed or were last posted a resend interval ago, as many as fit a post."""
        self.rows.drop_old(now)
        for notice in self.rows.all():
            if _settled(notice) and self._due_in(notice, now) <= 0:
                self._forget(notice)
        return [notice for notice in self.rows.all() if self._due_in(notice, now) <= 0][:MOST_ALERTS_A_POST]

    def wait(self, now: float) -> float:
        """Return the seconds until the next alert is due."""
        return min((max(self._due_in(notice, now), 0.0) for notice in self.rows.all()), default=math.inf)

    def accepted(self, notices: Sequence[Notice], now: float) -> None:
        """Note what the Alertmanager knows now; what changed while the post was under way stays due."""
        for notice in notices:
            current = self.rows.get(notice.key)
            late = _late(notice)
            state: Literal["open", "closed"] = "open" if late or notice.closed_at is None else "closed"
            if current is not notice:
                if current is not None:
                    self.rows.put(rows.told(current, state))
            elif late:
                self._forget(notice)  # it ends by itself
            else:
                self._posted[notice.key] = now
                if notice.told != state:
                    self.rows.put(rows.told(notice, state))

    def waiting(self) -> int:
        """Return how many alerts changed since the Alertmanager accepted them."""
        return sum(not _settled(notice) and notice.key not in self._posted for notice in self.rows.all())

    def content(self, notices: Sequence[Notice], site: LinkBases, now: float) -> object:
        """Return the list of alerts."""
        lifetime = alerts.LIFETIMES * self._resend
        return [
            alerts.alert(each.event, each.labels, site, now, lifetime=lifetime, late=_late(each))
            for each in notices
        ]

    def forgotten(self) -> None:
        """Tell all of it again: the Alertmanager has restarted and forgotten its alerts."""
        self._posted.clear()
        for notice in self.rows.all():
            if notice.told == "closed":
                self.rows.put(rows.told(notice, "open"))

    def _end(self, notice: Notice, now: float) -> None:
        if notice.told:
            self.rows.put(replace(notice, event=rows.ended(notice.event, now)))
            self._posted.pop(notice.key, None)
        else:
            self._forget(notice)  # nobody knows of it, and what it grew to is told

    def _forget(self, notice: Notice) -> None:
        self.rows.drop(notice)
        self._posted.pop(notice.key, None)
        same = _same_alert(notice.event, notice.labels)
        if self._keys.get(same) == notice.key:
            del self._keys[same]

    def _due_in(self, notice: Notice, now: float) -> float:
        """Return the seconds until a notice is due; of one that is settled, until it can be forgotten."""
        if _settled(notice):
            return (notice.closed_at or now) + RETOLD_SECONDS - now
        posted = self._posted.get(notice.key)
        # Posted later than now: the clock was set back, and waiting for it would let the alert end.
        return 0.0 if posted is None or posted > now else posted + self._resend - now


class HookQueue:
    """Each change of each event once: it opened, it grew into another kind or severity, it closed."""

    def __init__(self, kept: Rows) -> None:
        self.rows = kept

    def offer(self, event: Record, labels: Mapping[str, str], now: float, *, again: bool = False) -> None:
        """Take a change; one that waits already is brought up to date, one that was told stays told."""
        key = "/".join(fields.text(event, name) for name in ("id", "kind", "severity", "status"))
        if event["status"] == "open":
            for end in self.rows.of(fields.text(event, "id")):
                if end.closed_at is not None:
                    self.rows.drop(end)  # it is open again, and nobody was told that it was over
        before = self.rows.get(key)
        if before is None:
            self.rows.put(Notice(key, event, labels, offered_at=now if again else rows.happened_at(event)))
        elif not before.told and before.event != event:
            self.rows.put(replace(before, event=event))

    def open_ids(self) -> set[str]:
        """Return the ids of the events whose end was not taken yet."""
        every = self.rows.all()
        ids = {notice.event_id for notice in every}
        return ids - {notice.event_id for notice in every if notice.closed_at is not None}

    def due(self, now: float) -> list[Notice]:
        """Return the oldest change that was not told: one at a time keeps their order."""
        self.rows.drop_old(now)
        return [notice for notice in self.rows.all() if not notice.told][:1]

    def wait(self, now: float) -> float:  # noqa: ARG002 - as `Queue` has it
        """Return 0 where a change waits."""
        return 0.0 if self.waiting() else math.inf

    def accepted(self, notices: Sequence[Notice], now: float) -> None:  # noqa: ARG002 - as `Queue` has it
        """Remember what was told until the event is over and that is told too."""
        self.refused(notices)

    def refused(self, notices: Sequence[Notice]) -> None:
        """Go on with the next change, since the receiver will never take this one."""
        for notice in notices:
            if notice.closed_at is None:
                self.rows.put(rows.told(notice, "open"))
                continue
            for each in self.rows.of(notice.event_id):
                self.rows.drop(each)

    def waiting(self) -> int:
        """Return how many changes were not told."""
        return sum(not notice.told for notice in self.rows.all())

    def content(self, notices: Sequence[Notice], site: LinkBases, now: float) -> object:  # noqa: ARG002 - as `Queue` has it
        """Return the one event."""
        return alerts.body(notices[0].event, notices[0].labels, site)


def _same_alert(event: Record, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(alerts.identity(event, labels).items()))


def _late(notice: Notice) -> bool:
    """Whether an event ended before the Alertmanager was ever told of it."""
    return notice.closed_at is not None and not notice.told


def _settled(notice: Notice) -> bool:
    return notice.told == "closed"
