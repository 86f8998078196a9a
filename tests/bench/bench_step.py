"""Measures the whole step, page to events: one stream alone, and a thousand in one batch.

Run as `python -m tests.bench.bench_step [STREAMS]`. The goal of 400 µs a page is for a machine of its own, where
prometheus_client takes 5.6 ms to read the same page; on a busy one both are slower, so the ratio of the two,
measured in one run, must hold: it fails where the step takes more than a fourteenth.
"""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from monitor.core import pipeline
from monitor.core.pages.scrapes import Scrape
from tests import captures

if TYPE_CHECKING:
    from collections.abc import Sequence

GOAL_SECONDS = 400e-6
GOAL_RATIO = 14.0
TICKS = 400
TICKS_TOGETHER = 12
WARM_UP = 4
TURN = 4
COUNTER = re.compile(rb"(?<=\} )(\d+\.\d+)$|(?<=\} )(\d+\.\d+e\+\d+)$", re.MULTILINE)


def bodies(count: int) -> list[bytes]:
    """Return pages as a real vLLM writes them, in time order, over and over from the last one on."""
    recorded = [page.body or b"" for page in captures.scrapes(captures.THINNED, "draftmodel")]
    first, last = recorded[len(recorded) // 3], recorded[len(recorded) // 2]
    grown = [
        (float(a[0] or a[1]), float(b[0] or b[1]))
        for a, b in zip(COUNTER.findall(first), COUNTER.findall(last), strict=True)
    ]

    def page(number: int) -> bytes:
        values = iter(grown)

        def value(_: re.Match[bytes]) -> bytes:
            begin, end = next(values)
            return repr(end + (end - begin) * number).encode()

        return COUNTER.sub(value, last)

    return [page(number) for number in range(count)]


def seconds_per_page(ticks: Sequence[Sequence[Scrape]]) -> tuple[float, float]:
    """Return the time of a calm tick by page, and that of prometheus_client for one page; they take turns."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    page = (ticks[0][0].body or b"").decode()
    spent, theirs = [], []
    for number, tick in enumerate(ticks):
        started = time.process_time()
        pipeline.step(plan, state, tick)
        if number >= WARM_UP:
            spent.append((time.process_time() - started) / len(tick))
        if number % TURN == 0:
            started = time.process_time()
            list(text_string_to_metric_families(page))
            theirs.append(time.process_time() - started)
    return sorted(spent)[len(spent) // 10], sorted(theirs)[len(theirs) // 10]


def main(streams: int = 1000) -> int:
    """Print the figures; return 1 where one stream alone takes longer than the goal."""
    pages = bodies(TICKS)
    alone = [[Scrape("t", 1e9 + 15.0 * n, body=body)] for n, body in enumerate(pages)]
    calm, theirs = seconds_per_page(alone)
    together = [
        [Scrape(f"t{stream}", 1e9 + 15.0 * n, body=body) for stream in range(streams)]
        for n, body in enumerate(pages[:TICKS_TOGETHER])
    ]
    calm_together, _ = seconds_per_page(together)
    ratio = theirs / calm
    print(f"step, one stream alone      {calm * 1e6:7.0f} µs CPU a page")
    print(f"step, {streams} streams at once  {calm_together * 1e6:7.0f} µs CPU a page")
    print(
        f"prometheus_client           {theirs * 1e6:7.0f} µs CPU to read the page; ratio {ratio:.1f}, goal {GOAL_RATIO:.0f}"
    )
    print(
        f"in time of a calm machine   {GOAL_RATIO / ratio * GOAL_SECONDS * 1e6:7.0f} µs a page, goal {GOAL_SECONDS * 1e6:.0f}"
    )
    return int(ratio < GOAL_RATIO)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
