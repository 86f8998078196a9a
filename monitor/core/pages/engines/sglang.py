"""SGLang 0.4.2 to 0.5.23: the exact sums of `/v1/loads`, else its counters, else its gauges.

The sums (0.5.17 and newer) are per data-parallel rank. `spec_verify_calls_total` (0.5.13) is credited when a
request ends and counts the verifications of the whole server. `spec_accept_length` is the mean of a rank's
last 40 decode steps with the bonus token, stale at idle and 0 when speculation is off. `spec_accept_rate` has
had three meanings and is not read.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.core.pages.engines import apart, identity, sglang_loads, sglang_ranks
from monitor.core.pages.engines.base import (
    NUM_COUNTERS,
    UNKNOWN,
    Counter,
    Engine,
    Evidence,
    Reading,
    Unsupported,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Series

NOT_JUDGED = frozenset({"draft", "prefill"})
WHOLE_SERVER = "all"
PATIENCE = 3  # looks without an answer of /v1/loads after which it is taken to be gone

# Written by the one tokenizer process for all ranks.
VERIFY_CALLS = "spec_verify_calls_total"
GENERATION_TOKENS = "generation_tokens_total"
SERVER: dict[str, Counter] = {
    VERIFY_CALLS: Counter.DRAFTS,
    GENERATION_TOKENS: Counter.GENERATION_TOKENS,
    "num_requests_total": Counter.FINISHED_REQUESTS,
    "time_to_first_token_seconds_count": Counter.FIRST_TOKENS,
    "inter_token_latency_seconds_sum": Counter.REQUEST_DECODE_SECONDS,
    "inter_token_latency_seconds_count": Counter.OUTPUT_TOKENS,
    "prompt_tokens_histogram_sum": Counter.PROMPT_TOKENS,
    "prompt_tokens_total": Counter.CACHE_QUERIES,
    "cached_tokens_total": Counter.CACHE_HITS,
}
TELLING = (VERIFY_CALLS, sglang_ranks.ACCEPT_LENGTH, sglang_ranks.NUM_STEPS, sglang_ranks.NUM_DRAFT_TOKENS)
FLOWING = (GENERATION_TOKENS, sglang_ranks.RUNNING)
OWN = ("dp_rank", "model_name", "model")
LOADS_AS_TEXT = "timestamp"  # /v1/loads as Prometheus text, whose names look the same and mean other things

SIGNATURE = re.compile(
    rb"\n(?P<prefix>(?:[a-zA-Z][a-zA-Z0-9_]*[_:])?sglang[_:])"
    rb"(?:spec_|timestamp|num_running_reqs|max_total_num_tokens|generation_tokens|gen_throughput|token_usage|"
    rb"time_to_first_token_seconds|inter_token_latency_seconds|e2e_request_latency_seconds|prompt_tokens)",
)


def wanted(prefix: str) -> frozenset[str]:
    """Return the sample names to read on a page whose names begin with `prefix`."""
    return frozenset(prefix + name for name in (*sglang_ranks.NAMES, *SERVER, LOADS_AS_TEXT))


def prepare(series: Sequence[Series], prefix: str) -> Reader:
    """Return the reader of pages with these series."""
    if any(each.name == prefix + LOADS_AS_TEXT for each in series):
        return _refuse_loads
    judged = [
        (index, each) for index, each in enumerate(series) if each.label("engine_type") not in NOT_JUDGED
    ]
    if series and not judged:
        return _refuse_prefill
    servers = _servers(judged, prefix)
    missed = PATIENCE

    def read(values: Sequence[float], beside: Mapping[str, bytes]) -> tuple[Reading, ...] | Unsupported:
        nonlocal missed
        loads = sglang_loads.moments(beside.get(sglang_loads.PATH, b"")) if len(servers) == 1 else ()
        # The sums and the counters must not take turns: after a page with sums, one without them waits.
        missed = 0 if loads else missed + 1
        if not loads and missed < PATIENCE:
            return Unsupported(
                f"{sglang_loads.PATH} gave no decode_moments, expected them beside each page as before"
            )
        facts = identity.facts(beside)
        return tuple(reading for server in servers for reading in server.readings(values, loads, facts))

    return read


def _servers(judged: Sequence[tuple[int, Series]], prefix: str) -> list[_Server]:
    """Return the servers of a page; a page that names no model is of one whose name the operator may know."""
    telling, flowing = ({prefix + name for name in names} for names in (TELLING, FLOWING))
    chosen = apart.labels([each for _, each in judged], telling, flowing, OWN)
    nameless = not any(each.label("model_name") for _, each in judged)
    servers: dict[tuple[str, str], _Server] = {}
    seen: set[Series] = set()
    for index, each in judged:
        model_name, worker = each.label("model_name"), apart.name(each, chosen, "0")
        if each in seen or not (model_name or nameless):
            continue
        seen.add(each)
        if chosen and not any(each.label(label) for label in chosen):
            continue  # a router's own counter, of none of the workers
        server = servers.setdefault((model_name, worker), _Server(model_name, worker if chosen else ""))
        server.place(index, each.name.removeprefix(prefix), each)
    return list(servers.values())


class _Server:
    """Where the values of one model stand on the page; `worker` tells it from others that serve it there."""

    def __init__(self, model_name: str, worker: str = "") -> None:
        self.model_name = model_name
        self.worker = worker
        self.ranks: dict[str, sglang_ranks.Rank] = {}
        self.places: dict[str, list[int]] = {}

    def place(self, index: int, name: str, series: Series) -> None:
        if name in SERVER:
            self.places.setdefault(name, []).append(index)
            return
        rank = self.ranks.setdefault(series.label("dp_rank", "0"), sglang_ranks.Rank())
        rank.place(index, name, series)

    def readings(
        self, values: Sequence[float], loads: Sequence[sglang_loads.Moments], facts: identity.Facts
    ) -> list[Reading]:
        """Return what the page says in the best way it has."""
        if loads:
            return [self._exact(values, each, facts, alone=len(loads) == 1) for each in loads]
        states = {
            replica: rank.state(values, facts)
            for replica, rank in (self.ranks or {"0": sglang_ranks.Rank()}).items()
        }
        counted = sglang_ranks.total(self.places.get(VERIFY_CALLS), values) > 0
        # Since 0.5.13 the verifications of all ranks stand in one counter, so the ranks are one stream.
        together = len(states) > 1 and (counted or any(rank.tells_steps() for rank in self.ranks.values()))
        if together:
            states = {WHOLE_SERVER: sglang_ranks.together(list(states.values()))}
        elif counted:
            states = dict([next(iter(states.items()))])
        read = self._counted if counted else self._gauge
        return [read(values, replica, state, facts) for replica, state in states.items()]

    def _exact(
        self, values: Sequence[float], each: sglang_loads.Moments, facts: identity.Facts, *, alone: bool
    ) -> Reading:
        """Return the reading of one rank from its sums; what the server counts is its own if it is alone."""
        counters = self._served(values, alone=alone)
        first = counters[Counter.FIRST_TOKENS]
        state = self.ranks.get(each.replica, sglang_ranks.Rank()).state(values, facts, decoded=each.steps)
        if each.speculative or each.tokens > each.requests:
            state = replace(state, on=True)
        if state.on:
            counters[Counter.DRAFTS] = each.requests
            counters[Counter.ACCEPTED_TOKENS] = max(each.tokens - each.requests, 0.0)
        counters[Counter.GENERATION_TOKENS] = each.tokens + (0.0 if math.isnan(first) else first)
        counters[Counter.DECODE_OUTPUTS] = each.requests
        counters[Counter.DECODE_SECONDS] = each.request_seconds
        counters[Counter.ENGINE_STEPS] = each.steps
        counters[Counter.ENGINE_STEP_SECONDS] = each.step_seconds
        return self._reading(each.replica, Evidence.STEPS, counters, state, facts)

    def _counted(
        self, values: Sequence[float], replica: str, state: sglang_ranks.RankState, facts: identity.Facts
    ) -> Reading:
        """Return the server's reading from counters that move when a request ends.

        Accepted tokens are what is left of the generated ones without one per verification and one per
        request, which came from prefill: `counts.implied` does that on differences, where it cannot fall.
        """
        counters = self._served(values, alone=True)
        counters[Counter.DRAFTS] = sglang_ranks.total(self.places.get(VERIFY_CALLS), values)
        counters[Counter.GENERATION_TOKENS] = sglang_ranks.total(self.places.get(GENERATION_TOKENS), values)
        counters[Counter.FIRST_TOKENS] = counters[Counter.FINISHED_REQUESTS]
        return self._reading(replica, Evidence.REQUEST_END, counters, replace(state, on=True), facts)

    def _gauge(
        self, values: Sequence[float], replica: str, state: sglang_ranks.RankState, facts: identity.Facts
    ) -> Reading:
        """Return a rank's reading from the mean of its last report: no counters, so little weight."""
        counters = self._served(values, alone=len(self.ranks) < 2)  # noqa: PLR2004 - several ranks
        counters[Counter.FIRST_TOKENS] = UNKNOWN
        live = self.ranks.get(replica, sglang_ranks.Rank()).value(sglang_ranks.REALTIME_TOKENS, values)
        if math.isnan(live):
            live = sglang_ranks.total(self.places.get(GENERATION_TOKENS), values)
        counters[Counter.GENERATION_TOKENS] = live
        return self._reading(replica, Evidence.GAUGE, counters, state, facts)

    def _served(self, values: Sequence[float], *, alone: bool) -> list[float]:
        """Return counters with what the tokenizer process counts, which is of no single rank of several."""
        counters = [UNKNOWN] * NUM_COUNTERS
        if alone:
            for name, column in SERVER.items():
                if name not in (VERIFY_CALLS, GENERATION_TOKENS):
                    counters[column] = sglang_ranks.total(self.places.get(name), values)
            # The latency between tokens is observed once for each token but the first.
            counters[Counter.OUTPUT_TOKENS] += counters[Counter.FINISHED_REQUESTS]
        return counters

    def _name(self, rank: str) -> str:
        if not self.worker:
            return rank
        return self.worker if len(self.ranks) < 2 or rank == WHOLE_SERVER else f"{self.worker}:{rank}"  # noqa: PLR2004 - several ranks

    def _reading(
        self,
        replica: str,
        evidence: Evidence,
        counters: Sequence[float],
        state: sglang_ranks.RankState,
        facts: identity.Facts,
    ) -> Reading:
        gauge = evidence is Evidence.GAUGE
        return Reading(
            model_name=self.model_name,
            replica=self._name(replica),
            evidence=evidence if state.on and not state.paused else Evidence.NONE,
            counters=tuple(counters),
            num_speculative_tokens=state.num_speculative_tokens,
            speculating=state.on is not False,
            mean_acceptance_length=state.accept_length if gauge else UNKNOWN,
            window_drafts=sglang_ranks.REPORT_STEPS * max(1.0, state.running) if gauge else UNKNOWN,
            running=state.running,
            engine_version=facts.engine_version,
            config=facts.config,
        )


def _refuse_loads(values: Sequence[float], beside: Mapping[str, bytes]) -> Unsupported:
    del values, beside
    return Unsupported(
        f"this is {sglang_loads.PATH} as Prometheus text, whose accept_length is a lifetime average; "
        "expected /metrics, beside which specmon reads that page by itself",
    )


def _refuse_prefill(values: Sequence[float], beside: Mapping[str, bytes]) -> Unsupported:
    del values, beside
    return Unsupported(
        'only engines of engine_type="prefill" or "draft" are on this page, and they do not verify drafts; '
        "expected a decode or unified engine: look at the decode servers",
    )


ENGINE = Engine(
    name="sglang",
    signature=SIGNATURE,
    wanted=wanted,
    prepare=prepare,
    spellings=("sglang:", "sglang_"),
    beside=(sglang_loads.PATH,),
    identity=(identity.SERVER_INFO, identity.MODEL_INFO),
    title="SGLang",
    versions="0.4.2 … 0.5.23",
    port=30000,
    when_silent="adaptive speculation goes to zero steps at large batches",
    needs_beside=True,
    tokens_flag="--speculative-num-steps {k} --speculative-num-draft-tokens {k+1}",
)
