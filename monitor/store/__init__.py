"""Keeps state, events and history in one SQLite file, so that a restart goes on where the last save stood.

Everything of a save is one transaction: whatever ends the process, the file holds a whole save or the one
before it. One process holds the file; a second one is refused.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
import time
from array import array
from typing import TYPE_CHECKING

from monitor.core.events import event_records
from monitor.core.streams.history import HistoryBucket
from monitor.metrics import textformat
from monitor.store import kept_changes, sqlite_file
from monitor.store.sqlite_file import UnusableFileError, UnwritableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from monitor.core.events import Event
    from monitor.metrics.textformat import Family

__all__ = ["Store", "UnusableFileError", "UnwritableError"]

log = logging.getLogger(__name__)

FINE_SECONDS = 86_400.0  # so long history stays as it was written
COARSE_SECONDS = 900.0  # then buckets of this length are made of it
UPKEEP_SECONDS = 900.0
SIZE_LIMIT = 2 << 30
IN_MEMORY_LIMIT = 128 << 20  # bytes of a store without a file, whatever its size limit
ROOM_SHARE = 0.9  # of the limit is used once room was made

_COUNTS = (
    "drafts",
    "draft_tokens",
    "accepted_tokens",
    "decode_outputs",
    "decode_seconds",
    "generation_tokens",
    "first_tokens",
)
_COLUMNS = ("at", "seconds", *_COUNTS, "accepted", "baseline_mal", "state")
_SUMS = ", ".join(f"sum({name})" for name in _COUNTS)
_UPSERT_EVENT = """
    INSERT INTO events (id, stream, scope, kind, status, raised_at, closed_at, record)
    VALUES (:id, :stream, :scope, :kind, :status, :raised_at, :closed_at, :record)
    ON CONFLICT (id) DO UPDATE SET kind = excluded.kind, status = excluded.status,
        closed_at = excluded.closed_at, record = excluded.record
"""
_OF_STREAM = (
    "(stream = ?1 OR scope = 'fleet' AND EXISTS"
    " (SELECT 1 FROM json_each(record, '$.streams') WHERE json_each.value = ?1))"
)
_INSERT_HISTORY = f"""
    INSERT OR REPLACE INTO history (stream, {", ".join(_COLUMNS)})
    VALUES ({", ".join("?" * (len(_COLUMNS) + 1))})
"""  # noqa: S608 - only names from above
_UPSERT_NOTICE = """
    INSERT INTO notices (receiver, key, record) VALUES (?, ?, ?)
    ON CONFLICT (receiver, key) DO UPDATE SET record = excluded.record
"""
_STREAM_ROW = "(SELECT row FROM streams WHERE id = ?)"
_COARSER = f"""
    SELECT stream, min(at), sum(seconds), {_SUMS}, positions(accepted),
        latest(at, baseline_mal), latest(at, CAST(state AS BLOB))
    FROM history WHERE at < ? AND seconds < ? GROUP BY stream, CAST(at / {COARSE_SECONDS} AS INTEGER)
