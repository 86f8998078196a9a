"""What a change costs is said in the same words on pages, in text and in notifications."""

from __future__ import annotations

import math

from monitor.web import bills, wording

COST: dict[str, object] = {
    "tokens_per_second_lost": 450.0,
    "gpu_seconds_per_million_tokens": 2000.0,
    "gpu_hours_per_day": 12.0,
    "money_per_day": 30.0,
    "tokens_lost": 1_500_000.0,
    "gpu_hours": 0.333,
    "money": 0.83,
    "busy_ratio": 0.5,
    "tpot_log_shares": {"total": math.log(1.42), "acceptance": math.log(1.38), "rest": math.log(0.98)},
}


def test_a_bill_in_one_phrase() -> None:
    """Now and so far, with the price where there is one."""
    assert bills.sentence(COST) == (
        "450 tokens/s are lost, 12.0 GPU-hours (cost 30.0) a day are extra, "
        "1.50 M tokens, 0.333 GPU-hours (cost 0.830) so far"
    )


def test_without_a_price_no_money_is_said() -> None:
    """GPU-hours are told without a price."""
    said = bills.sentence({**COST, "money_per_day": None, "money": None})
    assert "cost" not in said
    assert "12.0 GPU-hours a day" in said


def test_an_upper_bound_is_said_to_be_one() -> None:
    """Where the page does not tell for how long the engine decodes, GPU time is at most so much."""
    assert "at most 12.0 GPU-hours" in bills.sentence({**COST, "busy_ratio": None})


def test_a_gain_and_the_unknown_are_no_bill() -> None:
    """An improvement has no losses to tell, nor has an event whose cost is not known."""
    assert bills.sentence({**COST, "tokens_per_second_lost": -5.0, "gpu_hours_per_day": -1.0}) == ""
    assert bills.sentence({}) == ""
    assert {text for _, text in bills.rows({})} == {wording.UNKNOWN}


def test_the_largest_share_comes_first() -> None:
    """Shares are told as percentages that multiply, those below half a percent are left out."""
    assert bills.shares(COST) == "acceptance +38 %, rest −2 %"
    assert bills.shares({"tpot_log_shares": {"total": 0.001, "acceptance": 0.001}}) == ""


def test_amounts_have_three_digits() -> None:
    """From a thousandth to a billion."""
    values = (None, 0.0, 0.125, 1.5, 12.34, 1250.0, 1.25e6, 1.5e9, -3.0)
    assert [wording.amount(value) for value in values] == [
        wording.UNKNOWN, "0", "0.125", "1.50", "12.3", "1,250", "1.25 M", "1,500 M", "−3.00",
    ]  # fmt: skip
