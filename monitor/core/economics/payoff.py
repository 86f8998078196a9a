"""Does speculation pay: the speed of decoding against that of plain steps, with what is known of these.

    speed-up = (plain step time × tokens per step) ÷ step time

The plain step time is the question. It is taken from the first of `ORIGINS` that has it; a measured one comes
before an estimate. The interval joins that of the mean acceptance length with the error of the plain step
time, both taken for normal in logarithms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Origin = Literal["calibrated", "replica", "undrafted", "uncovered", "declared", "fitted"]
ORIGINS: dict[Origin, str] = {
    "calibrated": "a calibration run",
    "replica": "a replica of the same model that does not speculate",
    "undrafted": "this stream's own steps without drafts",
    "uncovered": "this stream's steps without a draft among others: a fit against coverage",
    "declared": "the settings",
    "fitted": "a fit of this stream's step times against batch size and draft tokens: an estimate",
}
"""Where a plain step time may come from, best first, in words."""

PayoffOutcome = Literal["pays", "even", "costs", "unknown"]

EVEN = 0.05
"""Within five percent of plain decoding nobody would switch: it is about even."""
QUANTILE = 1.96
WAYS_TO_LEARN = (
    "run `specmon calibrate`; let one replica of the model serve without speculation; "
    "set economics.plain_step_seconds; or let k vary (k = 0 now and then)"
)
"""What to do where the plain step time is not known."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A plain step time in seconds, its standard error, and where it comes from."""

    seconds: float
    error: float
    origin: Origin


@dataclass(frozen=True, slots=True)
class Payoff:
    """The verdict: how many times as fast as plain decoding, in [low, high] with 95 %; NaN where unknown."""

    outcome: PayoffOutcome
    speedup: float
    low: float
    high: float
    origin: Origin | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a payoff is made of: drafts, MAL with its interval, tokens per step, the step time in seconds."""

    drafts: float
    mal: float
    mal_low: float
    mal_high: float
    tokens_per_step: float
    step_seconds: float


def of(observed: Observed, plain: Plain | None) -> Payoff:
    """Return whether speculation pays; unknown with the reason where a part is missing."""
    missing = _missing(observed, plain)
    if missing or plain is None:
        return Payoff("unknown", math.nan, math.nan, math.nan, None, missing)
    speedup = plain.seconds * observed.tokens_per_step / observed.step_seconds
    # tokens per step follow the acceptance: its relative error is theirs
    errors = [
        math.log(max(high / low, 1.0)) / (2.0 * QUANTILE)
        for low, high in ((observed.mal_low, observed.mal_high),)
        if low > 0 and math.isfinite(high)
    ]
    spread = math.hypot(plain.error / plain.seconds, *errors)
    low, high = speedup * math.exp(-QUANTILE * spread), speedup * math.exp(QUANTILE * spread)
    return Payoff(_outcome(speedup, low, high), speedup, low, high, plain.origin)


def _missing(observed: Observed, plain: Plain | None) -> str:
    if not observed.drafts > 0:
        return "no drafts were counted in this window"
    if not math.isfinite(observed.tokens_per_step):
        return "the page does not count decode steps, so how many of them carried a draft is not known"
    if not (math.isfinite(observed.step_seconds) and observed.step_seconds > 0):
        return "the engine exports no step time; `specmon calibrate` measures both sides instead"
    if plain is None:
        return f"plain step time is not known; ways to learn it: {WAYS_TO_LEARN}"
    return ""


def _outcome(speedup: float, low: float, high: float) -> PayoffOutcome:
    """Return what is shown: a side of 1 by the whole interval, or an interval around even."""
    if low > 1.0 and speedup > 1.0 + EVEN:
        return "pays"
    if high < 1.0 and speedup < 1.0 - EVEN:
        return "costs"
    if (low > 1.0 - 2.0 * EVEN and high < 1.0 + 2.0 * EVEN) or abs(math.log(speedup)) <= EVEN:
        return "even"
    return "unknown"


def sentence(payoff: Payoff) -> str:
    """Return the verdict in words, with its interval and where the plain step time comes from."""
    if payoff.outcome == "unknown":
        if math.isnan(payoff.speedup):
            return f"whether speculation pays cannot be said: {payoff.reason}"
        return (
            f"whether speculation pays cannot be said: {payoff.speedup:.2f}× plain decoding, "
            f"anywhere in {_interval(payoff)}"
        )
    origin = f"plain step time from {ORIGINS[payoff.origin]}" if payoff.origin else ""
    if payoff.outcome == "pays":
        faster = f"{payoff.speedup:.2f}× faster than plain decoding"
        return f"speculation pays: {faster} {_interval(payoff)}; {origin}"
    if payoff.outcome == "costs":
        return f"speculation costs you: {payoff.speedup:.2f}× plain decoding {_interval(payoff)}; {origin}"
    return f"speculation is about even: {payoff.speedup:.2f}× plain decoding {_interval(payoff)}; {origin}"


def _interval(payoff: Payoff) -> str:
    return f"[{payoff.low:.2f}, {payoff.high:.2f}]"
