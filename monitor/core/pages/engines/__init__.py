"""The table of engines, and which of them a page comes from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core.pages import passes
from monitor.core.pages.engines import (
    iterations,
    llamacpp,
    lmdeploy,
    mlc,
    sglang,
    signposts,
    tgi,
    trtllm,
    vllm,
    xllm,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.pages.engines.base import Engine

SHOWN_NAMES = 5
_NAMES = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]*)", re.MULTILINE)

ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        vllm.ENGINE,
        sglang.ENGINE,
        trtllm.ENGINE,
        llamacpp.ENGINE,
        lmdeploy.ENGINE,
        tgi.ENGINE,
        mlc.ENGINE,
        xllm.ENGINE,
    )
}

# Where a target's page may be when its URL has no path, in this order. TensorRT-LLM's comes first because a
# look at its /metrics takes iteration records away from whoever reads them; the others answer 404 there.
PROBE_PATHS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [*(engine.path for engine in ENGINES.values() if engine.path != "/metrics"), "/metrics", "/metrics/"]
    )
)
# And where when it has no port either; of engines with the same port the first in the table names it.
PROBE_PORTS: tuple[int, ...] = tuple(dict.fromkeys(engine.port for engine in ENGINES.values()))


@dataclass(frozen=True, slots=True)
class Schema:
    """An engine's names as one page spells them: what to read there."""

    engine: Engine
    prefix: str
    wanted: frozenset[str]


def recognise(body: bytes, only: str = "") -> Schema | None:
    """Return the schema of the first engine of the table whose signature the page has, None if none fits.

    `only` is the engine that the operator says it is; no other one is tried.

    A page of no engine that is known all the same gets a schema that reads it as unsupported, with the place
    to look at instead.
    """
    if passes.has_too_many_lines(body):
        return None
    text = b"\n" + body
    for engine in (ENGINES[only],) if only else (*ENGINES.values(), *signposts.SIGNPOSTS):
        match = passes.first(engine.signature, text)
        if match is not None:
            prefix = match["prefix"].decode()
            return Schema(engine, prefix, engine.wanted(prefix))
    return None


def choices() -> tuple[str, ...]:
    """Return what a target may be said to be: an engine, or the JSON page that is read only when told."""
    return (*ENGINES, iterations.NAME)


def flag(engine: str, num_speculative_tokens: int) -> str | None:
    """Return what sets k in an engine; None where the engine is not known or has no such flag."""
    given = ENGINES[engine].tokens_flag if engine in ENGINES else ""
    told = given.replace("{k+1}", str(num_speculative_tokens + 1)).replace("{k}", str(num_speculative_tokens))
    return told or None


def schedule_flag(engine: str, runs: Sequence[tuple[int, int, int]]) -> str | None:
    """Return what sets a k for each run of (first batch size, last, k); None where it has none."""
    given = ENGINES[engine].schedule_flag if engine in ENGINES else ""
    lists = "[" + ", ".join(f"[{first}, {last}, {tokens}]" for first, last, tokens in runs) + "]"
    firsts = "{" + ", ".join(f"{first}: {tokens}" for first, _, tokens in runs) + "}"
    return given.replace("{runs}", lists).replace("{firsts}", firsts) or None


def why_unrecognised(body: bytes) -> str:
    """Return one sentence: which names the page has and what was expected of it."""
    names = dict.fromkeys(match.decode() for match in _NAMES.findall(body[:200_000]))
    shown = ", ".join(list(names)[:SHOWN_NAMES]) or "no metric"
    return f"no known engine's metrics on the page; read {shown} …, expected those of {', '.join(ENGINES)}"
