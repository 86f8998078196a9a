"""A damaged or crowded store file ends nothing: it is used, renewed or refused in one sentence."""

from __future__ import annotations

import contextlib
import random
from typing import TYPE_CHECKING

from monitor import store
from monitor.notify import rows
from monitor.store import UPKEEP_SECONDS, Store
from tests.test_store import DAY, NOTICE, NOW, bucket, event

if TYPE_CHECKING:
    from pathlib import Path


def test_no_damage_is_a_traceback(tmp_path: Path) -> None:
    """Bytes changed anywhere in the file: it is used, moved aside or refused in one sentence, never more."""
    path, rng = tmp_path / "specmon.db", random.Random(1)
    kept = Store(str(path), clock=lambda: NOW)
    for number in range(10):
        kept.save(
            {"a": bytes(3000)}, [event(str(number), NOW)], [bucket(NOW - 2 * DAY + 60 * number)], [NOTICE]
        )
    kept.close()
    whole = path.read_bytes()
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 3, 20))):
            page = rng.randrange(len(damaged) // 4096) * 4096
            damaged[rng.choice((rng.randrange(len(damaged)), page + rng.randrange(16)))] = rng.randrange(256)
        path.write_bytes(damaged)
        with contextlib.suppress(store.UnusableFileError):
            kept = Store(str(path), clock=lambda: NOW)
            rows.Rows((key, record) for _, key, record in kept.notices())
            saved = False
            for _ in range(2):  # damage that only a save meets: the next one finds a new file
                with contextlib.suppress(store.UnwritableError):
                    kept.save({**kept.load(), "b": b"2"}, [event("new", NOW)], [bucket(NOW)])
                    saved = True
            assert saved
            kept.events(stream="t~m~0")
            kept.history("t~m~0", 0, NOW + DAY)
            assert kept.event("new") is not None
            kept.close()
        for side in tmp_path.glob("specmon.db?*"):
            side.unlink()


def test_the_write_ahead_log_does_not_stay_large(tmp_path: Path) -> None:
    """After one large transaction the log goes back to its limit with the saves that follow."""
    path = tmp_path / "specmon.db"
    kept = Store(str(path))
    kept.save({"a": bytes(60 << 20)})
    for _ in range(3):
        kept.save({"a": b"small"})
    assert (tmp_path / "specmon.db-wal").stat().st_size <= 17 << 20
    kept.close()


def test_a_store_that_is_full_lets_its_oldest_history_go(tmp_path: Path) -> None:
    """Streams whose names are made up for days fill no disk: file and log stay bounded, what is new is kept."""
    now, limit, path = NOW, 1 << 20, tmp_path / "s.db"
    kept = Store(str(path), size_limit=limit, clock=lambda: now)
    kept.save({}, [event("e", NOW, closed_at=None, status="open")])
    for turn in range(40):
        now = NOW + turn * (UPKEEP_SECONDS + 1)
        kept.save({}, [], [bucket(now - 60, stream=f"made up {turn} {number}") for number in range(600)])
        kept.save({}, [], [bucket(now - 60)])
    assert kept.history("made up 0 5", 0, now) == []
    assert len(kept.history("s", 0, now)) > 5
    assert len(kept.history("made up 39 5", 0, now)) == 1
    assert [found.id for found in kept.events()] == ["e"]
    kept.close()
    assert path.stat().st_size < 1.5 * limit
