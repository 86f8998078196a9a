"""Writes metric families as Prometheus text 0.0.4 or OpenMetrics 1.0.0.

prometheus_client's writer makes an object per sample, and a page of a thousand streams has tens of thousands.
Here a family is a handful of columns: label blocks that were escaped once, and an array of values beside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

FamilyKind = Literal["counter", "gauge", "info"]

TEXT_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_SUFFIX: dict[FamilyKind, str] = {"counter": "_total", "gauge": "", "info": "_info"}
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_EXACT_INTEGERS = 2.0**53


@dataclass(frozen=True, slots=True)
class Column:
    """Samples that differ in their label block: `values[i]` belongs to `blocks[i]`, NaN is left out.

    `more` is one more block that all of them share, such as `window="5m"`.
    """

    blocks: Sequence[str]
    values: ArrayLike
    more: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """One metric family; `name` comes without `_total` or `_info`, `help` names the source or the formula."""

    name: str
    kind: FamilyKind
    help: str
    columns: Sequence[Column]

    def __post_init__(self) -> None:
        """Refuse a name that no scraper would take, or one whose suffix would be written twice."""
        suffix = _SUFFIX[self.kind]
        if not _NAME.fullmatch(self.name) or (suffix and self.name.endswith(suffix)):
            msg = f"metric family {self.name!r}: expected {_NAME.pattern} without the suffix {suffix!r}"
            raise ValueError(msg)


def labels(pairs: Mapping[str, str]) -> str:
    r"""Return the escaped label block of `pairs`, without braces: `target="a",model_name="b \"c\""`."""
    return ",".join(f'{name}="{_escape(value)}"' for name, value in pairs.items())


def single(name: str, kind: FamilyKind, help_text: str, value: float) -> Family:
    """Return a family of one sample without labels."""
    return Family(name, kind, help_text, (Column(("",), (value,)),))


def render(families: Iterable[Family], *, openmetrics: bool = False, appended: bytes = b"") -> bytes:
    """Return the page of `families`, in the order given; a family without a known value is left out.

    `appended` is text of other families in the same format, without an end marker.
    """
    lines: list[str] = []
    for family in families:
        samples = _samples(family)
        if samples:
            lines.append(_head(family, openmetrics=openmetrics))
            lines += samples
    # A lone surrogate in a model's name must not cost the whole page.
    page = "".join(lines).encode("utf-8", errors="replace") + appended
    return page + b"# EOF\n" if openmetrics else page


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _head(family: Family, *, openmetrics: bool) -> str:
    help_text = family.help.replace("\\", "\\\\").replace("\n", "\\n")
    if not openmetrics:
        name = family.name + _SUFFIX[family.kind]
        kind = "gauge" if family.kind == "info" else family.kind
        return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"
    unit = f"# UNIT {family.name} seconds\n" if family.name.endswith("_seconds") else ""
    help_text = help_text.replace('"', '\\"')
    return f"# HELP {family.name} {help_text}\n# TYPE {family.name} {family.kind}\n{unit}"


def _samples(family: Family) -> list[str]:
    lines: list[str] = []
    name = family.name + _SUFFIX[family.kind]
    for column in family.columns:
        values = np.asarray(column.values, dtype=np.float64)
        blocks = column.blocks
        known = ~np.isnan(values)
        if not known.all():
            blocks = list(compress(blocks, known.tolist()))
            values = values[known]
        if not blocks:
            continue
        head, tail = name, " "
        if blocks[0] or column.more:
            head = name + "{"
            tail = ("," if blocks[0] and column.more else "") + column.more + "} "
        lines += _lines(head, blocks, tail, values)
    return lines


def _lines(head: str, blocks: Sequence[str], tail: str, values: NDArray[np.float64]) -> list[str]:
    """Return the samples of a column: whole numbers in full, others to twelve digits.

    Twelve digits are a millisecond of a timestamp, and written more than twice as fast as the shortest text
    that reads back the same.
    """
    if not (np.abs(values) < _EXACT_INTEGERS).all():
        return [
            f"{head}{block}{tail}{_number(value)}\n"
            for block, value in zip(blocks, values.tolist(), strict=True)
        ]
    if (values == np.rint(values)).all():
        whole: list[int] = values.astype(np.int64).tolist()
        return [f"{head}{block}{tail}{number}\n" for block, number in zip(blocks, whole, strict=True)]
    numbers: list[float] = values.tolist()
    return [f"{head}{block}{tail}{number:.12g}\n" for block, number in zip(blocks, numbers, strict=True)]


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < _EXACT_INTEGERS else repr(value)
