"""What a log line of an engine says of speculation: one function for each engine's spelling.

vLLM and LMDeploy print a window's accepted and drafted tokens, its mean acceptance length with two digits
and the rates of the positions with three; SGLang the mean of the last decode steps; llama.cpp a request's
tokens, and sums over its life; TensorRT-LLM writes records of iterations. The number of drafts is printed by
llama.cpp only: of vLLM's windows it is what all printed figures agree on.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from monitor.core.pages.engines.base import UNKNOWN

LineKind = Literal["window", "request", "lifetime", "flow", "start", "record"]

MEAN_ERROR, RATE_ERROR = 0.005, 0.0005  # of two and three printed digits
SGLANG_STEPS = 40.0  # --decode-log-interval, by default

_NUMBER = r"(\d+(?:\.\d+)?)"
_MEAN = re.compile(rf"[Mm]ean acceptance length\s*[:=]\s*{_NUMBER}")
_RATE = re.compile(r"\d+(?:\.\d+)?")
_ACCEPTED = re.compile(r"Accepted: (\d+) tokens")
_DRAFTED = re.compile(r"Drafted: (\d+) tokens")
_POSITIONS = re.compile(r"Per-position acceptance rate: \[?((?:\d+\.\d+(?:, )?)+)")
_FLOW = re.compile(rf"Avg generation throughput: {_NUMBER} tokens/s.*?Running: (\d+) reqs")
_ENGINE = re.compile(r"\b(?:Engine|DP:) ?(\d+)\b")
_SGLANG = re.compile(rf"accept len: {_NUMBER}")
_RUNNING = re.compile(r"#running-req: (\d+)")
_SGLANG_FLOW = re.compile(rf"gen throughput \(token/s\): {_NUMBER}")
_RANK = re.compile(r"\bDP(\d+)\b")
_OTHER_TP = re.compile(r"\bTP(?!0\b)\d+\b")
_REQUEST = re.compile(r"draft acceptance(?: rate)? = \S+ \(\s*(\d+) accepted /\s*(\d+) generated\)")
_REQUEST_MEAN = re.compile(rf"mean (?:acceptance length|len) =\s*{_NUMBER}")
_REQUEST_RATES = re.compile(r"per position = \(([\d., ]+)\)")
_LIFETIME = re.compile(
    r"statistics\s+(\S+): #calls.*?#gen drafts =\s*(\d+).*?#gen tokens =\s*(\d+).*?#acc tokens =\s*(\d+)"
)
_VLLM_START = re.compile(r"Initializing a V\d LLM engine")
_SGLANG_START = re.compile(r"server_args=ServerArgs\(")
_NAME = re.compile(r"served_model_name='?([^',)\s]+)")
_TOKENS = re.compile(r"(?:num_spec_tokens|speculative_num_steps)=(\d+)")


@dataclass(frozen=True, slots=True)
class SaidLine:
    """What one line says; NaN and () where it does not.

    `kind`: a window or a request adds to what was counted before, a lifetime (of the proposer `name`)
    replaces it, a flow tells generated tokens a second, a start begins anew, a record is TensorRT-LLM's JSON.
    `replica` is empty where the line does not say of which engine it is.
    """

    engine: str
    kind: LineKind
    replica: str = ""
    name: str = ""
    drafts: float = UNKNOWN
    draft_tokens: float = UNKNOWN
    accepted: float = UNKNOWN
    positions: tuple[float, ...] = ()
    tokens_per_second: float = UNKNOWN
    running: float = UNKNOWN
    num_speculative_tokens: int = 0


def said(line: str) -> SaidLine | None:
    """Return what a line says of speculation, None where it says nothing of it."""
    for reader in (_window, _flow, _sglang, _request, _lifetime, _start, _record):
        found = reader(line)
        if found is not None:
            return found
    return None


def drafts_of(accepted: float, drafted: float, mean: float, rates: tuple[float, ...]) -> float:
    """Return the number of drafts of a window: what its printed figures agree on.

    The mean m of two digits leaves accepted ÷ (m − 1 ± 0.005), the rates accepted ÷ (their sum). Where all
    drafts have as many tokens as there are rates, drafted tokens ÷ positions is exact, if in that range.
    """
    depth = len(rates)
    low = accepted / (mean - 1.0 + MEAN_ERROR) if mean + MEAN_ERROR > 1.0 else 0.0
    high = accepted / (mean - 1.0 - MEAN_ERROR) if mean - MEAN_ERROR > 1.0 and accepted else math.inf
    if depth and low <= drafted / depth <= high:
        return round(drafted / depth)
    total = sum(rates)
    best = accepted / total if total > depth * RATE_ERROR else drafted / max(depth, 1)
    return round(min(max(best, low), high)) if math.isfinite(high) else round(max(best, low))


def _window(line: str) -> SaidLine | None:
    if "SpecDecoding metrics" not in line and "acceptance rate:" not in line:
        return None
    accepted, drafted = _ACCEPTED.search(line), _DRAFTED.search(line)
    if accepted is None or drafted is None:
        return None
    mean, listed = _MEAN.search(line), _POSITIONS.search(line)
    rates = _rates(listed[1]) if listed else ()
    counted, proposed = float(accepted[1]), float(drafted[1])
    drafts = drafts_of(counted, proposed, float(mean[1]), rates) if mean else UNKNOWN
    engine = "lmdeploy" if "lmdeploy" in line.lower() else "vllm"
    return SaidLine(
        engine,
        "window",
        drafts=drafts,
        draft_tokens=proposed,
        accepted=counted,
        positions=_counted(drafts, rates),
    )


def _rates(listed: str) -> tuple[float, ...]:
    return tuple(float(each) for each in _RATE.findall(listed))


def _counted(drafts: float, rates: tuple[float, ...]) -> tuple[float, ...]:
    """Return the accepted tokens by position, none where the number of drafts is unknown."""
    return () if math.isnan(drafts) else tuple(float(round(drafts * rate)) for rate in rates)


def _flow(line: str) -> SaidLine | None:
    found = _FLOW.search(line)
    if found is None:
        return None
    named = _ENGINE.search(line)
    engine = "lmdeploy" if "lmdeploy" in line.lower() or "DP:" in line else "vllm"
    return SaidLine(
        engine,
        "flow",
        replica=str(int(named[1])) if named else "0",
        tokens_per_second=float(found[1]),
        running=float(found[2]),
    )


def _sglang(line: str) -> SaidLine | None:
    mean = _SGLANG.search(line)
    if mean is None or _OTHER_TP.search(line):
        return None  # every tensor-parallel rank prints the same
    running, flow, rank = _RUNNING.search(line), _SGLANG_FLOW.search(line), _RANK.search(line)
    batch = max(float(running[1]) if running else 1.0, 1.0)
    drafts = SGLANG_STEPS * batch
    return SaidLine(
        "sglang",
        "window",
        replica=rank[1] if rank else "0",
        drafts=drafts,
        accepted=drafts * max(float(mean[1]) - 1.0, 0.0),
        tokens_per_second=float(flow[1]) if flow else UNKNOWN,
        running=batch,
    )


def _request(line: str) -> SaidLine | None:
    found = _REQUEST.search(line)
    if found is None:
        return None
    accepted, drafted = float(found[1]), float(found[2])
    mean, listed = _REQUEST_MEAN.search(line), _REQUEST_RATES.search(line)
    rates = _rates(listed[1]) if listed else ()
    drafts = drafts_of(accepted, drafted, float(mean[1]), rates) if mean else UNKNOWN
    return SaidLine(
        "llama.cpp",
        "request",
        replica="0",
        drafts=drafts,
        draft_tokens=drafted,
        accepted=accepted,
        positions=_counted(drafts, rates),
    )


def _lifetime(line: str) -> SaidLine | None:
    found = _LIFETIME.search(line)
    if found is None:
        return None
    drafts, drafted, accepted = (float(found[group]) for group in (2, 3, 4))
    return SaidLine(
        "llama.cpp", "lifetime", "0", found[1], drafts=drafts, draft_tokens=drafted, accepted=accepted
    )


def _start(line: str) -> SaidLine | None:
    if _VLLM_START.search(line):
        engine = "vllm"
    elif _SGLANG_START.search(line):
        engine = "sglang"
    else:
        return None
    name, tokens = _NAME.search(line), _TOKENS.search(line)
    return SaidLine(
        engine,
        "start",
        name=name[1] if name and name[1] != "None" else "",
        num_speculative_tokens=int(tokens[1]) if tokens else 0,
    )


def _record(line: str) -> SaidLine | None:
    """Return that a line is a record of TensorRT-LLM's iterations, as its iteration log has one a line."""
    text = line.strip()
    if text.startswith("{") and '"iter"' in text and '"specDecodingStats"' in text:
        return SaidLine("trtllm", "record", replica="0")
    return None
