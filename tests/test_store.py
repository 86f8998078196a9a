"""The store keeps whole saves, whatever ends the process, and refuses files that are not its own."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from monitor import store
from monitor.core.events import event_records
from monitor.core.streams.history import HistoryBucket
from monitor.store import Store, sqlite_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from monitor.core.events import Event

NOW = 1_700_000_100.0
DAY = 86_400.0


def bucket(at: float, *, stream: str = "s", drafts: float = 10.0, **other: object) -> HistoryBucket:
    """A minute of history."""
    made = HistoryBucket(
        stream=stream,
        at=at,
        seconds=60.0,
        drafts=drafts,
        draft_tokens=2 * drafts,
        accepted_tokens=drafts,
        accepted=(drafts, drafts / 2),
        decode_outputs=math.nan,
        decode_seconds=1.5,
        generation_tokens=20.0,
        first_tokens=1.0,
        baseline_mal=2.5,
        state="ok",
    )
    return dataclasses.replace(made, **other)  # type: ignore[arg-type]


def event(event_id: str, raised_at: float, **other: object) -> Event:
    """An event with what the store looks at, numbers that are unknown and a text that is not ASCII."""
    made: dict[str, object] = {
        "id": event_id,
        "stream": "s",
        "scope": "replica",
        "kind": "drop",
        "severity": "warning",
        "status": "closed",
        "raised_at": raised_at,
        "closed_at": raised_at + 60,
        "positions": [0, 1],
        "facts": ["größer ≥ 1"],
    }
    return event_records.from_json(made | other)


def shown(found: Event | None) -> dict[str, object]:
    """The JSON of an event that the store has: two with unknown numbers never are equal."""
    assert found is not None
    return event_records.as_json(found)


@pytest.fixture
def kept() -> Iterator[Store]:
    """A store in memory at a fixed time."""
    opened = Store(clock=lambda: NOW)
    yield opened
    opened.close()


def test_a_restart_finds_what_was_saved(tmp_path: Path) -> None:
    """State, events and history come back as they were given, unknown numbers as unknown."""
    path = str(tmp_path / "specmon.db")
    first = Store(path, clock=lambda: NOW)
    assert first.load() == {}
    first.save({"table": b"\x00\xff", "words": b"{}"}, [event("e", NOW)], [bucket(NOW)])
    first.save({"table": b"new"})
    first.close()
    second = Store(path, clock=lambda: NOW)
    assert second.load() == {"table": b"new"}
    assert shown(second.event("e")) == shown(event("e", NOW))
    (found,) = second.history("s", NOW - 1, NOW + 1)
    assert math.isnan(found.decode_outputs)
    assert dataclasses.replace(found, decode_outputs=0) == bucket(NOW, decode_outputs=0)
    second.close()


def test_an_event_that_comes_again_is_the_same_event(kept: Store) -> None:
    """What closes or grows takes the place of what it was."""
    kept.save({}, [event("e", NOW, status="open", closed_at=None, kind="drop")])
    kept.save({}, [event("e", NOW, status="closed", kind="collapse")])
    (found,) = kept.events()
    assert (found.status, found.kind) == ("closed", "collapse")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["fleet", "other", "open", "old"]),
        ({"limit": 2}, ["fleet", "other"]),
        ({"stream": "s"}, ["fleet", "open", "old"]),
        ({"status": "open"}, ["open"]),
        ({"kind": "collapse"}, ["other"]),
        ({"since": NOW - 150}, ["fleet", "other", "open"]),
        ({"stream": "s", "status": "closed", "since": NOW - 150}, ["fleet"]),
        ({"stream": "'; DROP TABLE events; --"}, []),
    ],
    ids=lambda value: ",".join(value) if value else "none",
)
def test_events_are_chosen(kept: Store, asked: dict[str, object], expected: list[str]) -> None:
    """Newest first; a fleet's event belongs to each of its streams; what is open is never too old."""
    kept.save(
        {},
        [
            event("old", NOW - 300),
            event("open", NOW - 200, status="open", closed_at=None),
            event("other", NOW - 100, stream="t", kind="collapse"),
            event("fleet", NOW, stream=None, scope="fleet", streams=["r", "s"]),
        ],
    )
    assert [found.id for found in kept.events(**asked)] == expected  # type: ignore[arg-type]
    assert kept.event("none") is None


