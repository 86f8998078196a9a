"""Reads an OpenMetrics file whose samples have time stamps, as `promtool tsdb dump-openmetrics` writes it.

Such a file goes series by series, so it is read to its end first: sixteen bytes a sample are held, and a page
is made of what each target has at each time stamp.
"""

from __future__ import annotations

import itertools
import re
from array import array
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from monitor import sources
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.sources import opening

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

LATEST_MILLISECONDS = sources.LATEST * 1000
MILLISECONDS_FROM = (
    sources.LATEST
)  # a larger time stamp is in milliseconds, as in Prometheus' own text format
LONGEST_LINE_BYTES = 64 << 10  # pieces of a longer one are refused, and not held together
SHOWN_CHARACTERS = 60
REPORTED_LINES = 1000  # refused lines beyond these are as likely a broken file

_LABELS = rb'\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\}'
_SAMPLE = re.compile(
    rb"([a-zA-Z_:][a-zA-Z0-9_:]*[ \t]*(?:" + _LABELS + rb")?|" + _LABELS + rb")"
    rb"[ \t]+(\S+)[ \t]+(\S+)[ \t]*(?:#.*)?\r?\n?"
)
_TARGET = {
    name: re.compile(rb"[{,]\s*" + name + rb'\s*=\s*"((?:[^"\\]|\\.)*)"') for name in (b"target", b"instance")
}
_EXPECTED = "samples with a time stamp each: name{labels} value timestamp"


@dataclass(slots=True)
class _Columns:
    """All samples of a file: of which series (in `series`), when, which value."""

    series: dict[bytes, int] = field(default_factory=dict)
    indexes: array[int] = field(default_factory=lambda: array("i"))
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    refused: list[tuple[int, str]] = field(default_factory=list)


def scrapes(stream: io.BufferedReader, name: str) -> Iterator[Scrape]:
    """Return a page for each target and time stamp, in time order.

    The target is the value of the label `target`, else of `instance`, else `name`. Lines that cannot be
    read are failed scrapes of the target `name` at the first time. Raises Unreadable where no sample has
    a time stamp.
    """
    columns = _read(stream)
    if not columns.times:
        detail = f" (line {columns.refused[0][0]}: {columns.refused[0][1]})" if columns.refused else ""
        raise sources.Unreadable(f"{name}: no sample has a time stamp{detail}, expected {_EXPECTED}")
    first = min(columns.times)
    for number, detail in columns.refused:
        yield Scrape(
            name,
            first,
            failure=Failure("not_metrics", f"{name} line {number}: {detail}, expected {_EXPECTED}"),
        )
    yield from _pages(columns, name)


def _read(stream: io.BufferedReader) -> _Columns:
    columns = _Columns()
    number = 0
    try:
        for line in iter(partial(stream.readline, LONGEST_LINE_BYTES), b""):
            number += 1
            if line[:1] != b"#" and not line.isspace():
                _add(columns, number, line)
    except opening.DAMAGED as error:
        columns.refused.append((number + 1, f"the packed data are damaged or cut off here ({error})"))
    return columns


def _add(columns: _Columns, number: int, line: bytes) -> None:
    sample = _sample(line)
    if sample is None:
        shown = line[:SHOWN_CHARACTERS].decode("utf-8", "replace").strip()
        if len(columns.refused) < REPORTED_LINES:
            columns.refused.append((number, f"read {shown!r}"))
        return
    series, value, at = sample
    columns.indexes.append(columns.series.setdefault(series, len(columns.series)))
    columns.times.append(at / 1000 if at > MILLISECONDS_FROM else at)
    columns.values.append(value)


def _sample(line: bytes) -> tuple[bytes, float, float] | None:
    match = _SAMPLE.fullmatch(line)
    try:
        found = None if match is None else (match[1], float(match[2]), float(match[3]))
    except ValueError:
        return None
    return found if found is not None and 0 < found[2] < LATEST_MILLISECONDS else None


def _pages(columns: _Columns, name: str) -> Iterator[Scrape]:
    series = list(columns.series)
    names, target_of_series = _targets(series, name)
    times = np.frombuffer(columns.times)
    values = np.frombuffer(columns.values)
    indexes = np.frombuffer(columns.indexes, np.int32)
    targets = target_of_series[indexes]
    order = np.lexsort((indexes, targets, times))
    new = (np.diff(times[order]) != 0) | (np.diff(targets[order]) != 0)
    starts = [0, *(np.flatnonzero(new) + 1).tolist(), len(order)]
    for start, end in itertools.pairwise(starts):
        rows = order[start:end]
        lines = [b"%s %s\n" % (series[indexes[row]], repr(float(values[row])).encode()) for row in rows]
        yield Scrape(names[targets[rows[0]]], float(times[rows[0]]), body=b"".join(lines))


def _targets(series: list[bytes], name: str) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Return the targets' names in alphabetical order and, for each series, the index of its target."""
    own = [_target(key, name) for key in series]
    names = sorted(set(own))
    position = {target: index for index, target in enumerate(names)}
    return names, np.array([position[target] for target in own], np.int32)


def _target(series: bytes, default: str) -> str:
    for pattern in _TARGET.values():
        match = pattern.search(series)
        if match is not None and match[1]:
            return match[1].decode("utf-8", "replace").replace('\\"', '"').replace("\\\\", "\\")
    return default
