"""Searches for garbage stay short: what a long one left is spared, for a day at most."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from monitor.service import garbage

if TYPE_CHECKING:
    from collections.abc import Iterator


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time that was set."""
        return self.now


class Ring:
    """An object that only a search finds: it refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def searched(spared: garbage.Spared, clock: Clock, seconds: float, generation: int = 2) -> None:
    """Tell of a search that took so long."""
    spared.note("start", {"generation": generation})
    clock.now += seconds
    spared.note("stop", {"generation": generation})


@pytest.mark.parametrize(
    ("seconds", "generation", "spares"), [(0.1, 2, True), (0.001, 2, False), (0.1, 1, False)]
)
def test_only_what_a_long_full_search_left_is_spared(
    seconds: float, generation: int, *, spares: bool
) -> None:
    """A short search costs nothing and may come again; one of young objects has not seen the old ones."""
    clock = Clock()
    searched(garbage.Spared(clock), clock, seconds, generation)
    assert (gc.get_freeze_count() > 0) == spares


def test_what_was_spared_is_searched_once_a_day() -> None:
    """What becomes garbage after it was spared stays for a day, not for ever."""
    clock = Clock()
    spared = garbage.Spared(clock)
    ring = weakref.ref(kept := Ring())
    searched(spared, clock, 0.1)
    del kept
    gc.collect()
    assert ring() is not None
    clock.now += garbage.WHOLE_SECONDS
    searched(spared, clock, 0.1)
    gc.collect()
    assert ring() is None


def test_the_modules_are_spared_while_the_service_runs() -> None:
    """A full search within the block looks at little of what was there before it; afterwards at all again."""
    before = len(gc.get_objects())
    with garbage.searched_shortly():
        assert len(gc.get_objects()) < before / 2
        assert gc.get_freeze_count() > before / 2
    assert gc.get_freeze_count() == 0
    assert not [each for each in gc.callbacks if getattr(each, "__func__", None) is garbage.Spared.note]
