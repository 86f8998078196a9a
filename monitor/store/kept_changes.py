"""What the store keeps of changes that somebody told of: once per id, the oldest giving way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

MOST_KEPT = 2000


def put(connection: sqlite3.Connection, record: Mapping[str, object]) -> Mapping[str, object]:
    """Keep a change unless there is one with its `id`; the one that is kept."""
    rows = connection.execute("SELECT record FROM changes WHERE id = ?", (record["id"],)).fetchall()
    if rows:
        found = _record(rows[0][0])
        if found is not None:
            return found
    told = json.dumps(record, allow_nan=False, ensure_ascii=False)
    connection.execute(
        "INSERT OR REPLACE INTO changes (id, at, record) VALUES (?, ?, ?)", (record["id"], record["at"], told)
    )
    newest = "SELECT id FROM changes ORDER BY number DESC LIMIT ?"
    connection.execute(f"DELETE FROM changes WHERE id NOT IN ({newest})", (MOST_KEPT,))  # noqa: S608 - ours
    return record


def readable(rows: Iterable[tuple[object, ...]]) -> list[Mapping[str, object]]:
    """Return the changes in rows of their one column; a damaged one is left out."""
    return [found for (text,) in rows if (found := _record(text)) is not None]


def _record(text: object) -> Mapping[str, object] | None:
    try:
        record = json.loads(str(text))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
