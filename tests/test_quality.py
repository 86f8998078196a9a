"""Identities between an engine's own counters are checked with a tolerance for pages that are torn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import identities
from monitor.core.pages.engines.base import UNKNOWN, Counter
from tests import made

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def violated(
    accepted: Sequence[float], drafts: float, more: Mapping[Counter, float] | None = None
) -> list[str]:
    """Return the names of the checks that an interval violates."""
    counted = made.counts([accepted], [drafts], more={name: [value] for name, value in (more or {}).items()})
    return [
        name
        for name, bad in zip(identities.IDENTITIES, identities.violations(counted)[0], strict=True)
        if bad
    ]


@pytest.mark.parametrize(
    ("accepted", "drafts", "more", "expected"),
    [
        pytest.param((800, 600, 400), 1000, {}, [], id="sound"),
        pytest.param(
            (32, 18, 7, 3, 3), 43, {}, [], id="a conditional rate of 1 at the end is legal (case B08)"
        ),
        pytest.param((0, 0), 0, {}, [], id="idle"),
        pytest.param((0, 0), 5000, {}, [], id="nothing accepted"),
        pytest.param((1000, 1000), 1000, {}, [], id="everything accepted"),
        pytest.param((800, 600), 1000, {Counter.ACCEPTED_TOKENS: 1900}, ["positions_sum"], id="sum"),
        pytest.param((800, 900), 1000, {}, ["positions_order"], id="a later position accepts more"),
        pytest.param(
            (1200, 300), 1000, {}, ["positions_order"], id="position 0 accepts more than was drafted"
        ),
        pytest.param(
            (800, 600),
            1000,
            {Counter.DRAFT_TOKENS: 1000},
            ["accepted_tokens"],
            id="more accepted than drafted",
        ),
        pytest.param(
            (),
            1000,
            {Counter.DRAFT_TOKENS: 1000, Counter.ACCEPTED_TOKENS: 1200},
            ["accepted_tokens"],
            id="by totals",
        ),
        pytest.param(
            (1000, 1000),
            1000,
            {Counter.ACCEPTED_TOKENS: 2400},
            ["positions_sum", "accepted_tokens", "acceptance_length"],
            id="longer than 1 + k",
        ),
        pytest.param(
            (), 1000, {Counter.ACCEPTED_TOKENS: 9000}, [], id="without k or draft tokens nothing is known"
        ),
        pytest.param((800, 600), UNKNOWN, {}, [], id="unknown drafts violate nothing"),
    ],
)
def test_identities(
    accepted: Sequence[float], drafts: float, more: Mapping[Counter, float], expected: list[str]
) -> None:
    """Each check finds what it is named after and nothing else."""
    assert violated(accepted, drafts, more) == expected


@given(st.lists(st.integers(0, 3000), min_size=1, max_size=6), st.data())
def test_a_torn_page_is_tolerated(accepted: list[int], data: st.DataObject) -> None:
    """Families that stand one step of a small batch apart are no violation."""
    ordered = sorted(accepted, reverse=True)
    torn = [value + data.draw(st.integers(0, 4)) for value in ordered]
    step = {Counter.ACCEPTED_TOKENS: sum(ordered) + data.draw(st.integers(0, 4))}
    if abs(sum(torn) - step[Counter.ACCEPTED_TOKENS]) <= identities.TOLERATED_TOKENS:
        assert violated(torn, float(ordered[0]), step) == []


def test_rows_are_checked_each_by_itself() -> None:
    """One stream's violation is not another's."""
    counted = made.counts([[800, 600], [600, 800], [0, 0]], [1000, 1000, 1000])
    assert np.flatnonzero(identities.violations(counted).any(1)).tolist() == [1]
