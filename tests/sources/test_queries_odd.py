"""Answers of a query API that no well-behaved server would give are failures with a reason, never an end."""

from __future__ import annotations

import json

import pytest

from monitor.sources import queries


def body(series: object, kind: str = "vector") -> bytes:
    """An answer with one series."""
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": [series]}}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        body(None),
        body({"metric": ["a"], "value": [1, "1"]}),
        body({"metric": {"a": 1}, "value": [1, "1"]}),
        body({"metric": {"a": None}, "value": [1, "1"]}),
        body({"metric": {"a": "\ud800"}, "value": [1, "1"]}),
        body({"metric": {}, "value": None}),
        body({"metric": {}, "value": [1]}),
        body({"metric": {}, "value": ["x", "1"]}),
        body({"metric": {}, "value": [10**400, "1"]}),
        body({"metric": {}, "values": [[1, "1"], 5]}, "matrix"),
        b"[" * 100_000,
        b'{"status": "success"}',
        b'{"status": "success", "data": []}',
        b"\xff\xfe",
    ],
    ids=range(14),
)
def test_an_odd_answer_is_malformed(answer: bytes) -> None:
    """The message shows the beginning of what was read."""
    with pytest.raises(queries.QueryError, match="expected the JSON of a query API") as refusal:
        queries.read(answer)
    assert refusal.value.reason == "malformed"
    assert len(str(refusal.value)) < 2000
