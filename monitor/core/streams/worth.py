"""What the speculation of each stream is worth now: its plain step time and the verdict.

The plain step time of a stream comes from the best of these that there is (`payoff.ORIGINS`): a calibration;
replicas of the same model that do not speculate; the stream's own steps without drafts; the settings; a fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.economics import costs, fits, payoff
from monitor.core.economics.payoff import Observed, Plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from monitor.core.counts.estimates import Estimates
    from monitor.core.economics.payoff import Origin, Payoff
    from monitor.core.streams import State

    Floats = npt.NDArray[np.float64]

DECLARED_ERROR = 0.03
"""Relative standard error of a step time that a person measured: so far apart are repeated runs."""
UNCOVERED = 0.9
"""Coverage below which one step in ten or more had no draft: enough to read its time from the mean."""
REACH = 2.0
"""A calibration is used for batch sizes up to this factor outside of those that it measured."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the operator says of a model: its plain step time, its calibration, its prices.

    `calibrated` are (batch size, seconds, standard error) of plain steps, ascending by batch size.
    """

    plain_step_seconds: float = math.nan
    calibrated: tuple[tuple[float, float, float], ...] = ()
    prices: costs.Prices = field(default_factory=costs.Prices)


NOTHING_TOLD = Told()


def told_of(told: Mapping[str, Told], model_name: str) -> Told:
    """Return what is told of a model: by its own name, else of all models, else nothing."""
    return told.get(model_name) or told.get("") or NOTHING_TOLD


@dataclass(frozen=True, slots=True)
class PlainSteps:
    """Plain step times of N streams: seconds, standard errors [N], NaN where unknown; origins, None there."""

    seconds: Floats
    error: Floats
    origin: tuple[Origin | None, ...]

    def at(self, row: int) -> Plain | None:
        """Return one stream's, None where it is unknown."""
        origin = self.origin[row]
        if origin is None:
            return None
        return Plain(float(self.seconds[row]), float(self.error[row]), origin)


def plain_steps(
    told: Mapping[str, Told],
    state: State,
    rows: npt.NDArray[np.intp],
    batch_size: Floats,
    coverage: Floats | None = None,
    beside: fits.StepTime | None = None,
) -> PlainSteps:
    """Return the plain step time of each of `rows` at its `batch_size` [N], from the best origin there is.

    coverage: [N] as far as it is known: where steps go without a draft, the fit rests on these.
    beside: that of replicas which do not speculate, as of another moment; by default as of now.
    """
    table = state.step_times[rows]
    own, fitted = fits.undrafted(table, batch_size), fits.plain(table, batch_size)
    beside = beside or _beside(state, rows, batch_size)
    said = [told_of(told, state.identities[row].key.model_name) for row in rows.tolist()]
    declared = np.array([each.plain_step_seconds for each in said], float)
    pairs = [_calibrated(each, float(size)) for each, size in zip(said, batch_size, strict=True)]
    measured = np.array(pairs, float).reshape(len(rows), 2)
    bare = np.zeros(len(rows), bool) if coverage is None else coverage < UNCOVERED
    candidates: tuple[tuple[Origin, Floats, Floats], ...] = (
        ("calibrated", measured[:, 0], measured[:, 1]),
        ("replica", beside.seconds, beside.error),
        ("undrafted", own.seconds, own.error),
        ("uncovered", np.where(bare, fitted.seconds, np.nan), fitted.error),
        ("declared", declared, DECLARED_ERROR * declared),
        ("fitted", fitted.seconds, fitted.error),
    )
    seconds, error = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    origin: list[Origin | None] = [None] * len(rows)
    for name, value, deviation in candidates:
        for index in np.flatnonzero(np.isnan(seconds) & np.isfinite(value) & (value > 0.0)).tolist():
            seconds[index], error[index], origin[index] = value[index], deviation[index], name
    return PlainSteps(seconds, error, tuple(origin))


def _calibrated(told: Told, batch_size: float) -> tuple[float, float]:
    """Return seconds and error at a batch size near those that were calibrated; NaN elsewhere."""
    if not told.calibrated or not math.isfinite(batch_size):
        return math.nan, math.nan
    sizes, seconds, errors = (np.array(column) for column in zip(*told.calibrated, strict=True))
    if not sizes[0] / REACH <= batch_size <= sizes[-1] * REACH:
        return math.nan, math.nan
    return float(np.interp(batch_size, sizes, seconds)), float(np.interp(batch_size, sizes, errors))


def _beside(state: State, rows: npt.NDArray[np.intp], batch_size: Floats) -> fits.StepTime:
    """Return the plain step time of replicas of the same model that do not speculate, their sums added."""
    pooled = np.zeros(len(rows), fits.DTYPE)
    counted = state.step_times["undrafted"][:, 0, 0] > 0.0
    sums: dict[tuple[str, str], Floats] = {}
    for row in np.flatnonzero(counted & ~state.status["speculating"]).tolist():
        kind = _kind(state, row)
        sums[kind] = sums.get(kind, 0.0) + state.step_times["undrafted"][row]
    if sums:
        for index, row in enumerate(rows.tolist()):
            if state.status["speculating"][row] and _kind(state, row) in sums:
                pooled["undrafted"][index] = sums[_kind(state, row)]
    return fits.undrafted(pooled, batch_size)


def _kind(state: State, row: int) -> tuple[str, str]:
    """Return model and hardware of a stream: step times of other hardware say nothing of it."""
    identity = state.identities[row]
    return identity.key.model_name, identity.hardware


def speedups(plain: PlainSteps, made: Estimates) -> Floats:
    """Return how many times as fast as plain decoding each stream is [N]; NaN where unknown or undrafted."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = plain.seconds * made.tokens_per_step / made.step_seconds
    drafted = np.nan_to_num(made.drafts) > 0.0
    return np.where(drafted & np.isfinite(ratio), ratio, np.nan)


def observed(made: Estimates, row: int) -> Observed:
    """Return what a verdict on one of the streams of `made` rests on, its plain step time aside."""
    return Observed(
        drafts=float(made.drafts[row]),
        mal=float(made.mal[row]),
        mal_low=float(made.mal_low[row]),
        mal_high=float(made.mal_high[row]),
        tokens_per_step=float(made.tokens_per_step[row]),
        step_seconds=float(made.step_seconds[row]),
    )


def verdict(plain: PlainSteps, made: Estimates, row: int) -> Payoff:
    """Return whether the speculation of one of the streams of `made` pays."""
    return payoff.of(observed(made, row), plain.at(row))
