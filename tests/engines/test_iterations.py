"""TensorRT-LLM's iteration records: sums of what was drafted, gaps that are counted, restarts that are seen."""

from __future__ import annotations

import json

import numpy as np
import pytest

from monitor.core.counts import deltas
from monitor.core.counts import readings as arrays
from monitor.core.pages.engines import iterations
from monitor.core.pages.engines.base import UNKNOWN, Counter, Evidence

BEGAN = iterations.Totals(began=100.0)


def record(
    number: int, drafted: int | None, accepted: int = 0, requests: int = 2, rank: int | None = None
) -> object:
    """One iteration as the engine writes it."""
    told: dict[str, object] = {
        "iter": number,
        "iterLatencyMS": 20.0,
        "numActiveRequests": requests,
        "inflightBatchingStats": {"numGenRequests": requests, "avgNumDecodedTokensPerIter": 1.5},
    }
    if drafted is not None:
        told["specDecodingStats"] = {
            "numDraftTokens": drafted,
            "numAcceptedTokens": accepted,
            "numRequestsWithDraftTokens": requests if drafted else 0,
            "acceptanceLength": (accepted + requests) / requests if drafted else 1.0,
        }
    if rank is not None:
        told["attentionDpRank"] = rank
    return told


def answer(*records: object) -> bytes:
    """The body of one call."""
    return json.dumps(records).encode()


def test_requests_with_drafts_are_the_weight() -> None:
    """A mean of `acceptanceLength` would be wrong: (2.0 + 1.0) ÷ 2 for iterations that say 2.5."""
    totals = iterations.add(
        BEGAN, answer(record(1, 6, 3), record(2, 0), record(3, 30, 15, requests=10)), 110.0
    )
    assert (totals.drafts, totals.draft_tokens, totals.accepted_tokens) == (12, 36, 18)
    told = iterations.reading(totals, "m", {})
    assert told.evidence is Evidence.ITERATIONS
    assert (told.counters[Counter.DECODE_OUTPUTS], told.counters[Counter.GENERATION_TOKENS]) == (14, 21)
    assert told.counters[Counter.ENGINE_STEP_SECONDS] == pytest.approx(0.06)


def test_iterations_that_nobody_returned_are_counted_as_missed() -> None:
    """Another reader took them, or the buffer was full: nothing is guessed for them."""
    totals = iterations.add(
        iterations.add(BEGAN, answer(record(1, 6, 3)), 110.0), answer(record(9, 6, 3)), 120.0
    )
    assert (totals.missed, totals.drafts) == (7, 4)


def test_an_empty_answer_adds_nothing() -> None:
    """No iteration since the last call is no evidence."""
    totals = iterations.add(BEGAN, answer(record(1, 6, 3)), 110.0)
    assert iterations.add(totals, b"[]", 120.0) == totals


def test_copies_of_other_ranks_are_left_out() -> None:
    """With attention parallelism each rank has a row with the figures of rank 0."""
    totals = iterations.add(BEGAN, answer(record(1, 6, 3, rank=0), record(1, 6, 3, rank=1)), 110.0)
    assert totals.drafts == 2


def test_iterations_that_begin_again_are_another_life() -> None:
    """The engine restarted: its sums count from zero, and the start time says so."""
    before = iterations.add(BEGAN, answer(record(900, 600, 300, requests=200)), 110.0)
    after = iterations.add(before, answer(record(1, 6, 3)), 120.0)
    state = deltas.allocate(1, 4)
    for at, totals in ((110.0, before), (120.0, after)):
        now = arrays.stack([iterations.reading(totals, "m", {})], np.array([at]), np.array([UNKNOWN]), 4)
        counts, _ = deltas.between(state, np.arange(1), now)
    assert counts.restarted[0]
    assert counts.values[0, Counter.DRAFTS] == 2


def test_without_speculation_it_is_off() -> None:
    """Records without the part on speculation are those of an engine that has none."""
    told = iterations.reading(iterations.add(BEGAN, answer(record(1, None)), 110.0), "m", {})
    assert (told.speculating, told.evidence) == (False, Evidence.NONE)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"detail":"Not Found"}', b"# TYPE x counter\nx 1\n"])
def test_what_is_no_list_of_iterations_is_refused(body: bytes) -> None:
    """The message shows what was read and names the page that has Prometheus text."""
    with pytest.raises(iterations.NotIterations, match="/prometheus/metrics"):
        iterations.add(BEGAN, body, 110.0)
