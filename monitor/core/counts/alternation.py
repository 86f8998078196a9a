"""Tells several processes that answer in turn at one address from one that began again.

Workers behind one port and replicas behind one name have counters of their own: read as one process they go
down and come back, a sawtooth. One that began again has counted since the last page at the most, and needs
its time to come back to where it was. So each unexplained fall counts one; what no process can have counted
since, or a return to where another one stood, one more; a page of an older process a quarter; every page
takes a tenth off. Three and more are several processes, until it is below one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import restarts

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.readings import Readings

    Floats = npt.NDArray[np.float64]
    Booleans = npt.NDArray[np.bool_]

FIELDS = (
    ("left", "f8"),  # total of the counters where they fell last, NaN: never
    ("fallen", "i8"),  # pages since
    ("pace", "f8"),  # usual growth of their total a second, NaN: not known
    ("turns", "f8"),  # how much speaks for several processes
    ("several", "?"),  # enough does
    ("alternates", "?"),  # the last page is another process's than the one before, or may be
)
FALL, RETURN, OLDER, PAGE = 1.0, 1.0, 0.25, 0.1
ENOUGH, FEW, MOST = 3.0, 1.0, 4.0
JUMP_SHARE = 0.5  # of where it stood; by so much no counter that was far below comes back within one page
SOON_PAGES = 3  # nor one that was near so soon
BURST, FEW_COUNTS = 10.0, 1000.0  # times the usual pace, and beside it: more no process counts by itself
PACE_MEMORY = 0.1


def clear(state: npt.NDArray[np.void]) -> None:
    """Make rows those of streams that were never read, in place."""
    state["left"] = state["pace"] = np.nan


def note(
    state: npt.NDArray[np.void], now: Readings, restarted: Booleans, looked: Booleans, counted: Booleans
) -> None:
    """Note in place what readings say of who answers; `state` holds the last ones still.

    `looked` [B] are those whose times are in order, `counted` those of them that are not held back.
    """
    older = looked & (now.begun - state["begun"] < -restarts.SAME_START_SECONDS).any(1)
    untimed = np.isnan(now.begun).all(1)
    fell = restarted & untimed
    total, last = restarts.total(now), np.nansum(state["growing"][:, : now.counters.shape[1]], axis=1)
    seconds = now.at - state["at"]
    if fell.any() or older.any() or state["turns"].any() or not np.isnan(state["left"]).all():
        foreign = fell & (total > FEW_COUNTS + BURST * state["pace"] * seconds)
        grown = total - last
        rose = (last < state["left"]) & ~(grown <= BURST * state["pace"] * seconds)
        rose &= (grown > JUMP_SHARE * state["left"]) | (state["fallen"] < SOON_PAGES)
        returned = foreign | (counted & untimed & (total >= state["left"]) & (rose | fell))
        turns = np.where(looked, np.maximum(state["turns"] - PAGE, 0.0), state["turns"])
        state["turns"] = np.minimum(turns + FALL * fell + RETURN * returned + OLDER * older, MOST)
        state["several"] = (state["turns"] >= ENOUGH) | (state["several"] & (state["turns"] >= FEW))
        state["alternates"] = state["several"] | returned
        state["left"] = np.where(fell | returned, last, state["left"])
        state["fallen"] = np.where(fell, 0, state["fallen"] + counted)
    usual = counted & ~restarted & ~state["alternates"] & (seconds > 0)
    pace, seen = state["pace"], (total - last) / np.where(usual, seconds, 1.0)
    # What was seen first may have been a step from one process to another: far less is believed at once.
    anew = np.isnan(pace) | (BURST * seen < pace)
    state["pace"] = np.where(usual, np.where(anew, seen, pace + PACE_MEMORY * (seen - pace)), pace)
