"""Opens the store's SQLite file: makes the tables, refuses what is not ours, moves a damaged one aside."""

from __future__ import annotations

import contextlib
import functools
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
LARGEST_LOG_AT_REST = 16 << 20  # bytes that the write-ahead log keeps after one large transaction
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
    """
    CREATE TABLE changes (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, at REAL NOT NULL, record TEXT NOT NULL
    );
    """,
)
VERSION = len(MIGRATIONS)

_SQLITE = b"SQLite format 3\x00"
_APPLICATION_PLACE = slice(68, 72)  # of the header, where our application id stands
# What SQLite says of a header in which single bytes are wrong; the tables would be made, or read, wrongly.
_DAMAGED_HEADER = ("already exists", "unsupported file format", "malformed")


class UnusableFileError(Exception):
    """The file cannot be the store; the message says what was read, where, and what was expected."""


class UnwritableError(Exception):
    """A save failed and changed nothing; it can be tried again."""


def opened(path: str, clock: Callable[[], float]) -> sqlite3.Connection:
    """Return a connection to the store at `path` (empty: in memory), with the tables of this version.

    Raises UnusableFileError. A damaged file is renamed to `<path>.damaged-<unix seconds>` and a new one made.
    """
    if not path:
        return _connected(":memory:")
    _refuse_foreign(path)
    try:
        return _connected(path)
    except UnicodeDecodeError as error:  # a damaged table's own text, in SQLite's message about it
        return renewed(path, clock, sqlite3.DatabaseError(error))
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError) and not any(
            words in str(error) for words in _DAMAGED_HEADER
        ):
            raise UnusableFileError(f"{path}: {_why(error, path)}") from None
        return renewed(path, clock, error)


def renewed(path: str, clock: Callable[[], float], error: sqlite3.Error) -> sqlite3.Connection:
    """Move the damaged file at `path` aside, say so in the log, and return a connection to a new one."""
    aside = f"{path}.damaged-{int(clock())}" if path else "nowhere, as it was in memory"
    if path:
        _move_aside(path, aside)
    log.warning("%s is damaged (%s): moved to %s, beginning anew without history", path, error, aside)
    return _connected(path or ":memory:")


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file itself is damaged, so that trying again is of no use."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


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
    whole = packed if isinstance(packed, bytes) else b""
    numbers.frombytes(whole[: len(whole) // numbers.itemsize * numbers.itemsize])
    return tuple(numbers)


class Positions:
    """An aggregate for SQL: the sums per position of packed numbers."""

    def __init__(self) -> None:
        self._sums: list[float] = []

    def step(self, packed: object) -> None:
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

    def step(self, unix_seconds: object, value: float | bytes | None) -> None:
        """Look at one row; texts come as bytes, for they may be damaged."""
        if isinstance(unix_seconds, float) and unix_seconds >= self._at:
            text = value.decode(errors="replace") if isinstance(value, bytes) else value
            self._at, self._value = unix_seconds, text

    def finalize(self) -> float | str | None:
        """Return the value."""
        return self._value


def _connected(path: str) -> sqlite3.Connection:
    """Return a connection that holds the file alone, until it is closed or the process ends."""
    connection = sqlite3.connect(
        path, timeout=SECONDS_TO_WAIT_FOR_THE_FILE, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = lambda raw: raw.decode(errors="replace")  # a wrong byte is no reason to fail
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        _refuse_other(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG_AT_REST}")
        connection.execute("BEGIN IMMEDIATE")
        _check(connection)
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for statements in MIGRATIONS[version:]:
            for statement in statements.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        _prove(connection)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(found)


def _prove(connection: sqlite3.Connection) -> None:
    """Read what every start needs: a file can pass SQLite's own check and still have nonsense in it."""
    if _tables(connection) != _own_tables():
        raise sqlite3.DatabaseError("its tables are not those of its version")
    for name, value in connection.execute("SELECT name, value FROM state"):
        if not isinstance(name, str) or not isinstance(value, bytes):
            raise sqlite3.DatabaseError(f"state {name!r} is {type(value).__name__}, expected bytes")
    connection.execute("DELETE FROM events WHERE NOT json_valid(record)")
    connection.execute("DELETE FROM changes WHERE typeof(at) != 'real' OR NOT json_valid(record)")
    connection.execute("DELETE FROM notices WHERE typeof(record) != 'text' OR typeof(key) != 'text'")


def _tables(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    return set(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


@functools.cache
def _own_tables() -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statements in MIGRATIONS:
            connection.executescript(statements)
        return _tables(connection)


def _refuse_other(connection: sqlite3.Connection, path: str) -> None:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and application != APPLICATION_ID:
        raise UnusableFileError(
            f"{path}: read a database of another program, expected one of specmon or no file"
        )
    if version > VERSION:
        raise UnusableFileError(
            f"{path}: read version {version} of its tables, of a newer specmon; expected {VERSION}"
        )


def _refuse_foreign(path: str) -> None:
    """Refuse what is no database: a mistyped path must not move somebody's file aside.

    A store of ours whose disk lost its beginning has zeros there.
    """
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise UnusableFileError(f"{path}: it is no regular file, expected a file of specmon or none")
        with Path(path).open("rb") as file:
            start = file.read(512)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UnusableFileError(f"{path!r}: {why}, expected a file that can be written") from None
    ours = start[_APPLICATION_PLACE] == APPLICATION_ID.to_bytes(4, "big")
    if start.strip(b"\x00") and not start.startswith(_SQLITE) and not ours:
        shown = start[:40].decode("utf-8", "replace")
        raise UnusableFileError(f"{path}: it begins with {shown!r}, expected a file of specmon or none")


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


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return what the tables take of the file; what was deleted is free and is used again."""
    pragmas = ("page_count", "freelist_count", "page_size")
    count, free, size = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in pragmas)
    return (count - free) * size
