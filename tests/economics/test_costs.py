"""What a slower token costs in tokens, GPU time and money."""

from __future__ import annotations

import math

import pytest

from monitor.core.economics import costs

PRICES = costs.Prices(gpus_per_replica=4, gpu_hour_cost=2.5)


def test_tokens_that_take_twice_as_long_cost_half_of_the_gpu_time() -> None:
    """At 1,000 tokens a second on four busy GPUs: 48 GPU-hours and 120 a day, 2,000 GPU-seconds a million tokens."""
    found = costs.at_present(2.0, 1000.0, 1.0, PRICES)
    assert found.gpu_hours_per_day == pytest.approx(48.0)
    assert found.money_per_day == pytest.approx(120.0)
    assert found.tokens_per_second == pytest.approx(1000.0)
    assert found.gpu_seconds_per_million_tokens == pytest.approx(2000.0)


def test_an_idle_half_of_the_day_costs_nothing() -> None:
    """A replica that decodes half of the time loses half as much."""
    assert costs.at_present(2.0, 1000.0, 0.5, PRICES).gpu_hours_per_day == pytest.approx(24.0)


def test_an_improvement_is_a_negative_loss() -> None:
    """Tokens in 80 % of the time give GPU time back."""
    assert costs.at_present(0.8, 100.0, 1.0, PRICES).gpu_hours_per_day == pytest.approx(-24.0)


def test_without_a_price_there_is_no_money() -> None:
    """GPU-hours are known without a price, money is not."""
    found = costs.at_present(2.0, 1000.0, 1.0, costs.Prices())
    assert found.gpu_hours_per_day == pytest.approx(12.0)
    assert math.isnan(found.money_per_day)


def test_replicas_add_up_and_unknown_ones_are_left_out() -> None:
    """Two replicas of 1,000 tokens a second and one that is unknown: 96 GPU-hours, the same cost a token."""
    one = costs.at_present(2.0, 1000.0, 1.0, PRICES)
    found = costs.total([one, costs.UNKNOWN, one], [1000.0, math.nan, 1000.0])
    assert found.gpu_hours_per_day == pytest.approx(96.0)
    assert found.gpu_seconds_per_million_tokens == pytest.approx(2000.0)


def test_what_an_event_has_cost_is_summed_over_its_busy_time() -> None:
    """Three hours of decoding at twice the time: six GPU-hours on four GPUs."""
    found = costs.over(2.0, 5e6, 3 * 3600.0, PRICES)
    assert (found.tokens, found.gpu_hours, found.money) == pytest.approx((5e6, 6.0, 15.0))
