"""Sums and medians of rows by group; rows stand group after group.

A group's result depends on its own rows alone, to the last bit: not on which groups come with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, Indices


def starts(group_of_row: Indices) -> Indices:
    """Return where each group begins, from the ascending group numbers of the rows."""
    return np.flatnonzero(np.concatenate([[True], group_of_row[1:] != group_of_row[:-1]]))


def total(values: Floats, first: Indices) -> Floats:
    """Return the sums [G, …] of `values` [M, …] by group; `first` [G] is where each begins."""
    result: Floats = np.add.reduceat(values, first, axis=0)
    return result


def share(true: Bools, first: Indices) -> Floats:
    """Return the share [G] of each group's rows of which something is true."""
    sizes = np.diff(np.concatenate([first, [len(true)]]))
    return total(true.astype(np.float64), first) / sizes


def median(values: Floats, group_of_row: Indices, first: Indices) -> Floats:
    """Return the median [G] of each group's values."""
    ordered = values[np.lexsort((values, group_of_row))]
    sizes = np.diff(np.concatenate([first, [len(values)]]))
    low, high = ordered[first + (sizes - 1) // 2], ordered[first + sizes // 2]
    result: Floats = 0.5 * (low + high)
    return result
