"""Records of counters become readings, and what is no record is refused with the field's name."""

from __future__ import annotations

import math

import pytest

from monitor.core.pages.engines import counters
from monitor.core.pages.engines.base import Counter, Evidence

RECORD: dict[str, object] = {
    "at": 1700000000,
    "target": "a:1",
    "model_name": "m",
    "replica": "1",
    "drafts": 100,
    "draft_tokens": 400,
    "accepted": [80, 60, 40, 20],
}


def test_a_record_is_read_in_full() -> None:
    """Every field of the format arrives in its place of the reading."""
    optional: dict[str, object] = {
        "generation_tokens": 310,
        "step_seconds_sum": 1.5,
        "step_count": 50,
        "running": 2,
        "started_at": 1699999000.5,
        "engine_version": "0.32.0",
        "config": {"method": "eagle", "draft_model": "d"},
    }
    reading = counters.reading(RECORD | optional)
    assert (reading.model_name, reading.replica, reading.evidence) == ("m", "1", Evidence.STEPS)
    by_counter = zip(Counter, reading.counters, strict=True)
    known = {counter: value for counter, value in by_counter if not math.isnan(value)}
    assert known == {
        Counter.DRAFTS: 100,
        Counter.DRAFT_TOKENS: 400,
        Counter.GENERATION_TOKENS: 310,
        Counter.ENGINE_STEPS: 50,
        Counter.ENGINE_STEP_SECONDS: 1.5,
    }
    assert list(reading.accepted) == [80, 60, 40, 20]
    assert (reading.num_speculative_tokens, reading.running) == (4, 2)
    assert (reading.started_at, reading.engine_version) == (1699999000.5, "0.32.0")
    assert reading.config == (("draft_model", "d"), ("method", "eagle"))


@pytest.mark.parametrize("absent", [{}, {"generation_tokens": None, "running": None, "config": None}])
def test_what_a_record_does_not_say_is_unknown(absent: dict[str, object]) -> None:
    """An absent or null optional field is unknown, never 0."""
    reading = counters.reading(RECORD | absent)
    unknown = [value for counter, value in zip(Counter, reading.counters, strict=True) if counter > 1]
    assert all(math.isnan(value) for value in unknown)
    assert math.isnan(reading.running)
    assert math.isnan(reading.started_at)
    assert reading.config == ()


@pytest.mark.parametrize(("given", "expected"), [(None, "0"), (3, "3"), ("a", "a")], ids=str)
def test_a_replica_is_a_text(given: object, expected: str) -> None:
    """A replica that is absent is the only one, and one written as a number is the same replica."""
    assert counters.reading(RECORD | {"replica": given}).replica == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drafts": "many"}, "drafts is 'many', expected a number from 0 up"),
        ({"drafts": -1}, "drafts is '-1', expected a number from 0 up"),
        ({"drafts": math.nan}, "drafts is 'nan', expected a number from 0 up"),
        ({"draft_tokens": math.inf}, "draft_tokens is 'inf', expected a number from 0 up"),
        ({"draft_tokens": True}, "draft_tokens is 'True', expected a number from 0 up"),
        ({"accepted": 200}, "accepted is '200', expected a list with the accepted tokens of each position"),
        ({"accepted": [1, None]}, "accepted is 'None', expected a number from 0 up"),
        ({"model_name": 1}, "model_name is '1', expected a text"),
        ({"replica": [0]}, "replica is '[0]', expected a text"),
        ({"running": "2"}, "running is '2', expected a number from 0 up"),
        ({"config": "k=4"}, "config is 'k=4', expected a mapping of names to values"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_wrong_field_is_named(change: dict[str, object], message: str) -> None:
    """The message says which field, what was read and what was expected."""
    with pytest.raises(counters.Malformed) as refusal:
        counters.reading(RECORD | change)
    assert str(refusal.value) == message


@pytest.mark.parametrize("field", ["model_name", "drafts", "draft_tokens", "accepted"])
def test_a_missing_field_is_named(field: str) -> None:
    """A record without a required field says which."""
    with pytest.raises(counters.Malformed) as refusal:
        counters.reading({name: value for name, value in RECORD.items() if name != field})
    expected = f"{field} is missing, expected the fields model_name, drafts, draft_tokens and accepted"
    assert str(refusal.value) == expected
