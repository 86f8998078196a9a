"""Sums, shares and medians by group, on groups of one, two, three and four rows."""

from __future__ import annotations

import numpy as np

from monitor.core.fleet import groupwise

OF = np.array([0, 2, 2, 3, 3, 3, 7, 7, 7, 7])
VALUES = np.array([5.0, 4.0, 1.0, 9.0, -3.0, 2.0, 1.0, 8.0, 2.0, 4.0])


def test_groups_begin_where_the_number_changes() -> None:
    """The first row of each group."""
    assert groupwise.starts(OF).tolist() == [0, 1, 3, 6]


def test_sums_shares_and_medians() -> None:
    """Each group's own: the mean of the two middle ones where there are two."""
    first = groupwise.starts(OF)
    assert groupwise.total(VALUES, first).tolist() == [5.0, 5.0, 8.0, 15.0]
    assert groupwise.share(VALUES > 3.0, first).tolist() == [1.0, 0.5, 1 / 3, 0.5]
    assert groupwise.median(VALUES, OF, first).tolist() == [5.0, 2.5, 2.0, 3.0]
