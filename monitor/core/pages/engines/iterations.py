"""TensorRT-LLM's JSON `/metrics`: records of single iterations -> a reading. Only read when told to.

Each call takes the records out of the engine's bounded buffer, so two readers steal from each other, and a
slow one loses the oldest. What was lost shows as a jump of `iter` and is counted as missed, never guessed.
`acceptanceLength` is a mean of one iteration, 0 or 1 where nothing was drafted; the sums are used instead:
accepted tokens ÷ requests with drafts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from monitor.core.pages.engines import identity
from monitor.core.pages.engines.base import NUM_COUNTERS, UNKNOWN, Counter, Evidence, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "trtllm-json"
MILLISECONDS = 1e3
SHOWN_CHARACTERS = 80


class NotIterations(Exception):  # noqa: N818 - read aloud where it is caught
    """The body is not a list of iteration records; the message says what was read and expected."""


@dataclass(frozen=True, slots=True)
class Totals:
    """The records of one life of the engine, summed since `began` (unix seconds).

    `last` is the number of the last iteration, -1 before the first; `missed` are those that no answer had.
    """

    began: float
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted_tokens: float = 0.0
    generated_tokens: float = 0.0
    decode_outputs: float = 0.0
    steps: float = 0.0
    step_seconds: float = 0.0
    missed: float = 0.0
    last: float = -1.0
    running: float = UNKNOWN
    speculating: bool = False


def add(totals: Totals, body: bytes, unix_seconds: float) -> Totals:
    """Return `totals` with the records of an answer that came at `unix_seconds`; an empty list adds nothing.

    Iterations that count from the start again are another life, and begin new totals. Raises NotIterations.
    """
    answer = identity.parsed(body)
    if not isinstance(answer, list):
        shown = body[:SHOWN_CHARACTERS].decode("utf-8", "replace")
        raise NotIterations(
            f"read {shown!r}, expected a JSON list of iterations; Prometheus text is at /prometheus/metrics"
        )
    for record in answer:
        # With attention parallelism each rank has a row, and the others repeat rank 0.
        if isinstance(record, dict) and _number(record, "attentionDpRank") in (0.0, UNSAID):
            number = _number(record, "iter")
            if number <= totals.last:
                totals = Totals(began=unix_seconds)
            totals = _with(totals, record, number)
    return totals


def reading(totals: Totals, model_name: str, beside: Mapping[str, bytes]) -> Reading:
    """Return the reading of `totals`; the model's name and k are the operator's, or of the pages `beside`."""
    facts = identity.facts(beside)
    counters = [UNKNOWN] * NUM_COUNTERS
    if totals.speculating:
        counters[Counter.DRAFTS] = totals.drafts
        counters[Counter.DRAFT_TOKENS] = totals.draft_tokens
        counters[Counter.ACCEPTED_TOKENS] = totals.accepted_tokens
    counters[Counter.GENERATION_TOKENS] = totals.generated_tokens
    counters[Counter.DECODE_OUTPUTS] = totals.decode_outputs
    counters[Counter.ENGINE_STEPS] = totals.steps
    counters[Counter.ENGINE_STEP_SECONDS] = totals.step_seconds
    return Reading(
        model_name=model_name or facts.model_name,
        replica="0",
        evidence=Evidence.ITERATIONS if totals.speculating else Evidence.NONE,
        counters=tuple(counters),
        num_speculative_tokens=facts.num_speculative_tokens,
        speculating=totals.speculating,
        running=totals.running,
        started_at=totals.began,
        engine_version=facts.engine_version,
        config=facts.config,
    )


UNSAID = -1.0


def _number(record: identity.Json, *path: str) -> float:
    """Return the number at `path`, -1 where there is none."""
    found = identity.inner(record, *path)
    return float(found) if isinstance(found, int | float) and found >= 0 else UNSAID


def _with(totals: Totals, record: identity.Json, number: float) -> Totals:
    requests = max(_number(record, "inflightBatchingStats", "numGenRequests"), 0.0)
    tokens = max(_number(record, "inflightBatchingStats", "avgNumDecodedTokensPerIter"), 0.0) * requests
    drafted = _number(record, "specDecodingStats", "numDraftTokens")
    drafts = _number(record, "specDecodingStats", "numRequestsWithDraftTokens")
    accepted = _number(record, "specDecodingStats", "numAcceptedTokens")
    counted = drafted > 0 and drafts > 0
    return replace(
        totals,
        drafts=totals.drafts + (drafts if counted else 0.0),
        draft_tokens=totals.draft_tokens + (drafted if counted else 0.0),
        accepted_tokens=totals.accepted_tokens + (max(accepted, 0.0) if counted else 0.0),
        generated_tokens=totals.generated_tokens + tokens,
        decode_outputs=totals.decode_outputs + requests,
        steps=totals.steps + 1.0,
        step_seconds=totals.step_seconds + max(_number(record, "iterLatencyMS"), 0.0) / MILLISECONDS,
        missed=totals.missed + (max(number - totals.last - 1.0, 0.0) if totals.last >= 0 else 0.0),
        last=number,
        running=_number(record, "numActiveRequests"),
        speculating=totals.speculating or drafted >= 0,
    )
