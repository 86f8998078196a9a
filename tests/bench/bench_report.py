"""Measures the pages for people: a sparkline, a chart, one stream, and the report of a thousand streams.

Run as `python -m tests.bench.bench_report`; prints each figure beside its goal.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.web import charts, links, series, states
from monitor.web.charts import Chart
from monitor.web.screens import fleet, layout, stream
from tests.web.fleet_of_five import COLLAPSED_ID, NOW, STREAMS, Service, buckets

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 20
STREAM_COUNT = 1000
ROWS = 100


def best(work: Callable[[], str | bytes]) -> tuple[float, int]:
    """Return the shortest of a few runs in milliseconds, and the size of what was made."""
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        made = work()
        taken.append(time.perf_counter() - started)
    return min(taken) * 1e3, len(made)


def main() -> int:
    """Print the figures; return 1 where a goal is missed."""
    minutes = series.acceptance(buckets(collapsed=True))
    chart = Chart("mal", "title", "about", NOW - 21600, NOW, 1, minutes)
    site = layout.Site(links.Links(), "0", NOW)
    ids = [f"{COLLAPSED_ID}/{number}" for number in range(STREAM_COUNT)]
    many = Service(
        shown=[replace(STREAMS[1], id=each) for each in ids],
        past=dict.fromkeys(ids, buckets(collapsed=True)[-60:]),
    )
    worst = states.worst_first(many.streams())[:ROWS]
    goals: tuple[tuple[str, Callable[[], str | bytes], float], ...] = (
        ("sparkline of 60 minutes", lambda: charts.sparkline(minutes[-60:], "x", "ok"), 0.3),
        ("chart of 340 minutes", lambda: charts.history(chart), 5),
        ("page of one stream", lambda: stream.page(Service(), STREAMS[1], site, "6h"), 20),
        (
            f"report, {ROWS} of {STREAM_COUNT} streams",
            lambda: fleet.page(many, site, worst, STREAM_COUNT),
            100,
        ),
    )
    missed = False
    for name, work, goal in goals:
        milliseconds, size = best(work)
        missed |= milliseconds > goal
        print(f"{name:32} {milliseconds:8.2f} ms (goal {goal:g} ms) {size / 1e3:8.1f} KB")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
