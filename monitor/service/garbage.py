"""Keeps Python's searches for garbage short: a full one of all objects stops every thread meanwhile.

With 500 targets that was 60 ms again and again, with 10,000 streams 300. What survived a long search
(modules, settings, state) is not searched again that day; almost all garbage is freed without a search.
"""

from __future__ import annotations

import contextlib
import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

LONG_SECONDS = 0.02
WHOLE_SECONDS = 86_400.0  # so often everything is searched once: what was spared can have become garbage
_FULL = 2  # the generation of a full search


class Spared:
    """Takes what a long search left out of the next ones. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._whole = clock()

    def note(self, phase: str, search: Mapping[str, int]) -> None:
        """Take what `gc.callbacks` are told: the start and the end of each search."""
        now = self._clock()
        if phase == "start":
            self._began = now
        elif search["generation"] == _FULL:
            if now - self._whole >= WHOLE_SECONDS:
                self._whole = now
                gc.unfreeze()
            elif now - self._began >= LONG_SECONDS:
                gc.freeze()


@contextlib.contextmanager
def searched_shortly() -> Iterator[None]:
    """Spare what is there already, and within the block what survives each long search."""
    spared = Spared()
    gc.collect()
    gc.freeze()
    gc.callbacks.append(spared.note)
    try:
        yield
    finally:
        gc.callbacks.remove(spared.note)
        gc.unfreeze()
