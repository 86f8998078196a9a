"""Measures the pages for people: a sparkline, a chart, one stream, and the report of 1,000 and 10,000 streams.

Run as `python -m tests.bench.bench_report`; prints each figure beside its goal.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from monitor.web import charts, links, routes, series
from monitor.web.asking import Ask
from monitor.web.charts import Chart
from monitor.web.screens import fleet, layout, stream
from monitor.web.selection import Selection
from tests.web import made_fleet
from tests.web.fleet_of_five import NOW, STREAMS, Service, buckets

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 20
FLEETS = (1000, 10_000)
LARGEST_PAGE = 300_000  # bytes


def best(work: Callable[[], str | bytes]) -> tuple[float, int]:
    """Return the shortest of a few runs in milliseconds of the processor, and the size of what was made."""
    taken = []
    for _ in range(ROUNDS):
        started = time.process_time()
        made = work()
        taken.append(time.process_time() - started)
    return min(taken) * 1e3, len(made)


def _report(many: Service, site: layout.Site) -> bytes:
    chosen = Selection(limit=fleet.MODELS_PER_PAGE)
    return fleet.page(many, site, chosen, many.streams())


def _json(many: Service, site: layout.Site) -> bytes:
    return routes.report(Ask({"format": "json"}, {}, "", site, links.Links()), many).body


def main() -> int:
    """Print the figures; return 1 where a goal is missed."""
    minutes = series.acceptance(buckets(collapsed=True))
    chart = Chart("mal", "title", "about", NOW - 21600, NOW, 1, minutes)
    site = layout.Site(links.Links(), "0", NOW)
    goals: list[tuple[str, Callable[[], str | bytes], float]] = [
        ("sparkline of 60 minutes", lambda: charts.sparkline(minutes[-60:], "x", "ok"), 0.3),
        ("chart of 340 minutes", lambda: charts.history(chart), 5),
        ("page of one stream", lambda: stream.page(Service(), STREAMS[1], site, "6h"), 20),
    ]
    for count in FLEETS:
        many = made_fleet.service(count)
        goals.append((f"report of {count:,} streams", partial(_report, many, site), 100))
        goals.append((f"their JSON, a page of {count:,}", partial(_json, many, site), 100))
    missed = False
    for name, work, goal in goals:
        milliseconds, size = best(work)
        missed |= milliseconds > goal or size > LARGEST_PAGE
        print(f"{name:32} {milliseconds:8.2f} ms (goal {goal:g} ms) {size / 1e3:8.1f} KB")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
