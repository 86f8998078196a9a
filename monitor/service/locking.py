"""The lock on the pipeline's state: who changes the state goes before all who read it."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class StateLock:
    """One holder at a time: `with lock:` to read, `with lock.first():` to change, before all readers.

    With a plain lock a few hundred readers of big pages make a step wait for all of them.
    """

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._held = False
        self._first = 0

    def __enter__(self) -> None:
        """Wait until nobody holds it and nobody who changes the state waits for it."""
        with self._free:
            self._free.wait_for(lambda: not self._held and not self._first)
            self._held = True

    def __exit__(self, *_: object) -> None:
        """Let the next one in."""
        with self._free:
            self._held = False
            self._free.notify_all()

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """Hold it before all who wait to read."""
        with self._free:
            self._first += 1
            self._free.wait_for(lambda: not self._held)
            self._first -= 1
            self._held = True
        try:
            yield
        finally:
            self.__exit__()
