"""Measures reading a real vLLM page against prometheus_client's parser on the same page.

Run as `python -m tests.bench.bench_parse [PAGE]`; prints both sides and the ratio, which must be 100 or more.
"""

from __future__ import annotations

import gzip
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from monitor.core.pages import engines, exposition, looks

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = Path(__file__).parents[1] / "fixtures" / "runs" / "ngram"
GOAL_RATIO = 100.0
ROUNDS = 15
SECONDS_A_ROUND = 0.02


def best(*works: Callable[[], object]) -> list[float]:
    """Return the seconds of each work in its least disturbed round; works take turns, so that noise meets all."""
    times = [1] * len(works)
    found = [float("inf")] * len(works)
    for number in range(ROUNDS + 1):
        for index, work in enumerate(works):
            started = time.perf_counter()
            for _ in range(times[index]):
                work()
            seconds = (time.perf_counter() - started) / times[index]
            if number == 0:
                times[index] = max(1, int(SECONDS_A_ROUND / seconds))
            else:
                found[index] = min(found[index], seconds)
    return found


def main(path: str | None = None) -> int:
    """Print the figures; return 1 where the ratio is missed."""
    if path is None:
        body = gzip.decompress(
            sorted(RUN.glob("*.prom.gz"))[len(list(RUN.glob("*.prom.gz"))) // 2].read_bytes()
        )
    else:
        body = Path(path).read_bytes()
    schema = engines.recognise(body)
    if schema is None:
        print(engines.why_unrecognised(body), file=sys.stderr)
        return 2
    wanted = schema.wanted
    page = exposition.read(body, wanted)
    text = body.decode()
    glance, again, first, theirs = best(
        lambda: exposition.read(body, wanted, page.layout, glance=True),
        lambda: exposition.read(body, wanted, page.layout),
        lambda: exposition.read(body, wanted),
        lambda: list(text_string_to_metric_families(text)),
    )
    print(f"one page, {len(body) / 1000:.0f} KB, {len(page.values)} samples wanted")
    usual = (again + (looks.GLANCES - 1) * glance) / looks.GLANCES
    print(
        f"specmon, known layout  {usual * 1e6:8.0f} µs   ratio {theirs / usual:6.0f}  (goal {GOAL_RATIO:.0f})"
    )
    print(
        f"  at a glance          {glance * 1e6:8.0f} µs   ratio {theirs / glance:6.0f}  ({looks.GLANCES - 1} of {looks.GLANCES})"
    )
    print(
        f"  searched again       {again * 1e6:8.0f} µs   ratio {theirs / again:6.0f}  (1 of {looks.GLANCES})"
    )
    print(f"specmon, first look    {first * 1e6:8.0f} µs   ratio {theirs / first:6.0f}")
    print(f"prometheus_client      {theirs * 1e6:8.0f} µs")
    return int(theirs / usual < GOAL_RATIO)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
