"""How late the event loop is: whatever keeps it busy delays scrapes, answers and the end of the process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from monitor.metrics import textformat

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.metrics.textformat import Family

BEAT_SECONDS = 0.25
BLOCKED_SECONDS = 0.1  # lateness below this is the usual turn of a busy loop
_WINDOW_BEATS = 240  # the longest block is that of so many beats, a minute


class Pulse:
    """Wakes up again and again and adds up how late it was."""

    def __init__(self) -> None:
        self._blocked = 0.0
        self._latest: list[float] = []

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + BEAT_SECONDS
            await asyncio.sleep(BEAT_SECONDS)
            self.note(loop.time() - due)

    def note(self, late: float) -> None:
        """Take one lateness, in seconds."""
        self._blocked += late if late > BLOCKED_SECONDS else 0.0
        self._latest = [*self._latest[1 - _WINDOW_BEATS :], late]

    def families(self) -> Iterator[Family]:
        """Yield the time that the loop was blocked for, and the longest block of the last minute."""
        yield textformat.single(
            "specmon_event_loop_blocked_seconds",
            "counter",
            "Time for which the event loop could not turn, in blocks above 0.1 s; it delays every scrape.",
            self._blocked,
        )
        yield textformat.single(
            "specmon_event_loop_longest_block_seconds",
            "gauge",
            "Longest time within the last minute for which the event loop could not turn.",
            max(self._latest, default=0.0),
        )
