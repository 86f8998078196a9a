"""Measures the whole step, page to events: one stream alone, and a thousand in one batch.

Run as `python -m tests.bench.bench_step [STREAMS]`; fails where a page of a stream alone takes longer than the goal.
"""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

from monitor import pipeline
from monitor.scrapes import Scrape
from tests import captures

if TYPE_CHECKING:
    from collections.abc import Sequence

GOAL_SECONDS = 400e-6
TICKS = 400
TICKS_TOGETHER = 12
WARM_UP = 4
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
    """Return the mean and the least time of a tick, by page; the first ticks do not count."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    spent = []
    for number, tick in enumerate(ticks):
        started = time.perf_counter()
        pipeline.step(plan, state, tick)
        if number >= WARM_UP:
            spent.append((time.perf_counter() - started) / len(tick))
    return sum(spent) / len(spent), sorted(spent)[len(spent) // 10]


def main(streams: int = 1000) -> int:
    """Print the figures; return 1 where one stream alone takes longer than the goal."""
    pages = bodies(TICKS)
    alone = [[Scrape("t", 1e9 + 15.0 * n, body=body)] for n, body in enumerate(pages)]
    mean, calm = seconds_per_page(alone)
    together = [
        [Scrape(f"t{stream}", 1e9 + 15.0 * n, body=body) for stream in range(streams)]
        for n, body in enumerate(pages[:TICKS_TOGETHER])
    ]
    mean_together, calm_together = seconds_per_page(together)
    print(
        f"step, one stream alone      {calm * 1e6:7.0f} µs a page (mean {mean * 1e6:.0f}; goal {GOAL_SECONDS * 1e6:.0f})"
    )
    print(
        f"step, {streams} streams at once  {calm_together * 1e6:7.0f} µs a page (mean {mean_together * 1e6:.0f})"
    )
    print(f"ratio                       {calm / calm_together:7.1f}")
    return int(calm > GOAL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
