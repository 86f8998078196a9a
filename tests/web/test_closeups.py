"""The close look at a stream: its two sides, and the estimates as its counters give them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from monitor.core import streams
from monitor.web import fields, formulas, positions
from monitor.web.glossary import CHECKS
from tests.web import two_replicas

if TYPE_CHECKING:
    from monitor.web.view import StreamView


def looked_at(target: str) -> tuple[StreamView, fields.Record]:
    """The stream of one of the two replicas with its close look."""
    view = two_replicas.collapsed()
    found = next(each for each in view.streams() if each.target == target)
    return found, view.closeup(found.id)


def moved(closeup: fields.Record) -> fields.Record:
    """How far each counter moved in the window."""
    return fields.record(fields.record(closeup, "counters"), "moved")


@pytest.mark.parametrize("target", ["t0", "t1"])
def test_formulas_give_the_estimates(target: str) -> None:
    """Every formula filled with the counters' numbers gives the estimate of its name."""
    stream, closeup = looked_at(target)
    found = formulas.of(moved(closeup))
    assert {each.name for each in found} >= {
        "mal",
        "coverage",
        "tokens_per_step",
        "step_seconds",
        "batch_size",
    }
    for each in found:
        assert each.value == pytest.approx(fields.number(stream.estimate, each.name), rel=1e-4), each.name


def test_a_formula_is_written_out() -> None:
    """The definition is in the counters' words, and beside it stands the same with their numbers."""
    (mal, *_) = formulas.of({"accepted_tokens": 30125, "drafts": 14233})
    assert (mal.definition, mal.filled) == ("1 + accepted tokens ÷ drafts", "1 + 30,125 ÷ 14,233")
    assert mal.value == pytest.approx(3.116560)


@pytest.mark.parametrize("counters", [{}, {"drafts": 0, "accepted_tokens": 0}, {"drafts": 5}])
def test_no_formula_without_its_counters(counters: dict[str, float]) -> None:
    """What would divide by nothing, or miss a counter, is not told."""
    assert formulas.of(counters) == []


def test_step_time_is_of_the_counters_that_are_there() -> None:
    """Seconds of (request, step) pairs rule; where the page has none, those of engine steps are told."""
    steps = {"engine_step_seconds": 3.0, "engine_steps": 200}
    pairs = {"decode_seconds": 5.0, "decode_outputs": 250}
    values = [{each.name: each.value for each in formulas.of(known)} for known in (steps, steps | pairs)]
    assert [each["step_seconds"] for each in values] == [pytest.approx(0.015), pytest.approx(0.02)]


def test_a_change_parts_before_and_now() -> None:
    """While a collapse is open, its event's levels stand on both sides and acceptance made the time longer."""
    stream, closeup = looked_at("t1")
    assert stream.open_event is not None
    assert closeup["change_open"] is True
    assert closeup["parted_at"] == pytest.approx(stream.open_event["change_point_at"])
    for side, name in (("before", "before"), ("now", "after")):
        told = fields.record(stream.open_event, name)
        assert {key: fields.record(closeup, side)[key] for key in told} == told
    shares = {name: float(str(value)) for name, value in fields.record(closeup, "tpot_log_shares").items()}
    assert shares["acceptance"] > math.log(1.5)
    assert shares.pop("total") == pytest.approx(sum(shares.values()))
    assert fields.text(closeup, "tpot_sentence").startswith("TPOT rose")


def test_without_a_change_the_last_minutes_are_the_present() -> None:
    """A healthy stream is compared with itself a few minutes ago, and moved hardly."""
    _, closeup = looked_at("t0")
    assert closeup["change_open"] is False
    assert fields.number(closeup, "parted_at") == two_replicas.START + two_replicas.SECONDS - 300.0


def test_counters_are_those_of_the_page() -> None:
    """What the last page says is more than what was counted in the window: engines run before we look."""
    _, closeup = looked_at("t0")
    page = fields.record(fields.record(closeup, "counters"), "on_page")
    for name, value in moved(closeup).items():
        assert float(str(page[name])) >= float(str(value)) > 0, name


def test_positions_have_intervals_on_both_sides() -> None:
    """Each position stands inside its own intervals, before and now."""
    stream, closeup = looked_at("t1")
    found = positions.of(stream, closeup)
    assert [each.position for each in found] == [0, 1, 2, 3]
    for share in (side for each in found[:2] for side in (each.before, each.now)):
        assert share.low is not None
        assert share.value is not None
        assert share.high is not None
        assert share.low < share.value < share.high


def test_every_check_is_explained() -> None:
    """The page says of each check of the data what it found."""
    assert set(CHECKS) == set(streams.CHECKS)
