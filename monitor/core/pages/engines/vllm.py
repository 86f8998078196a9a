"""vLLM V1 (0.8.5 to 0.33) and what exports its names: Ray Serve, KServe, vLLM-Ascend, a Dynamo worker.

Step time is `inter_token_latency_seconds`: in spite of its name it is observed once per request and step.
The number of speculative tokens shows only as the number of position series, which are all created at
start. V0 counted other things under the same names and is recognised to be refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from monitor.core.pages.engines import columns, identity
from monitor.core.pages.engines.base import Counter, Engine, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.engines.base import Reader, Reading
    from monitor.core.pages.exposition import Series

CACHE_CONFIG = "cache_config_info"
CACHE_LABELS = ("block_size", "cache_dtype", "num_gpu_blocks")
V0_ONLY = ("spec_decode_efficiency", "spec_decode_num_emitted_tokens_total")

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

SIGNATURE = re.compile(
    rb"\n(?P<prefix>(?:[a-zA-Z][a-zA-Z0-9_]*[_:])?vllm[_:])"
    rb"(?:spec_decode_|num_requests_|generation_tokens|iteration_tokens|inter_token_latency_seconds|"
    rb"time_per_output_token_seconds|time_to_first_token_seconds|cache_config_info|e2e_request_latency_seconds)",
)


def _replica(series: Series) -> str:
    """Return the replica's name: the engine index, with Ray's replica before it where that is set."""
    engine, actor = columns.engine_index(series), series.label("ReplicaId")
    if not actor:
        return engine
    return actor if engine == "0" else f"{actor}:{engine}"


NAMES = columns.Names(
    counters=COUNTERS,
    second_choice=SECOND_CHOICE,
    per_position=("spec_decode_num_accepted_tokens_per_pos_total", "spec_decode_num_accepted_tokens_per_pos"),
    created=("spec_decode_num_drafts_created", "generation_tokens_created"),
    running="num_requests_running",
    replica=_replica,
)


def wanted(prefix: str) -> frozenset[str]:
    """Return the sample names to read on a page whose names begin with `prefix`."""
    return NAMES.wanted(prefix, CACHE_CONFIG, *V0_ONLY)


def prepare(series: Sequence[Series], prefix: str) -> Reader:
    """Return the reader of pages with these series."""
    page = columns.page(NAMES, series, prefix)
    if any(name in V0_ONLY for name in page.names):
        return _refuse_v0
    if _of_router(page, series):
        return _refuse_router
    _configure(
        page.streams, [each for name, each in zip(page.names, series, strict=True) if name == CACHE_CONFIG]
    )

    def read(values: Sequence[float], beside: Mapping[str, bytes]) -> tuple[Reading, ...]:
        return tuple(page.read(values, beside))

    return read


def _of_router(page: columns.PageColumns, series: Sequence[Series]) -> bool:
    """Return whether this is a router's view: servers without a model, nothing of speculation."""
    bare = not any(stream.speculating or stream.model_name for stream in page.streams)
    return bare and any(each.label("server") for each in series)


def _configure(streams: Sequence[columns.Stream], infos: Sequence[Series]) -> None:
    """Note the caches' configuration with each stream of the same engine index: it stands without a model."""
    by_replica = {_replica(info): info for info in infos}
    for stream in streams:
        info = by_replica.get(stream.replica)
        if info is not None:
            stream.facts = tuple((name, info.label(name)) for name in CACHE_LABELS if info.label(name))


def _refuse_v0(values: Sequence[float], beside: Mapping[str, bytes]) -> Unsupported:
    del values, beside
    return Unsupported(
        "vLLM V0 counters: accepted tokens include those after the first rejection and are added up again "
        "at each log interval, so no acceptance can be computed from them; expected vLLM 0.8.5 or newer "
        "with the V1 engine",
    )


def _refuse_router(values: Sequence[float], beside: Mapping[str, bytes]) -> Unsupported:
    del values, beside
    return Unsupported(
        "a router's view of vLLM servers, without speculation; look at each server's own /metrics"
    )


ENGINE = Engine(
    name="vllm",
    signature=SIGNATURE,
    wanted=wanted,
    prepare=prepare,
    spellings=("vllm:", "vllm_", "ray_vllm_", "ray_vllm:"),
    identity=(identity.VERSION, identity.MODELS, identity.SERVER_INFO_JSON),
    title="vLLM",
    versions="0.8.5 … 0.33 (V1 engine); vLLM-Ascend",
    port=8000,
    when_silent="num_speculative_tokens_per_batch_size may allow no draft tokens at this batch size",
    tokens_flag="--speculative-config '{..., \"num_speculative_tokens\": {k}}'",
    schedule_flag="--speculative-config '{..., \"num_speculative_tokens_per_batch_size\": {runs}}'",
)
