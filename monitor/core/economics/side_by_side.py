"""Two servers of one model asked the same things in turn: what speculation gains, whether outputs are equal.

Each prompt goes to both at the same concurrency, one side after the other, so that whatever else happens on
the machine happens to both. The unit is the pair: the logarithm of the ratio of the two times per output
token. Its mean over pairs has a Student interval; pairs that ran at once share a machine, so a round (all
pairs of one interleaving) counts as one observation.

Greedy outputs of both sides should be equal. Where they are not, the first difference is shown; batching,
kernels and number formats change the last bits of logits, and near-ties fall the other way with nothing being
wrong (`BENIGN`). Sampled outputs cannot be equal; their lengths are compared as samples of one distribution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CONFIDENCE = 0.95
BENIGN = (
    "batch-dependent kernels, other attention or quantised kernels when several positions are verified at "
    "once, and near-ties between tokens"
)
"""Known reasons for greedy outputs that differ although the algorithm is exact."""
FORMAT = 1
"""Version of the JSON form."""
SHOWN_CHARACTERS = 60
Side = Literal["with", "without"]


@dataclass(frozen=True, slots=True)
class CompletionRun:
    """One answer of one side: times in seconds, `tokens` generated, its text.

    `first` is the time to the first token, `total` to the last; `round_number` is the interleaving it ran in,
    `slot` which of the requests of that round it was: the same prompt on both sides.
    """

    side: Side
    concurrency: int
    round_number: int
    slot: int
    first: float
    total: float
    tokens: int
    text: str = ""

    @property
    def tpot(self) -> float:
        """Seconds per output token after the first; NaN where there was none."""
        return (self.total - self.first) / (self.tokens - 1) if self.tokens > 1 else math.nan


@dataclass(frozen=True, slots=True)
class ConcurrencyResult:
    """What was measured at one concurrency: TPOT of both sides in seconds and how many times as fast one is.

    `plain_error` is the standard error of the plain TPOT. `pairs` that both sides answered, in `rounds`.
    """

    concurrency: int
    pairs: int
    rounds: int
    plain_tpot_seconds: float
    plain_error: float
    speculative_tpot_seconds: float
    speedup: float
    low: float
    high: float
    plain_first_seconds: float
    speculative_first_seconds: float
    plain_tokens_per_second: float
    speculative_tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Parity:
    """Whether both sides say the same: `equal` of `compared`, and the first difference in words.

    For sampled outputs `equal` counts nothing; `p_value` is that of the lengths being of one distribution and
    `smallest_shift` the difference in the share of shorter answers that would have been seen in 80 %.
    """

    sampled: bool
    compared: int
    equal: int
    first_difference: str
    p_value: float = math.nan
    smallest_shift: float = math.nan


@dataclass(frozen=True, slots=True)
class SideBySide:
    """The result: one per concurrency, and the parity of the outputs."""

    model_name: str
    measured_at: float
    results: tuple[ConcurrencyResult, ...]
    parity: Parity

    @property
    def stops_paying_at(self) -> int | None:
        """The smallest concurrency at which plain decoding is faster for certain, None without one."""
        return next((each.concurrency for each in self.results if each.high < 1.0), None)


def of(runs: Sequence[CompletionRun], model_name: str, measured_at: float, *, sampled: bool) -> SideBySide:
    """Return what the runs show; answers without a second token say nothing and are left out."""
    levels = sorted({run.concurrency for run in runs})
    results = [_result([run for run in runs if run.concurrency == level], level) for level in levels]
    parity = _sampled_parity(runs) if sampled else _greedy_parity(runs)
    return SideBySide(model_name, measured_at, tuple(each for each in results if each is not None), parity)


def _pairs(runs: Sequence[CompletionRun]) -> list[tuple[CompletionRun, CompletionRun]]:
    """Return (with, without) of each prompt, round and concurrency that both sides answered."""
    plain = {_key(run): run for run in runs if run.side == "without"}
    return [(run, plain[_key(run)]) for run in runs if run.side == "with" and _key(run) in plain]


def _key(run: CompletionRun) -> tuple[int, int, int]:
    return run.concurrency, run.round_number, run.slot


def _result(runs: Sequence[CompletionRun], concurrency: int) -> ConcurrencyResult | None:
    timed = [(a, b) for a, b in _pairs(runs) if a.tpot > 0.0 and b.tpot > 0.0]
    if not timed:
        return None
    rounds = sorted({pair[0].round_number for pair in timed})
    logs = [
        float(np.mean([math.log(b.tpot / a.tpot) for a, b in timed if a.round_number == number]))
        for number in rounds
    ]
    mean, half = float(np.mean(logs)), _half_width(logs)
    plain = [float(np.mean([b.tpot for _, b in timed if b.round_number == number])) for number in rounds]
    plain_tpot = float(np.mean(plain))
    return ConcurrencyResult(
        concurrency=concurrency,
        pairs=len(timed),
        rounds=len(rounds),
        plain_tpot_seconds=plain_tpot,
        plain_error=float(np.std(plain, ddof=1) / math.sqrt(len(plain))) if len(plain) > 1 else math.inf,
        speculative_tpot_seconds=float(np.mean([a.tpot for a, _ in timed])),
        speedup=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
        plain_first_seconds=float(np.median([b.first for _, b in timed])),
        speculative_first_seconds=float(np.median([a.first for a, _ in timed])),
        plain_tokens_per_second=_throughput([b for _, b in timed], concurrency),
        speculative_tokens_per_second=_throughput([a for a, _ in timed], concurrency),
    )


def _half_width(logs: Sequence[float]) -> float:
    """Return half of the interval of the mean, infinite for a single round."""
    if len(logs) < 2:  # noqa: PLR2004 - two observations have a spread
        return math.inf
    from scipy import special  # noqa: PLC0415 - the service never needs it

    quantile = float(special.stdtrit(len(logs) - 1, 0.5 + CONFIDENCE / 2.0))
    return quantile * float(np.std(logs, ddof=1)) / math.sqrt(len(logs))


def _throughput(runs: Sequence[CompletionRun], concurrency: int) -> float:
    """Return the tokens per second of a side while `concurrency` requests ran at once."""
    return concurrency * sum(run.tokens for run in runs) / sum(run.total for run in runs)


def _greedy_parity(runs: Sequence[CompletionRun]) -> Parity:
    pairs = _pairs(runs)
    differing = [(a, b) for a, b in pairs if a.text != b.text]
    shown = _difference(*differing[0]) if differing else ""
    return Parity(
        sampled=False, compared=len(pairs), equal=len(pairs) - len(differing), first_difference=shown
    )


def _difference(speculative: CompletionRun, plain: CompletionRun) -> str:
    """Return where two texts part, in words."""
    texts = speculative.text, plain.text
    at = next(
        (n for n, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1]), min(map(len, texts))
    )
    after = [text[at : at + SHOWN_CHARACTERS] for text in texts]
    where = f"round {plain.round_number}, request {plain.slot}, character {at}"
    return f"{where}: with speculation {after[0]!r}, without {after[1]!r}"


def _sampled_parity(runs: Sequence[CompletionRun]) -> Parity:
    """Return the two-sample Kolmogorov-Smirnov test of the lengths, and what it could have seen."""
    from scipy import stats  # noqa: PLC0415 - the service never needs it

    lengths = [[float(run.tokens) for run in runs if run.side == side] for side in ("with", "without")]
    if min(map(len, lengths)) < 2:  # noqa: PLR2004 - one answer is no sample
        return Parity(sampled=True, compared=min(map(len, lengths)), equal=0, first_difference="")
    p_value = float(stats.ks_2samp(lengths[0], lengths[1]).pvalue)
    number = len(lengths[0]) * len(lengths[1]) / (len(lengths[0]) + len(lengths[1]))
    # 1.36 is the 5 % point of the statistic, 0.84 the normal quantile of 80 %; a shift moves it so far
    smallest = (1.36 + 0.84 * 0.5) / math.sqrt(number)
    return Parity(True, min(map(len, lengths)), 0, "", p_value, min(smallest, 1.0))


def as_json(comparison: SideBySide) -> dict[str, object]:
    """Return the result as the file that the setting `economics.calibrations` reads."""
    return {
        "type": "calibration",
        "format": FORMAT,
        "model_name": comparison.model_name,
        "measured_at": comparison.measured_at,
        "stops_paying_at": comparison.stops_paying_at,
        "results": [
            {name: _number(getattr(each, name)) for name in ConcurrencyResult.__slots__}
            for each in comparison.results
        ],
        "parity": {name: _number(getattr(comparison.parity, name)) for name in Parity.__slots__},
    }


def _number(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_steps(given: Mapping[str, object]) -> tuple[str, tuple[tuple[float, float, float], ...]]:
    """Return the model's name and (concurrency, plain TPOT, standard error), ascending, of the JSON form.

    Without speculation a step gives one token, so the plain TPOT is the plain step time. Raises ValueError
    with what was read and expected.
    """
    if given.get("type") != "calibration" or given.get("format") != FORMAT:
        read = f"type {given.get('type')!r}, format {given.get('format')!r}"
        raise ValueError(f"read {read}, expected type 'calibration', format {FORMAT}")
    results = given.get("results")
    if not isinstance(results, list) or not results:
        raise ValueError("read no results, expected one per concurrency")
    found = []
    for each in results:
        values = [each.get(name) for name in ("concurrency", "plain_tpot_seconds", "plain_error")]
        size, seconds, error = (v if isinstance(v, int | float) else math.nan for v in values)
        if not (size > 0 and seconds > 0):
            raise ValueError(
                f"read the result {each!r:.120}, expected concurrency and plain_tpot_seconds above 0"
            )
        found.append((float(size), float(seconds), float(error) if error >= 0 else 0.1 * float(seconds)))
    return str(given.get("model_name", "")), tuple(sorted(found))
