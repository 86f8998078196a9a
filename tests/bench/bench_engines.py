"""Measures what a page of each engine costs per kilobyte, against vLLM's.

Run as `python -m tests.bench.bench_engines`; prints a row per engine, and ends with 1 where a page costs more
than twice vLLM's per kilobyte. "again" is a look along the remembered layout and the reading of it, "first"
the search of a page that was never seen. A page that is shorter than vLLM's is brought to its size with
histogram buckets of the same engine: of a page of two KiB most of the cost does not depend on its size.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core.pages import engines, exposition
from tests.engines import runs

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 2.0
ROUNDS = 7
CALLS = 100
KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds for one page of `kibibytes`."""

    kibibytes: float
    again: float
    first: float


def best(work: Callable[[], object]) -> float:
    """Return the shortest of a few runs, in microseconds a call: the one least disturbed by other work."""
    shortest = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(CALLS):
            work()
        shortest = min(shortest, (time.perf_counter() - started) / CALLS)
    return shortest * 1e6


def page_of(name: str, size: int) -> bytes:
    """Return a page of an engine of at least `size` bytes."""
    captured = runs.FIXTURES / name / "full.prom"
    page = captured.read_bytes() if captured.exists() else runs.of(name)[0].pages[-1]
    prefix = runs.recognised(page).prefix.encode()
    filler = [
        b'%srequest_queue_time_seconds_bucket{engine_type="x",le="%d.0",model_name="m"} %d.0\n'
        % (prefix, edge, edge)
        for edge in range(max(size - len(page), 0) // 70)
    ]
    return page + b"".join(filler)


def cost(name: str, size: int) -> Cost:
    """Measure one engine."""
    page = page_of(name, size)
    beside = runs.of(name)[0].beside[-1]
    schema = runs.recognised(page)
    layout = exposition.read(page, schema.wanted).layout
    reader = schema.engine.prepare(layout.series, schema.prefix)
    return Cost(
        kibibytes=len(page) / KIBIBYTE,
        again=best(lambda: reader(exposition.read(page, schema.wanted, layout).values, beside)),
        first=best(lambda: exposition.read(page, schema.wanted)),
    )


def main() -> int:
    """Print the table and return the exit code."""
    size = len(page_of("vllm", 0))
    costs = {name: cost(name, size) for name in engines.ENGINES}
    base = costs["vllm"]
    worst = 0.0
    print(f"{'engine':12}{'KiB':>7}{'again µs':>10}{'µs/KiB':>8}{'÷ vLLM':>8}{'first µs':>10}{'÷ vLLM':>8}")
    for name, each in costs.items():
        again = (each.again / each.kibibytes) / (base.again / base.kibibytes)
        first = (each.first / each.kibibytes) / (base.first / base.kibibytes)
        worst = max(worst, again, first)
        rate = each.again / each.kibibytes
        print(
            f"{name:12}{each.kibibytes:7.1f}{each.again:10.1f}{rate:8.2f}{again:8.2f}{each.first:10.1f}{first:8.2f}"
        )
    print(f"dearest: {worst:.2f} times vLLM per kilobyte, limit {LIMIT}")
    return int(worst > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