"""  # noqa: S608 - only names from above


class Store:
    """The open file at `path`, in memory where `path` is empty. Safe to use from several threads.

    `retention` is in seconds and holds for history and closed events; beyond `size_limit` bytes the oldest
    history goes before its time. `clock` gives unix seconds. Raises UnusableFileError where the file is none
    of ours, of a newer version, or held by another process; a damaged one is moved aside, said in the log,
    and a new one begun.
    """

    def __init__(
        self,
        path: str = "",
        *,
        retention: float = 30 * 86_400.0,
        size_limit: int = SIZE_LIMIT,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._retention = retention
        self._size_limit = size_limit if path else min(size_limit, IN_MEMORY_LIMIT)
        self._clock = clock
        self._lock = threading.RLock()
        self._connect(sqlite_file.opened(path, clock))
        self._upkeep_at = 0.0
        self._saves = 0
        self._failures = 0
        self._saved_at = float("nan")
        self._save_seconds = float("nan")

    def _connect(self, connection: sqlite3.Connection) -> None:
        connection.create_aggregate("positions", 1, sqlite_file.Positions)  # type: ignore[arg-type]
        connection.create_aggregate("latest", 2, sqlite_file.Latest)  # type: ignore[arg-type]
        self._connection = connection
        self._streams: dict[str, int] = dict(connection.execute("SELECT id, row FROM streams"))

    def load(self) -> dict[str, bytes]:
        """Return the state of the last save by name; empty where nothing was saved."""
        with self._lock:
            return dict(self._connection.execute("SELECT name, value FROM state"))

    def save(
        self,
        state: Mapping[str, bytes],
        events: Sequence[Event] = (),
        buckets: Sequence[HistoryBucket] = (),
        notices: Sequence[tuple[str, str, str | None]] = (),
    ) -> None:
        """Replace the state, add or update the events, add the buckets: all of it or, on an error, nothing.

        A notice is (receiver, key, record), None to drop it. Raises UnwritableError, after which
        it can be tried again.
        """
        begun = time.perf_counter()
        try:
            self._write(state, events, buckets, notices)
        except sqlite3.Error as error:
            self._failures += 1
            self._streams = {}  # what was added to it has been taken back
            self._renew_if_damaged(error)
            raise UnwritableError(f"{self._path or 'the store in memory'}: {error}") from error
        self._saves += 1
        self._saved_at = self._clock()
        self._save_seconds = time.perf_counter() - begun

    def _write(
        self,
        state: Mapping[str, bytes],
        events: Sequence[Event],
        buckets: Sequence[HistoryBucket],
        notices: Sequence[tuple[str, str, str | None]],
    ) -> None:
        with self._transaction() as connection:
            connection.execute("DELETE FROM state")
            connection.executemany("INSERT INTO state (name, value) VALUES (?, ?)", state.items())
            connection.executemany(_UPSERT_EVENT, map(_event_row, events))
            self._add_history(connection, buckets)
            _put_notices(connection, notices)
            self._keep_up(connection)

    def _renew_if_damaged(self, error: sqlite3.Error) -> None:
        """Go on with a new file where this one is damaged: no attempt to write it would ever succeed."""
        if not sqlite_file.is_damage(error):
            return
        with self._lock, contextlib.suppress(sqlite3.Error, OSError):
            self._connection.close()
            self._connect(sqlite_file.renewed(self._path, self._clock, error))

    def _read(self, query: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Return the rows of a query; none, counted as a failure, where the file cannot be read."""
        try:
            with self._lock:
                return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._failures += 1
            log.warning("the store cannot be read: %s", error)
            return []

    def notices(self) -> list[tuple[str, str, str]]:
        """Return what is kept of notifications as (receiver, key, record), oldest first."""
        rows = self._read("SELECT receiver, key, record FROM notices ORDER BY number")
        return [(str(receiver), str(key), str(record)) for receiver, key, record in rows]

    def keep_notices(self, notices: Sequence[tuple[str, str, str | None]]) -> bool:
        """Add, replace or drop notices and return whether that could be written."""
        try:
            with self._transaction() as connection:
                _put_notices(connection, notices)
        except sqlite3.Error as error:
            self._failures += 1
            self._renew_if_damaged(error)
            return False
        return True

    def tell(self, change: Mapping[str, object]) -> Mapping[str, object]:
        """Keep a change somebody told of unless its `id` is known; the one kept. Raises UnwritableError."""
        try:
            with self._transaction() as connection:
                return kept_changes.put(connection, change)
        except sqlite3.Error as error:
            self._failures += 1
            self._renew_if_damaged(error)
            raise UnwritableError(f"{self._path or 'the store in memory'}: {error}") from error

    def changes(self) -> list[Mapping[str, object]]:
        """Return the changes that were told of, newest first."""
        return kept_changes.readable(self._read("SELECT record FROM changes ORDER BY at DESC, id"))

    def events(  # noqa: PLR0913 - the filters that there are
        self,
        *,
        stream: str | None = None,
        status: str | None = None,
        kind: str | None = None,
        severity: str | None = None,
        scope: str | None = None,
        model_name: str | None = None,
        target: str | None = None,
        since: float | None = None,
        until: float | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> list[Event]:
        """Return events, newest first; those of the fleet belong to each of their streams.

        `since` (unix seconds) keeps what was raised at or after it and whatever is still open, `until` what
        was raised before it.
        """
        tests: tuple[tuple[str, object], ...] = (
            (_OF_STREAM, stream),
            ("status = ?1", status),
            ("kind = ?1", kind),
            ("scope = ?1", scope),
            ("json_extract(record, '$.severity') = ?1", severity),
            ("json_extract(record, '$.model_name') = ?1", model_name),
            ("json_extract(record, '$.target') = ?1", target),
            ("(raised_at >= ?1 OR status = 'open')", since),
            ("raised_at < ?1", until),
        )
        meant = [(test, value) for test, value in tests if value is not None]
        conditions = [test.replace("?1", f"?{number}") for number, (test, _) in enumerate(meant, 1)]
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        query = f"SELECT record FROM events {where} ORDER BY raised_at DESC, id LIMIT ? OFFSET ?"  # noqa: S608 - ours
        rows = self._read(query, (*(value for _, value in meant), limit, offset))
        return [event for event in (_event(record) for (record,) in rows) if event is not None]

    def event(self, event_id: str) -> Event | None:
        """Return one event by its id, None where there is none."""
        rows = self._read("SELECT record FROM events WHERE id = ?", (event_id,))
        return _event(rows[0][0]) if rows else None

    def history(self, stream: str, start: float, end: float) -> list[HistoryBucket]:
        """Return the buckets of a stream that begin between two times (unix seconds), oldest first."""
        query = (
            f"SELECT {', '.join(_COLUMNS)} FROM history"  # noqa: S608 - only names from above
            f" WHERE stream = {_STREAM_ROW} AND at >= ? AND at < ? ORDER BY at"
        )
        rows = self._read(query, (stream, start, end))
        return [_bucket(stream, dict(zip(_COLUMNS, row, strict=True))) for row in rows if _is_whole(row)]

    def families(self) -> Iterator[Family]:
        """Return what the store says of itself: writes, failures, the time of the last write, its size."""
        single = textformat.single
        yield single("specmon_store_writes", "counter", "Saves of state, events and history.", self._saves)
        yield single("specmon_store_write_failures", "counter", "Saves that failed.", self._failures)
        help_text = "Unix time of the last save that succeeded."
        yield single("specmon_store_last_write_timestamp_seconds", "gauge", help_text, self._saved_at)
        help_text = "Time that the last save took."
        yield single("specmon_store_last_write_duration_seconds", "gauge", help_text, self._save_seconds)
        help_text = "Size of the store's file with its write-ahead log; absent where it is in memory."
        yield single("specmon_store_size_bytes", "gauge", help_text, sqlite_file.size(self._path))

    def close(self) -> None:
        """Let go of the file. A store that is not closed loses nothing."""
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def _add_history(self, connection: sqlite3.Connection, buckets: Sequence[HistoryBucket]) -> None:
        names = sorted({bucket.stream for bucket in buckets} - self._streams.keys())
        if names:
            unknown = ((name,) for name in names)
            connection.executemany("INSERT OR IGNORE INTO streams (id) VALUES (?)", unknown)
            self._streams = dict(connection.execute("SELECT id, row FROM streams"))
        rows = ((self._streams[bucket.stream], *_history_row(bucket)) for bucket in buckets)
        connection.executemany(_INSERT_HISTORY, rows)

    def _keep_up(self, connection: sqlite3.Connection) -> None:
        """Make old history coarser and drop what is past its retention; now and then is enough."""
        now = self._clock()
        if now < self._upkeep_at:
            return
        self._upkeep_at = now + UPKEEP_SECONDS
        edge = (now - FINE_SECONDS) // COARSE_SECONDS * COARSE_SECONDS
        limits = (edge, COARSE_SECONDS)
        merged = connection.execute(_COARSER, limits).fetchall()
        connection.execute("DELETE FROM history WHERE at < ? AND seconds < ?", limits)
        connection.executemany(_INSERT_HISTORY, merged)
        oldest = now - self._retention
        connection.execute("DELETE FROM history WHERE at < ?", (oldest,))
        connection.execute("DELETE FROM events WHERE closed_at < ?", (oldest,))
        connection.execute("DELETE FROM changes WHERE at < ?", (oldest,))
        self._make_room(connection)
        connection.execute("DELETE FROM streams WHERE row NOT IN (SELECT stream FROM history)")
        self._streams = {}

    def _make_room(self, connection: sqlite3.Connection) -> None:
        """Drop the oldest history where the file is too large: names that are made up would fill the disk."""
        used = sqlite_file.used_bytes(connection)
        if used <= self._size_limit:
            return
        (rows,) = connection.execute("SELECT count(*) FROM history").fetchone()
        going = min(int(rows * (1.0 - ROOM_SHARE * self._size_limit / used)) + 1, rows)
        oldest = "SELECT stream, at FROM history ORDER BY at LIMIT ?"
        connection.execute(f"DELETE FROM history WHERE (stream, at) IN ({oldest})", (going,))  # noqa: S608 - ours
        log.warning("the store is full: its oldest history went (store.size_limit)", extra={"buckets": going})


def _put_notices(connection: sqlite3.Connection, notices: Sequence[tuple[str, str, str | None]]) -> None:
    gone = ((receiver, key) for receiver, key, record in notices if record is None)
    connection.executemany("DELETE FROM notices WHERE receiver = ? AND key = ?", gone)
    connection.executemany(_UPSERT_NOTICE, (notice for notice in notices if notice[2] is not None))


def _event_row(event: Event) -> dict[str, object]:
    names = ("id", "stream", "scope", "kind", "status", "raised_at", "closed_at")
    record = event_records.as_json(event)
    text = json.dumps(record, allow_nan=False, ensure_ascii=False)
    return {name: record[name] for name in names} | {"record": text}


def _history_row(bucket: HistoryBucket) -> tuple[object, ...]:
    """Return the columns in their order; SQLite keeps NaN as NULL, which is what unknown is there."""
    packed = array("d", bucket.accepted).tobytes()
    values = {name: getattr(bucket, name) for name in _COLUMNS} | {"accepted": packed}
    return tuple(values.values())


def _event(text: object) -> Event | None:
    """Return a kept event, None where its record is damaged."""
    try:
        return event_records.from_json(json.loads(str(text)))
    except (ValueError, RecursionError):
        return None


def _is_whole(row: Sequence[object]) -> bool:
    """Return whether a row of history has numbers where it should: a byte that changed may leave a text."""
    *numbers, accepted, baseline, state = row
    whole = all(value is None or isinstance(value, int | float) for value in (*numbers, baseline))
    return whole and isinstance(accepted, bytes | None) and isinstance(state, str | None)


def _bucket(stream: str, row: dict[str, object]) -> HistoryBucket:
    known = {name: float("nan") if value is None else value for name, value in row.items()}
    known["accepted"] = sqlite_file.unpacked(row["accepted"])
    return HistoryBucket(stream=stream, **known)  # type: ignore[arg-type]
