"""Model references as JSON and back: into the store, a file, an image, a ConfigMap, another cluster."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, cast

import numpy as np

from monitor.core.detectors import base, inheritance
from monitor.core.streams.model_references import Key, Reference, Standing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.detectors.base import State

FORMAT = 1
_TEXTS = tuple(each.name for each in fields(Key) if each.name != "num_speculative_tokens")


def as_json(reference: Reference) -> dict[str, object]:
    """Return a reference as JSON: what people read first, then all that a stream begins with."""
    return {
        "format": FORMAT,
        **described(reference),
        "standings": [
            {"stream": each.stream, "at": each.at, "sums": list(each.sums), "information": each.information}
            for each in reference.standings
        ],
        "learnt": _as_names(reference.learnt),
    }


def described(reference: Reference) -> dict[str, object]:
    """Return what people read of a reference: whose it is, its level, and where its streams stood."""
    return {
        **{each.name: getattr(reference.key, each.name) for each in fields(Key)},
        "mal": reference.mal,
        "conditional": list(reference.conditional),
        "apart": reference.apart(),
        "drafts": reference.drafts,
        "began_at": reference.began_at,
        "at": reference.at,
        "taught": reference.taught,
        "donor": reference.donor,
        "standings": [
            {"stream": each.stream, "at": each.at, "mal": each.mal} for each in reference.standings
        ],
    }


def from_json(saved: Mapping[str, object]) -> Reference:
    """Return the reference that `as_json` wrote; ValueError where it is none, or of another version."""
    if saved.get("format") != FORMAT:
        raise ValueError(f"a model reference of format {saved.get('format')!r}, expected {FORMAT}")
    texts = {name: str(saved.get(name, "")) for name in _TEXTS}
    learnt = np.zeros(1, inheritance.LEARNT)
    try:
        _fill(learnt, _names(saved["learnt"]))
        return Reference(
            key=Key(**texts, num_speculative_tokens=int(_number(saved, "num_speculative_tokens"))),
            learnt=learnt,
            donor=str(saved["donor"]),
            standings=tuple(_standing(_names(each)) for each in cast("list[object]", saved["standings"])),
            began_at=_number(saved, "began_at"),
            at=_number(saved, "at"),
            taught=int(_number(saved, "taught")),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no model reference: {error!r}") from error


def _names(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"a model reference has {type(value).__name__} where names are expected")  # noqa: TRY004 - one error for all that is wrong in a file
    return value


def _number(saved: Mapping[str, object], name: str) -> float:
    value = float(cast("float", saved[name]))
    if not math.isfinite(value):
        raise ValueError(f"{name} of a model reference is {value}")
    return value


def _standing(saved: Mapping[str, object]) -> Standing:
    sums = tuple(float(value) for value in cast("list[float]", saved["sums"]))
    if len(sums) != base.NUM_SUMS or not all(math.isfinite(value) and value >= 0.0 for value in sums):
        raise ValueError(f"a standing of a model reference has {base.NUM_SUMS} sums, none below 0")
    information = max(_number(saved, "information"), 1e-9)
    return Standing(str(saved["stream"]), _number(saved, "at"), sums, information)


def _as_names(record: State) -> dict[str, object]:
    """Return an array of one record as nested names and lists."""
    found: dict[str, object] = {}
    for name in record.dtype.names or ():
        value = record[name]
        found[name] = _as_names(value) if value.dtype.names else value[0].tolist()
    return found


def _fill(record: State, saved: Mapping[str, object]) -> None:
    """Write what `_as_names` made into an array of one record; ValueError where it does not fit."""
    names = record.dtype.names or ()
    if set(saved) != set(names):
        raise ValueError(f"a model reference has {sorted(saved)}, expected {sorted(names)}")
    for name in names:
        part = record[name]
        if part.dtype.names:
            _fill(part, _names(saved[name]))
            continue
        values = np.asarray(saved[name], np.float64)
        if values.shape != part.shape[1:] or not np.isfinite(values).all():
            raise ValueError(
                f"{name} of a model reference has the shape {values.shape}, expected {part.shape[1:]}"
            )
        part[0] = values
