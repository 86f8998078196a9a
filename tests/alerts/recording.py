"""Keeps what the product says in each situation, for promtool: `python -m tests.alerts.recording [--check]`.

A recording is the series that the rules and their texts read, once a minute, in promtool's notation. Digits are
cut to those that a reader sees, so that another machine records the same.
"""

from __future__ import annotations

import itertools
import math
import sys
from typing import TYPE_CHECKING

import yaml

from monitor.metrics import textformat
from tests.alerts import names, situations, tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.alerts.situations import Situation

FOLDER = tools.HERE / "recorded"
SCRAPED = 'instance="s:10101",job="specmon"'
DIGITS = 4
MISSING = "_"
# Of dashboards and of texts alone: other digits each minute.
NOT_ALERTED_ON = frozenset(
    {
        "specmon_drafts_total",
        "specmon_accepted_tokens_total",
        "specmon_extra_gpus",
        "specmon_extra_cost_per_day",
        "specmon_tpot_change_log_share",
    }
)


def read() -> set[str]:
    """Return the names of the series that rules and texts read."""
    text = (tools.GENERATED / tools.TIERS["specmon"]).read_text()
    return {name for name in names.in_text(text) if name.startswith("specmon_")} - NOT_ALERTED_ON


def recorded(situation: Situation) -> Mapping[str, str]:
    """Return the series of a situation with their values, in promtool's notation."""
    played = situations.played(situation)
    pages = ((minute, textformat.render(families).decode()) for minute, families in played)
    return of_pages(pages, situation.minutes)


def of_pages(pages: Iterable[tuple[int, str]], minutes: int) -> Mapping[str, str]:
    """Return the series on the product's pages of some minutes out of `minutes`, in promtool's notation."""
    wanted = read()
    found: dict[str, list[str]] = {}
    for minute, page in pages:
        for line in page.splitlines():
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            if name in wanted:
                values = found.setdefault(
                    f"{name}{{{SCRAPED},{labels}" if labels else f"{name}{{{SCRAPED}}}", []
                )
                values += [MISSING] * (minute - len(values))
                values.append(_short(name, float(value)))
    return {series: _compact(values, minutes) for series, values in sorted(found.items())}


def _short(name: str, value: float) -> str:
    if "timestamp" in name:
        return f"{math.floor(value)}"
    return f"{value:.0f}" if value == round(value) else f"{value:.{DIGITS}g}"


def _compact(values: list[str], minutes: int) -> str:
    """Return values as `1x9 2x4 _x3 stale`: a series that vanishes is marked so, as Prometheus does."""
    filled = values + ["stale"] * (len(values) < minutes)
    parts = []
    before = MISSING
    for value, group in itertools.groupby(filled):
        length = len(list(group))
        if value == MISSING and before != MISSING:
            parts.append("stale")
            length -= 1
        if length:
            constant = "" if value in (MISSING, "stale") else "+0"
            parts.append(value if length == 1 else f"{value}{constant}x{length - (value != MISSING)}")
        before = value
    return " ".join(parts)


def written(name: str) -> str:
    """Return the text of a recording."""
    found = recorded(situations.SITUATIONS[name]).items()
    content = [{"series": each, "values": values} for each, values in found]
    return "# Recorded from the product: python -m tests.alerts.recording\n" + yaml.safe_dump(
        content, width=10_000, sort_keys=False
    )


def path(name: str) -> Path:
    """Return where the recording of a situation is kept."""
    return FOLDER / f"{name}.yaml"


def series(name: str) -> Iterator[dict[str, str]]:
    """Yield the recorded series of a situation as promtool's `input_series`."""
    yield from yaml.safe_load(path(name).read_text())


if __name__ == "__main__":
    wanted = [each for each in sys.argv[1:] if not each.startswith("-")] or list(situations.SITUATIONS)
    differing = []
    for each in wanted:
        text = written(each)
        if not path(each).exists() or path(each).read_text() != text:
            differing.append(each)
            if "--check" not in sys.argv:
                FOLDER.mkdir(exist_ok=True)
                path(each).write_text(text)
    sys.exit(f"differing: {', '.join(differing)}" if differing and "--check" in sys.argv else 0)
