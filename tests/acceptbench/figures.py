"""The figures that README and the detectors' docstrings quote, measured anew by `make bench-detection`.

Every scenario is piped into `specmon replay --json -` as a user would; seeds are those that nothing was tuned
on. The figures are kept in `figures.json` beside this file; README's tables are made from it, and where a
docstring quotes one as `scenario` 100 % in 0.4 min it is written there, too.

    python -m tests.acceptbench.figures [--write] [--only GROUP,NAME…] [--seed N] [--reps N] [--jobs N]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.acceptbench import catalogue, replaying

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.acceptbench.judging import Figures

SEED = 90817
ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("figures.json")
QUOTING = ("monitor/core/detectors", "monitor/core/fleet")
"""Where docstrings quote figures."""

ROWS = {
    "collapse-high": "collapse, MAL 3.4 → 1.1: busy replica (5,000 drafts a scrape)",
    "collapse-medium": "… at 8 slots",
    "collapse-low": "… at about one request at a time",
    "collapse-fast-2s": "… scraped every 2 s",
    "collapse-redeploy": "… hidden in a redeploy, with gaps and pages that come twice",
    "collapse-overnight": "… in a night without traffic, from the first draft on",
    "collapse-cold-2h": "… two hours after the stream began",
    "kchange-collapse": "… with a change of k from 5 to 3",
    "partial-huge": "drop, MAL 3.4 → 2.9: 300,000 drafts a scrape",
    "partial-high": "… 5,000 drafts a scrape",
    "partial-medium": "… at 8 slots",
    "partial-low": "… at about one request at a time",
    "late-high": "late positions only (from the fourth on, by 0.85 logits)",
    "blank-half": "half of the drafts blank",
    "blank-tenth": "a tenth of the drafts blank",
    "subset-30pct": "30 % of the requests collapse",
    "ramp-4h": "a slide of 0.65 logits in 4 h",
    "ramp-8h": "a slide of 0.5 logits in 8 h",
    "k1-partial": "k = 1, acceptance 0.80 → 0.65",
    "improve-high": "improvement by 0.38 logits",
    "fleet-one-partial": "one of eight replicas, 3.4 → 2.9",
    "fleet-one-medium": "… at 8 slots each",
    "fleet-one-small": "one of eight replicas, 3.4 → 3.2",
    "fleet-all-partial": "all of eight replicas, 3.4 → 2.9: one event",
}
QUIET_ROWS = {
    "daily swing, bursts, nights, resets, gaps, k = 1, 2 s scrapes": "null",
    "requests of far heavier tails than a normal distribution": "heavy",
    "two fleets of eight replicas": "fleet-null",
}
_QUOTED = re.compile(r"`([a-z0-9-]+)`(\s)\d+ % in(\s)(?:[\d.]+ (?:min|h)|never)")


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a scenario: the share found, minutes (None: never), and false alarms with their hours."""

    found: float | None
    median: float | None
    p95: float | None
    false_alarms: int
    pages: int
    hours: float
    by: Mapping[str, int]

    @property
    def quote(self) -> str:
        """The share found and the median, as README and docstrings write them."""
        return f"{100 * (self.found or 0):.0f} % in {minutes(self.median)}"


def kept() -> dict[str, Kept]:
    """Return the figures of the last measurement."""
    saved = json.loads(KEPT.read_text())["scenarios"]
    return {name: Kept(**figures) for name, figures in saved.items()}


def minutes(value: float | None) -> str:
    """Return minutes for people: hours from two on."""
    if value is None:
        return "never"
    return (
        f"{value / 60:.1f} h" if value >= 120 else f"{value:.1f} min" if value < 9.95 else f"{value:.0f} min"
    )


def table() -> str:
    """Return README's tables: how soon changes are found, and how often nothing is found."""
    seed, figures = json.loads(KEPT.read_text())["seed"], kept()
    rows = [
        f"| change (`make bench-detection`, seed {seed}) | found | median | 95 % of them |",
        "| --- | --- | --- | --- |",
    ]
    for name, text in ROWS.items():
        each = figures[name]
        rows.append(
            f"| {text} | {100 * (each.found or 0):.0f} % | {minutes(each.median)} | {minutes(each.p95)} |"
        )
    rows += [
        "",
        "| traffic without a change | warnings and pages a replica-month | pages alone | replica-hours |",
    ]
    rows.append("| --- | --- | --- | --- |")
    for text, words in QUIET_ROWS.items():
        quiet = [figures[scenario.name] for scenario in catalogue.named(words)]
        hours = sum(each.hours for each in quiet)
        alarms, pages = (
            720.0 * sum(getattr(each, field) for each in quiet) / hours for field in ("false_alarms", "pages")
        )
        rows.append(f"| {text} | {alarms:.1f} | {pages:.1f} | {hours:,.0f} |")
    return "\n".join(rows) + "\n"


def quoted(text: str) -> str:
    """Return a text whose quoted figures are those that are kept."""
    figures = kept()

    def current(found: re.Match[str]) -> str:
        share, _, after = figures[found[1]].quote.partition(" in ")
        return f"`{found[1]}`{found[2]}{share} in{found[3]}{after}"

    return _QUOTED.sub(current, text)


def quoting() -> list[Path]:
    """Return the files whose docstrings quote figures."""
    return [path for folder in QUOTING for path in sorted((ROOT / folder).rglob("*.py"))]


def _measure(seed: int, reps: int | None, name: str) -> tuple[Kept, str]:
    os.nice(10)
    found = replaying.run(catalogue.ALL[name], seed, reps)
    return kept_of(found), str(found)


def kept_of(found: Figures) -> Kept:
    """Return what is kept of a scenario's figures."""
    changed = found.groups > 0
    median, p95 = (round(found.minutes(share), 2) if changed else math.inf for share in (0.5, 0.95))
    return Kept(
        found=round(found.found, 3) if changed else None,
        median=median if math.isfinite(median) else None,
        p95=p95 if math.isfinite(p95) else None,
        false_alarms=found.false_alarms,
        pages=found.pages,
        hours=round(found.hours, 1),
        by=dict(found.by.most_common()),
    )


def main() -> None:
    """Measure, print, and with --write keep and quote what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="null,heavy,change,other,fleet")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--reps", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    names = [scenario.name for scenario in catalogue.named(asked.only)]
    measured: dict[str, Kept] = {}
    with ProcessPoolExecutor(asked.jobs) as pool:
        for name, (figures, text) in zip(
            names, pool.map(partial(_measure, asked.seed, asked.reps), names), strict=True
        ):
            measured[name] = figures
            print(text, flush=True)
    if asked.write:
        _write(asked.seed, measured)
        print(table())


def _write(seed: int, measured: Mapping[str, Kept]) -> None:
    """Keep what was measured, the rest as it was where the seed is the same, and quote it."""
    before = json.loads(KEPT.read_text())
    scenarios: dict[str, object] = before["scenarios"] if before["seed"] == seed else {}
    scenarios |= {name: asdict(figures) for name, figures in measured.items()}
    ordered = {name: scenarios[name] for name in catalogue.ALL if name in scenarios}
    KEPT.write_text(json.dumps({"seed": seed, "scenarios": ordered}, indent=1, ensure_ascii=False) + "\n")
    for path in quoting():
        text = path.read_text()
        if (current := quoted(text)) != text:
            path.write_text(current)


if __name__ == "__main__":
    main()
