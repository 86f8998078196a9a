"""Tells a page that is late from a clock that was set back, and puts times that were noted before it right.

Both are older than the page before. A late page has counters that had not come as far yet. Where they went on
all the same, and a second time too, time did not go on as it should: the stream is measured anew from there.
Counters that began anew meanwhile cannot say it, so after many late pages in a row the clock is believed too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.counts import restarts

if TYPE_CHECKING:
    import numpy.typing as npt

    from monitor.core.counts.readings import Readings

    Floats = npt.NDArray[np.float64]
    Booleans = npt.NDArray[np.bool_]

# How the state's tables call unix times (f8); what is relative to another time is f4.
_TIME = re.compile(r".*_at|(.*_)?(since|epoch)|change_(low|high)")
_EARLIEST = 1e6  # unix seconds; a smaller number says that there is no time yet


def judged(state: npt.NDArray[np.void], now: Readings) -> tuple[Booleans, Booleans]:
    """Return which readings are late, and which came after the clock was set back; `state` notes it in place.

    The state's `late` is how many late readings there were in a row, `set_back` by how many seconds the clock
    was, for `follow`.
    """
    behind = now.at < state["at"]
    last, late = state["growing"], state["late"]
    went_on = ((now.growing > last) & now.reported).any(1) & ~((now.growing < last) & now.reported).any(1)
    went_on &= ~(now.begun - state["begun"] < -restarts.SAME_START_SECONDS).any(1)
    set_back = behind & ((went_on & (late >= 1)) | (late >= restarts.PATIENT_PAGES))
    expected = state["at"] + np.nan_to_num(state["interval"]) * (late + 1.0)
    state["set_back"] = np.where(set_back, expected - now.at, 0.0)
    # A page of the very time of the last one says nothing either way.
    said = behind | (now.at > state["at"])
    state["late"] = np.where(behind & ~set_back, late + 1, np.where(said, 0, late))
    return behind & ~set_back, set_back


def follow(table: npt.NDArray[np.void], rows: npt.NDArray[np.intp], set_back: Floats) -> None:
    """Move the times in these rows of a table of the state as the clock was moved, in place."""
    for name in table.dtype.names or ():
        field = table[name]
        if field.dtype.names:
            follow(field, rows, set_back)
        elif field.dtype == np.float64 and field.ndim == 1 and _TIME.fullmatch(name):
            times = field[rows]
            field[rows] = np.where(times > _EARLIEST, times - set_back, times)
