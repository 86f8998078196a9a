"""Pages that are known, are no engine's, and have nothing of speculation: each says where to look instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core.pages.engines.base import Engine, Unsupported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Series


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Reads every page as the same refusal."""

    detail: str

    def __call__(self, values: Sequence[float], beside: Mapping[str, bytes]) -> Unsupported:
        del values, beside
        return Unsupported(self.detail)


def _signpost(name: str, first_names: str, detail: str) -> Engine:
    """Return a row for pages with a name that begins with one of `first_names` (a pattern)."""

    def wanted(prefix: str) -> frozenset[str]:
        return frozenset({prefix})

    def prepare(series: Sequence[Series], prefix: str) -> Reader:
        del series, prefix
        return _Refusal(f"no speculation series on this page: {detail}")

    return Engine(
        name=name,
        signature=re.compile(rb"\n(?P<prefix>" + first_names.encode() + rb")"),
        wanted=wanted,
        prepare=prepare,
    )


SIGNPOSTS: tuple[Engine, ...] = (
    _signpost(
        "dynamo-frontend",
        "dynamo_(?:frontend|router)_",
        "it is a Dynamo frontend's; look at the workers' system port (DYN_SYSTEM_PORT, often 8081) /metrics",
    ),
    _signpost(
        "dynamo-worker",
        "dynamo_(?:component|work_handler)_",
        "it is a Dynamo worker's without its engine's metrics; they appear once the engine is up",
    ),
    _signpost(
        "triton",
        "nv_(?:inference|trt_llm|gpu|cpu|energy|pinned)_",
        "it is Triton's, whose TensorRT-LLM backend exports none; trtllm-serve does at /prometheus/metrics",
    ),
    _signpost(
        "sglang-router",
        "(?:sgl_router|sglang_router|smg)_",
        "it is an SGLang router's; look at the workers' /metrics",
    ),
    _signpost(
        "lightllm",
        "lightllm_",
        "LightLLM exports none, only a log line of each request",
    ),
    _signpost(
        "vllm-router",
        "(?:vllm_router|vllm:current_qps|vllm:healthy_pods|llm_d_|inference_(?:pool|objective|extension|model)_)",
        "it is a router's; look at the engines' /metrics",
    ),
    _signpost(
        "web-server",
        "http_request(?:s_total|_duration_highr_seconds)",
        "it has only a web server's counters; vLLM's page is like that with --disable-log-stats, and SGLang "
        "needs --enable-metrics",
    ),
)
