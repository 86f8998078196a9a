"""Reads what was told of changes, so that a replay is told of each when the live service was.

Without it a replay does not have what only a person or a job knew, and names other causes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.core.streams import told
from monitor.service import commands
from monitor.web import asking, telling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from monitor.core.streams import State
    from monitor.core.streams.told import ToldChange


class Retelling:
    """Tells a replay's state of changes, each at the time at which it was told."""

    def __init__(self, changes: list[ToldChange]) -> None:
        self._left = sorted(changes, key=lambda change: (change.told_at, change.id))

    def until(self, state: State, now: float) -> None:
        """Tell the state of what was told up to `now` (unix seconds)."""
        while self._left and self._left[0].told_at <= now:
            told.tell(state, self._left.pop(0))


def read(path: str) -> list[ToldChange]:
    """Return the changes of a file: an answer of `/api/v1/changes`, or a change a line with its `at`.

    A file that is named - is standard input. Raises Unusable where one cannot be read, with its number.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        records = list(_records(text))
    except (OSError, ValueError) as error:
        raise commands.Unusable(f"--changes: {path} cannot be read: {error}") from error
    return [_change(path, number, record) for number, record in enumerate(records, 1)]


def _records(text: str) -> Iterator[Mapping[str, object]]:
    """Yield the changes that were told; what the pages showed is in the history itself."""
    try:
        whole = json.loads(text)
        found = whole.get("changes", [whole]) if isinstance(whole, dict) else [whole]
    except ValueError:
        found = [json.loads(line) for line in text.splitlines() if line.strip()]
    for each in found:
        if not isinstance(each, dict):
            raise ValueError(f"read {each!r:.80}, expected an object a change")  # noqa: TRY004 - of its text
        if each.get("source", "told") == "told":
            yield each


def _change(path: str, number: int, record: Mapping[str, object]) -> ToldChange:
    at = record.get("told_at", record.get("at"))
    if not isinstance(at, int | float):
        raise commands.Unusable(f"--changes: {path}: change {number} has no time 'at'")
    asked = {name: value for name, value in record.items() if name not in _MADE_BY_US}
    try:
        return told.from_record(telling.read(json.dumps(asked).encode(), float(at)))
    except asking.Refused as error:
        raise commands.Unusable(f"--changes: {path}: change {number}: {error.message}") from error


_MADE_BY_US = frozenset({"source", "stream", "told_at"})
"""What the timeline says of a change beside what its teller did."""
