"""Opens the store's SQLite file: makes the tables, refuses what is not ours, moves a damaged one aside."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import stat
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

APPLICATION_ID = 0x5350_4D4E  # "SPMN", in the header of every file of ours
SECONDS_TO_WAIT_FOR_THE_FILE = 5.0
SIDE_FILES = ("-wal", "-shm")

# Each makes the next version of the tables; a file of version n has had the first n.
MIGRATIONS = (
    """
    CREATE TABLE state (name TEXT PRIMARY KEY, value BLOB NOT NULL);
    CREATE TABLE events (
        id TEXT PRIMARY KEY, stream TEXT, scope TEXT, kind TEXT NOT NULL, status TEXT NOT NULL,
        raised_at REAL NOT NULL, closed_at REAL, record TEXT NOT NULL
    );
    CREATE INDEX events_by_time ON events (raised_at);
    CREATE INDEX events_by_stream ON events (stream, raised_at);
    CREATE INDEX events_by_status ON events (status, raised_at);
    CREATE TABLE streams (row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
    CREATE TABLE history (
        stream INTEGER NOT NULL, at REAL NOT NULL, seconds REAL NOT NULL,
        drafts REAL, draft_tokens REAL, accepted_tokens REAL, decode_outputs REAL, decode_seconds REAL,
        generation_tokens REAL, first_tokens REAL, accepted BLOB, baseline_mal REAL, state TEXT,
        PRIMARY KEY (stream, at)
    ) WITHOUT ROWID;
    CREATE INDEX history_by_time ON history (at);
    """,
    """
    CREATE TABLE notices (
        number INTEGER PRIMARY KEY, receiver TEXT NOT NULL, key TEXT NOT NULL, record TEXT NOT NULL,
        UNIQUE (receiver, key)
    );
    """,
)
VERSION = len(MIGRATIONS)

_SQLITE = b"SQLite format 3\x00"


class UnusableError(Exception):
    """The file cannot be the store; the message says what was read, where, and what was expected."""


class UnwritableError(Exception):
    """A save failed and changed nothing; it can be tried again."""


def opened(path: str, clock: Callable[[], float]) -> sqlite3.Connection:
    """Return a connection to the store at `path` (empty: in memory), with the tables of this version.

    Raises UnusableError. A damaged file is renamed to `<path>.damaged-<unix seconds>` and a new one made.
    """
    if not path:
        return _connected(":memory:")
    _refuse_foreign(path)
    try:
        return _connected(path)
    except sqlite3.OperationalError as error:
        raise UnusableError(f"{path}: {_why(error, path)}") from None
    except sqlite3.DatabaseError as error:
        aside = f"{path}.damaged-{int(clock())}"
        _move_aside(path, aside)
        log.warning("%s is damaged (%s): moved to %s, beginning anew without history", path, error, aside)
        return _connected(path)


def size(path: str) -> float:
    """Return the bytes of the file and its write-ahead log, NaN where there is none."""
    files = [Path(path + suffix) for suffix in ("", *SIDE_FILES)]
    try:
        return float(sum(file.stat().st_size for file in files if file.exists())) if path else float("nan")
    except OSError:
        return float("nan")


def unpacked(packed: object) -> tuple[float, ...]:
    """Return the numbers per position that were packed into a BLOB."""
    numbers = array("d")
    numbers.frombytes(packed if isinstance(packed, bytes) else b"")
    return tuple(numbers)


class Positions:
    """An aggregate for SQL: the sums per position of packed numbers."""

    def __init__(self) -> None:
        self._sums: list[float] = []

    def step(self, packed: bytes | None) -> None:
        """Add one row."""
        numbers = unpacked(packed)
        self._sums += [0.0] * (len(numbers) - len(self._sums))
        for position, number in enumerate(numbers):
            self._sums[position] += number

    def finalize(self) -> bytes:
        """Return the sums, packed."""
        return array("d", self._sums).tobytes()


class Latest:
    """An aggregate for SQL: the value of the row with the largest time."""

    def __init__(self) -> None:
        self._at = float("-inf")
        self._value: float | str | None = None

    def step(self, at: float, value: float | str | None) -> None:
        """Look at one row."""
        if at >= self._at:
            self._at, self._value = at, value

    def finalize(self) -> float | str | None:
        """Return the value."""
        return self._value


def _connected(path: str) -> sqlite3.Connection:
    """Return a connection that holds the file alone, until it is closed or the process ends."""
    connection = sqlite3.connect(
        path, timeout=SECONDS_TO_WAIT_FOR_THE_FILE, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        _refuse_other(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        _check(connection)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for statements in MIGRATIONS[version:]:
            for statement in statements.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def _refuse_other(connection: sqlite3.Connection, path: str) -> None:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and application != APPLICATION_ID:
        raise UnusableError(f"{path}: read a database of another program, expected one of specmon or no file")
    if version > VERSION:
        raise UnusableError(
            f"{path}: read version {version} of its tables, of a newer specmon; expected {VERSION}"
        )


def _refuse_foreign(path: str) -> None:
    """Refuse what is no database: a mistyped path must not move somebody's file aside.

    A store of ours whose disk lost its beginning has zeros there.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise UnusableError(f"{path}: it is no regular file, expected a file of specmon or none")
        with Path(path).open("rb") as file:
            start = file.read(512)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UnusableError(f"{path!r}: {why}, expected a file that can be written") from None
    if start.strip(b"\x00") and not start.startswith(_SQLITE):
        shown = start[:40].decode("utf-8", "replace")
        raise UnusableError(f"{path}: it begins with {shown!r}, expected a file of specmon or none")


def _why(error: sqlite3.OperationalError, path: str) -> str:
    if "locked" in str(error):
        return "another process holds it, expected a file of this process alone"
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        return f"there is no folder {folder}, expected one that can be written"
    return f"{error}, expected a file that can be written"


def _move_aside(path: str, aside: str) -> None:
    for suffix in ("", *SIDE_FILES):
        with contextlib.suppress(FileNotFoundError):
            Path(path + suffix).rename(aside + suffix)