def test_old_history_becomes_coarser_and_loses_no_count(tmp_path: Path) -> None:
    """After a day minutes become quarters of an hour: sums of the counts, the last state."""
    now = NOW
    kept = Store(str(tmp_path / "h.db"), clock=lambda: now)
    start = 1_700_000_100.0 // 900 * 900
    minutes = [bucket(start + 60 * minute, drafts=float(minute)) for minute in range(60)]
    minutes[14] = dataclasses.replace(minutes[14], state="drifting", baseline_mal=3.0)
    kept.save({}, [], [*minutes, bucket(start, stream="t")])
    assert len(kept.history("s", 0, now + DAY)) == 60
    now = start + 1800 + DAY
    kept.save({}, [], [bucket(now)])
    found = kept.history("s", 0, now + 1)
    assert [(each.at - start, each.seconds) for each in found[:2]] == [(0, 900), (900, 900)]
    assert (found[0].state, found[0].baseline_mal, found[0].drafts) == ("drifting", 3.0, sum(range(15)))
    assert list(found[0].accepted) == [sum(range(15)), sum(range(15)) / 2]
    assert math.isnan(found[0].decode_outputs)
    assert [each.seconds for each in found[2:]] == [60.0] * 31
    assert sum(each.drafts for each in found) == sum(range(60)) + 10
    now += a_later_upkeep()
    kept.save({})
    assert sum(each.drafts for each in kept.history("s", 0, now)) == sum(range(60)) + 10
    kept.close()


def a_later_upkeep() -> float:
    """So long after an upkeep the next one is done."""
    return store.UPKEEP_SECONDS + 1


def test_what_is_past_its_retention_goes() -> None:
    """History and closed events are dropped, what is open stays."""
    now = NOW
    kept = Store(retention=10 * DAY, clock=lambda: now)
    opened = event("open", NOW, status="open", closed_at=None)
    kept.save({}, [event("closed", NOW), opened], [bucket(NOW)])
    now += 11 * DAY
    kept.save({})
    assert [found.id for found in kept.events()] == ["open"]
    assert kept.history("s", 0, now) == []
    kept.save({}, [], [bucket(now)])
    assert len(kept.history("s", 0, now + 1)) == 1
    kept.close()


def test_a_failed_save_changes_nothing(kept: Store) -> None:
    """An error in the middle takes all of the save back, and the next one works."""
    kept.save({"a": b"1"})
    nameless = dataclasses.replace(event("f", NOW), kind=None)  # type: ignore[arg-type]
    with pytest.raises(store.UnwritableError):
        kept.save({"a": b"2"}, [event("e", NOW), nameless], [bucket(NOW)])
    assert kept.load() == {"a": b"1"}
    assert kept.events() == []
    kept.save({"a": b"3"}, [event("e", NOW)], [bucket(NOW)])
    assert (kept.load(), len(kept.history("s", 0, NOW + 1))) == ({"a": b"3"}, 1)
    numbers = {family.name: family.columns[0].values for family in kept.families()}
    assert numbers["specmon_store_writes"] == (2,)
    assert numbers["specmon_store_write_failures"] == (1,)
    assert numbers["specmon_store_last_write_timestamp_seconds"] == (NOW,)


def test_the_size_is_that_of_the_file_and_its_log(tmp_path: Path) -> None:
    """A file has a size, memory has an unknown one."""
    kept = Store(str(tmp_path / "s.db"), clock=lambda: NOW)
    kept.save({"a": bytes(100_000)})
    assert sqlite_file.size(str(tmp_path / "s.db")) > 100_000
    assert math.isnan(sqlite_file.size(""))
    kept.close()


WRITER = """
import itertools, sys
from monitor import store
from monitor.core.events import event_records
kept = store.Store(sys.argv[1])
event = {"id": "e", "scope": "replica", "kind": "drop", "severity": "info", "status": "open", "raised_at": 1.0}
for number in itertools.count():
    mark = str(number).encode()
    kept.save({"first": mark * 5000, "second": mark * 5000}, [event_records.from_json(event | {"positions": [number]})])
    print(number, flush=True)
"""


@pytest.mark.parametrize("saves", [1, 5, 20])
def test_a_killed_process_leaves_a_whole_save(tmp_path: Path, saves: int) -> None:
    """After kill -9 in the middle of saving, all parts are of one save, at least as new as the last reported."""
    path = str(tmp_path / "specmon.db")
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        reported = [int(child.stdout.readline()) for _ in range(saves)][-1]
        child.send_signal(signal.SIGKILL)
    kept = Store(path)
    state, found = kept.load(), kept.event("e")
    assert found is not None
    (number,) = found.positions
    assert number >= reported
    assert state == {"first": str(number).encode() * 5000, "second": str(number).encode() * 5000}
    kept.close()


