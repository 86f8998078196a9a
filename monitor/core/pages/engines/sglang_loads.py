"""SGLang's `/v1/loads`: exact sums over decode steps per data-parallel rank, since 0.5.17.

`decode_moments` are steps, Σ requests, Σ step µs, Σ requests², Σ requests × step µs, Σ tokens (bonus token
included), null before the first step. What the same page calls `accept_length` is a lifetime average and its
`accept_rate` that of the last report; neither is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.pages.engines import identity

PATH = "/v1/loads"
NUM_MOMENTS = 6
MICROSECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Moments:
    """The sums of one rank, times in seconds; `speculative` is whether the page has a part of that name."""

    replica: str
    steps: float
    requests: float
    step_seconds: float
    request_seconds: float
    tokens: float
    speculative: bool


def moments(body: bytes) -> tuple[Moments, ...]:
    """Return the ranks' sums in an answer of `/v1/loads`, nothing where the engine does not have them."""
    answer = identity.parsed(body) if body else None
    loads = identity.inner(answer, "loads") if isinstance(answer, dict) else answer
    return tuple(
        found for load in (loads if isinstance(loads, list) else ()) if (found := _rank(load)) is not None
    )


def _rank(load: identity.Json) -> Moments | None:
    if not isinstance(load, dict) or "decode_moments" not in load:
        return None
    sums = load["decode_moments"]
    numbers = [0.0] * NUM_MOMENTS if sums is None else _numbers(sums)
    if len(numbers) != NUM_MOMENTS:
        return None
    rank = load.get("dp_rank")
    return Moments(
        replica=str(int(rank)) if isinstance(rank, int | float) else "0",
        steps=numbers[0],
        requests=numbers[1],
        step_seconds=numbers[2] / MICROSECONDS,
        request_seconds=numbers[4] / MICROSECONDS,
        tokens=numbers[5],
        speculative=bool(load.get("speculative")),
    )


def _numbers(value: identity.Json) -> list[float]:
    return [float(each) for each in value if isinstance(each, int | float)] if isinstance(value, list) else []
