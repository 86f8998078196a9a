"""vLLM V1 (0.8.5 to 0.33) and what exports its names: Ray Serve, KServe, vLLM-Ascend.

Step time is `inter_token_latency_seconds`: in spite of its name it is observed once per request and step.
The number of speculative tokens shows only as the number of position series, which are all created at
start. V0 counted other things under the same names and is recognised to be refused.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from monitor.engines.base import NUM_COUNTERS, UNKNOWN, Counter, Engine, Evidence, Reading, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.engines.base import Reader
    from monitor.exposition import Series

PER_POSITION = "spec_decode_num_accepted_tokens_per_pos"
START_TIME = "process_start_time_seconds"
RUNNING = "num_requests_running"
CACHE_CONFIG = "cache_config_info"
CACHE_LABELS = ("block_size", "cache_dtype", "num_gpu_blocks")
VERSION_PATH = "/version"

COUNTERS: dict[str, Counter] = {
    "spec_decode_num_drafts_total": Counter.DRAFTS,
    "spec_decode_num_draft_tokens_total": Counter.DRAFT_TOKENS,
    "spec_decode_num_accepted_tokens_total": Counter.ACCEPTED_TOKENS,
    "generation_tokens_total": Counter.GENERATION_TOKENS,
    "time_to_first_token_seconds_count": Counter.FIRST_TOKENS,
    "inter_token_latency_seconds_count": Counter.DECODE_OUTPUTS,
    "inter_token_latency_seconds_sum": Counter.DECODE_SECONDS,
    "iteration_tokens_total_count": Counter.ENGINE_STEPS,
    "request_prompt_tokens_sum": Counter.PROMPT_TOKENS,
    "request_generation_tokens_sum": Counter.OUTPUT_TOKENS,
    "request_generation_tokens_count": Counter.FINISHED_REQUESTS,
    "request_decode_time_seconds_sum": Counter.REQUEST_DECODE_SECONDS,
    "prefix_cache_queries_total": Counter.CACHE_QUERIES,
    "prefix_cache_hits_total": Counter.CACHE_HITS,
}
# Read only where the name above is absent: V1 up to 0.9 has the step time under this name, and Ray
# exports counters without the ending.
SECOND_CHOICE: dict[str, Counter] = {
    "time_per_output_token_seconds_count": Counter.DECODE_OUTPUTS,
    "time_per_output_token_seconds_sum": Counter.DECODE_SECONDS,
} | {name.removesuffix("_total"): counter for name, counter in COUNTERS.items() if name.endswith("_total")}
SPECULATION = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS})
CREATED = ("spec_decode_num_drafts_created", "generation_tokens_created")
V0_ONLY = ("spec_decode_efficiency", "spec_decode_num_emitted_tokens_total")

SIGNATURE = re.compile(
    rb"\n(?P<prefix>(?:[a-zA-Z][a-zA-Z0-9_]*[_:])?vllm[_:])"
    rb"(?:spec_decode_|num_requests_|generation_tokens|iteration_tokens|inter_token_latency_seconds|"
    rb"time_per_output_token_seconds|time_to_first_token_seconds|cache_config_info|e2e_request_latency_seconds)",
)


def wanted(prefix: str) -> frozenset[str]:
    """Return the sample names to read on a page whose names begin with `prefix`."""
    names = (*COUNTERS, *SECOND_CHOICE, PER_POSITION, PER_POSITION + "_total", RUNNING, CACHE_CONFIG, *CREATED, *V0_ONLY)
    return frozenset(prefix + name for name in names) | {START_TIME}


def prepare(series: Sequence[Series], prefix: str) -> Reader:
    """Return the reader of pages with these series."""
    names = [each.name.removeprefix(prefix) for each in series]
    if any(name in V0_ONLY for name in names):
        return _refuse_v0
    start = next((index for index, each in enumerate(series) if each.name == START_TIME), None)
    streams: dict[tuple[str, str], _Stream] = {}
    seen: set[Series] = set()
    for index, (name, each) in enumerate(zip(names, series, strict=True)):
        model_name = each.label("model_name")
        if not model_name or each in seen:
            continue
        seen.add(each)
        key = (model_name, _replica(each))
        streams.setdefault(key, _Stream(*key)).place(index, name, each)
    for index, (name, each) in enumerate(zip(names, series, strict=True)):
        if name == CACHE_CONFIG:
            _configure(streams, each)
        elif name in CREATED and (stream := streams.get((each.label("model_name"), _replica(each)))):
            stream.created.setdefault(name, index)
    plans = list(streams.values())
    for stream in plans:
        stream.settle()

    def read(values: Sequence[float], beside: Mapping[str, bytes]) -> tuple[Reading, ...]:
        started_at = UNKNOWN if start is None else values[start]
        version = version_of(beside.get(VERSION_PATH, b""))
        return tuple([stream.read(values, started_at, version) for stream in plans])

    return read


class _Stream:
    """Where the values of one model and replica stand on the page."""

    def __init__(self, model_name: str, replica: str) -> None:
        self.model_name = model_name
        self.replica = replica
        self.places: dict[str, list[int]] = {}
        self.positions: dict[int, int] = {}
        self.created: dict[str, int] = {}
        self.running: int | None = None
        self.facts: tuple[tuple[str, str], ...] = ()
        self.columns: list[tuple[int, list[int]]] = []

    def place(self, index: int, name: str, series: Series) -> None:
        if name in COUNTERS or name in SECOND_CHOICE:
            self.places.setdefault(name, []).append(index)
        elif name.removesuffix("_total") == PER_POSITION and series.label("position").isdecimal():
            self.positions[int(series.label("position"))] = index
        elif name == RUNNING:
            self.running = index

    def settle(self) -> None:
        """Decide which name each counter is read from."""
        chosen = {SECOND_CHOICE[name]: at for name, at in self.places.items() if name in SECOND_CHOICE}
        chosen |= {COUNTERS[name]: at for name, at in self.places.items() if name in COUNTERS}
        self.columns = sorted(chosen.items())
        self.created = {"": next((self.created[name] for name in CREATED if name in self.created), -1)}

    def read(self, values: Sequence[float], started_at: float, engine_version: str) -> Reading:
        counters = [UNKNOWN] * NUM_COUNTERS
        for column, places in self.columns:
            counters[column] = values[places[0]] if len(places) == 1 else sum(values[place] for place in places)
        depth = max(self.positions, default=-1) + 1
        speculating = any(column in SPECULATION for column, _ in self.columns)
        return Reading(
            model_name=self.model_name,
            replica=self.replica,
            evidence=Evidence.STEPS if speculating else Evidence.NONE,
            counters=tuple(counters),
            accepted=tuple([values[self.positions[j]] if j in self.positions else 0.0 for j in range(depth)]),
            num_speculative_tokens=depth,
            speculating=speculating,
            running=UNKNOWN if self.running is None else values[self.running],
            started_at=started_at,
            created_at=values[self.created[""]] if self.created[""] >= 0 else UNKNOWN,
            engine_version=engine_version,
            facts=self.facts,
        )


def _replica(series: Series) -> str:
    """Return the replica's name: the engine index, with Ray's replica before it where that is set."""
    engine, actor = series.label("engine", "0"), series.label("ReplicaId")
    if not actor:
        return engine
    return actor if engine == "0" else f"{actor}:{engine}"


def _configure(streams: Mapping[tuple[str, str], _Stream], info: Series) -> None:
    """Note the cache's configuration with each stream of the same engine index; the page has no model there."""
    facts = tuple((name, info.label(name)) for name in CACHE_LABELS if info.label(name))
    for stream in streams.values():
        if stream.replica == _replica(info):
            stream.facts = facts


def _refuse_v0(values: Sequence[float], beside: Mapping[str, bytes]) -> Unsupported:
    del values, beside
    return Unsupported(
        "vLLM V0 counters: accepted tokens include those after the first rejection and are added up again at "
        "each log interval, so no acceptance can be computed from them; expected vLLM 0.8.5 or newer with the V1 engine",
    )


def version_of(body: bytes) -> str:
    """Return the version in an answer of `/version`, empty where there is none."""
    if not body:
        return ""
    try:
        answer = json.loads(body)
    except ValueError:
        return ""
    version = answer.get("version", "") if isinstance(answer, dict) else ""
    return version if isinstance(version, str) else ""


ENGINE = Engine(
    name="vllm",
    signature=SIGNATURE,
    wanted=wanted,
    prepare=prepare,
    identity=(VERSION_PATH,),
)
