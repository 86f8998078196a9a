"""The one query that asks a Prometheus-compatible API for every series that an engine's page is read for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.core.pages import engines
from monitor.core.pages.engines import columns

if TYPE_CHECKING:
    from collections.abc import Mapping

# How the pages spell what they put before an engine's names. The underscore is what collectors make of the
# colon, and what Ray puts before vLLM's.
PREFIXES: Mapping[str, tuple[str, ...]] = {
    "vllm": ("vllm:", "vllm_", "ray_vllm_", "ray_vllm:"),
    "sglang": ("sglang:", "sglang_"),
    "trtllm": ("trtllm_", "trtllm:"),
    "llama.cpp": ("llamacpp:", "llamacpp_"),
    "lmdeploy": ("lmdeploy:", "lmdeploy_"),
    "tgi": ("tgi_",),
    "mlc-llm": ("", "mlc_"),
    "xllm": ("", "xllm_"),
}
# Not read, but what a page without speculation is recognised by.
SIGNS: Mapping[str, tuple[str, ...]] = {"mlc-llm": ("engine_decode_time_sum", "jump_forward_tokens_sum")}
# Every process has it, engine or not.
COMMON = columns.START_TIME


def names() -> frozenset[str]:
    """Return the sample names of all engines, in every known spelling."""
    return frozenset(
        name
        for engine in engines.ENGINES.values()
        for prefix in PREFIXES[engine.name]
        for name in (*engine.wanted(prefix), *(prefix + sign for sign in SIGNS.get(engine.name, ())))
    )


def query(selector: str = "") -> str:
    """Return the query; `selector` are more matchers, such as `cluster="eu"`, with or without braces."""
    more = selector.strip().removeprefix("{").removesuffix("}").strip().strip(",")
    pattern = "|".join(sorted(names()))  # a name has no character that means anything in a pattern
    return f'{{__name__=~"{pattern}"{"," + more if more else ""}}}'