def test_a_second_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers would overwrite each other's state."""
    monkeypatch.setattr(sqlite_file, "SECONDS_TO_WAIT_FOR_THE_FILE", 0.1)
    path = str(tmp_path / "specmon.db")
    kept = Store(path)
    with pytest.raises(store.UnusableFileError) as refusal:
        Store(path)
    assert str(refusal.value) == f"{path}: another process holds it, expected a file of this process alone"
    kept.close()
    Store(path).close()


def make_other(path: Path) -> None:
    """A database of another program."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
    connection.close()


def make_newer(path: Path) -> None:
    """A store of a specmon to come."""
    Store(str(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


REFUSED = {
    "other program": (make_other, "read a database of another program, expected one of specmon or no file"),
    "newer": (make_newer, "read version 99 of its tables, of a newer specmon; expected 3"),
    "text": (
        lambda path: path.write_text("targets: []\n"),
        "it begins with 'targets: []\\n', expected a file",
    ),
    "binary": (lambda path: path.write_bytes(b"\x7fELF\x00\x01"), "it begins with '\\x7fELF"),
    "pipe": (os.mkfifo, "it is no regular file, expected a file of specmon"),
    "folder": (lambda path: path.mkdir(), "it is no regular file, expected a file of specmon"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_is_not_ours_is_refused_untouched(tmp_path: Path, case: str) -> None:
    """The message says what was read and what was expected, and the file stays as it is."""
    make, message = REFUSED[case]
    path = tmp_path / "file.db"
    make(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(store.UnusableFileError) as refusal:
        Store(str(path))
    assert str(refusal.value).startswith(f"{path}: {message}")
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_missing_folder_is_said(tmp_path: Path) -> None:
    """A path in a folder that is not there is a mistake in the settings, not a reason to make folders."""
    with pytest.raises(store.UnusableFileError) as refusal:
        Store(str(tmp_path / "no" / "specmon.db"))
    assert str(refusal.value).endswith(
        f"there is no folder {tmp_path / 'no'}, expected one that can be written"
    )


@pytest.mark.parametrize("damage", ["header kept", "zeros"])
def test_a_damaged_file_is_moved_aside(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """The monitor starts without history and says where the damaged file is."""
    path = tmp_path / "specmon.db"
    kept = Store(str(path))
    kept.save({"a": bytes(50_000)}, [event(str(number), NOW) for number in range(500)])
    kept.close()
    content = path.read_bytes()
    path.write_bytes(
        content[:100] + b"\x00\xff" * (len(content) // 2) if damage == "header kept" else bytes(len(content))
    )
    kept = Store(str(path), clock=lambda: NOW)
    assert kept.load() == {}
    kept.save({"a": b"1"})
    kept.close()
    (aside,) = tmp_path.glob("*.damaged-*")
    assert aside.name == f"specmon.db.damaged-{int(NOW)}"
    assert f"moved to {aside}" in caplog.text


NOTICE = ("am", "e/collapse/critical", '{"told": ""}')


def test_notices_are_part_of_a_save(kept: Store) -> None:
    """A notification is kept with the event that it is about, or neither is."""
    nameless = dataclasses.replace(event("f", NOW), kind=None)  # type: ignore[arg-type]
    kept.save({}, [event("e", NOW)], notices=[NOTICE, ("hook", "e", "{}")])
    with pytest.raises(store.UnwritableError):
        kept.save({}, [nameless], notices=[("am", "f", "{}")])
    assert kept.notices() == [NOTICE, ("hook", "e", "{}")]


def test_notices_change_by_themselves(tmp_path: Path) -> None:
    """What was delivered is noted without a save of everything; a notice that changes keeps its place."""
    path = str(tmp_path / "specmon.db")
    kept = Store(path)
    kept.save({}, notices=[NOTICE, ("hook", "e", "{}"), ("hook", "f", "{}")])
    assert kept.keep_notices([("am", NOTICE[1], "new"), ("hook", "e", None), ("hook", "never", None)])
    kept.close()
    assert not kept.keep_notices([NOTICE])  # said, not raised: it is tried again
    kept = Store(path)
    assert kept.notices() == [("am", NOTICE[1], "new"), ("hook", "f", "{}")]
    kept.close()


def test_a_store_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    """A file from before notifications gets their table and loses nothing."""
    path = str(tmp_path / "specmon.db")
    kept = Store(path, clock=lambda: NOW)
    kept.save({"a": b"1"}, [event("e", NOW)])
    kept.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE notices")
        connection.execute("DROP TABLE changes")
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    kept = Store(path, clock=lambda: NOW)
    assert (kept.load(), kept.notices()) == ({"a": b"1"}, [])
    assert shown(kept.event("e")) == shown(event("e", NOW))
    kept.close()
