"""The accounting of TPOT: shares that add up exactly and name what moved."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.economics import accounting
from tests.economics import made

BEFORE = {"mal": 3.0, "coverage": 1.0, "tokens_per_step": 3.0, "step_seconds": 0.030}


def shares(after: dict[str, float], batch: float | None = None) -> dict[str, float]:
    """The shares of a change from `BEFORE`."""
    effect = None if batch is None else np.array([batch])
    found = accounting.between(made.estimates(**BEFORE), made.estimates(**{**BEFORE, **after}), effect)
    return accounting.at_row(found, 0)


def test_a_fall_of_acceptance_alone_is_all_acceptance() -> None:
    """MAL 3 → 2 at the same step time: TPOT is 1.5 times as long, and nothing else has a share."""
    found = shares({"mal": 2.0, "tokens_per_step": 2.0})
    assert math.exp(found["total"]) == pytest.approx(1.5)
    assert found["acceptance"] == pytest.approx(found["total"])
    assert [found[name] for name in ("coverage", "delivery", "batch", "rest")] == pytest.approx([0, 0, 0, 0])


def test_steps_without_a_draft_are_coverage() -> None:
    """Half of the steps lose their draft at MAL 3: 3 tokens a step become 2, and acceptance has no part in it."""
    found = shares({"coverage": 0.5, "tokens_per_step": 2.0})
    assert found["coverage"] == pytest.approx(math.log(1.5))
    assert found["acceptance"] == pytest.approx(0.0)


def test_the_step_time_splits_into_batch_and_rest() -> None:
    """A step 40 % longer of which history explains 10 % by the batch leaves the rest to the rest."""
    found = shares({"step_seconds": 0.042}, batch=math.log(1.1))
    assert found["batch"] == pytest.approx(math.log(1.1))
    assert found["rest"] == pytest.approx(math.log(1.4 / 1.1))


def test_without_a_step_time_nothing_is_told() -> None:
    """An engine without step times has no TPOT to account for: unknown, not zero."""
    found = shares({"step_seconds": math.nan})
    assert all(math.isnan(value) for value in found.values())
    assert accounting.sentence(found) == ""


def test_the_sentence_names_the_largest_share_first() -> None:
    """Shares are percentages that multiply: 1.38 × 1.05 × 0.98 = 1.42."""
    logs = {"acceptance": math.log(1.38), "coverage": 0.0, "delivery": 0.0, "batch": math.log(1.05)}
    logs |= {"rest": math.log(0.98)}
    said = accounting.sentence({"total": sum(logs.values()), **logs})
    assert said == "TPOT rose 42 %: acceptance +38 %, batch +5 %, rest −2 %"


POSITIVE = st.floats(1e-4, 10.0)
COVERAGE = st.one_of(st.floats(0.0, 1.0), st.just(math.nan))


@given(st.tuples(POSITIVE, POSITIVE, COVERAGE, POSITIVE), st.tuples(POSITIVE, POSITIVE, COVERAGE, POSITIVE))
def test_the_shares_add_up(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    """Whatever moved, the shares' sum is the change of TPOT, to rounding."""
    earlier, later = (
        made.estimates(mal=1.0 + bonus, tokens_per_step=tokens, coverage=coverage, step_seconds=seconds)
        for bonus, tokens, coverage, seconds in (first, second)
    )
    found = accounting.at_row(accounting.between(earlier, later, np.array([0.3])), 0)
    assert sum(found[name] for name in accounting.NAMES) == pytest.approx(found["total"], abs=1e-9)
    expected = math.log(second[3] / second[1]) - math.log(first[3] / first[1])
    assert found["total"] == pytest.approx(expected, abs=1e-9)
