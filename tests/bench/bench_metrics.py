"""Measures our metrics page of a thousand streams against prometheus_client's writer on the same samples.

Run as `python -m tests.bench.bench_metrics [STREAMS]`; prints both sides and the ratio.
"""

from __future__ import annotations

import gzip
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

from monitor import metrics
from monitor.metrics import textformat
from tests.metric_tables import stream_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

GOAL_SECONDS = 0.050
ROUNDS = 7


class Prepared:
    """A collector that hands out families which were made beforehand: only the writing is measured."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the prepared families."""
        return self._families


def best(work: Callable[[], object]) -> float:
    """Return the shortest of a few runs, in seconds: the one least disturbed by other work."""
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def as_client_metrics(families: Iterable[textformat.Family]) -> Iterator[Metric]:
    """Yield the same samples as prometheus_client's own objects."""
    for family in families:
        metric = Metric(family.name, family.help, family.kind)
        suffix = {"counter": "_total", "info": "_info"}.get(family.kind, "")
        for column in family.columns:
            for block, value in zip(
                column.blocks, np.asarray(column.values, dtype=float).tolist(), strict=True
            ):
                if value == value:  # noqa: PLR0124 - not NaN
                    pairs = ",".join(filter(None, (block, column.more))).split(",")
                    split = (pair.split("=", 1) for pair in pairs if pair)
                    metric.add_sample(family.name + suffix, {name: text[1:-1] for name, text in split}, value)
        if metric.samples:
            yield metric


def main(streams: int = 1000) -> int:
    """Print the figures; return 1 where the goal is missed."""
    table = stream_table(streams, ("1m", "5m", "1h"))
    page = textformat.render(metrics.stream_families(table))
    samples = sum(not line.startswith(b"#") for line in page.splitlines())
    ours = best(lambda: textformat.render(metrics.stream_families(table)))
    packed = best(lambda: gzip.compress(page, 1))
    registry = CollectorRegistry()
    registry.register(Prepared(list(as_client_metrics(metrics.stream_families(table)))))
    theirs = best(lambda: generate_latest(registry))
    print(f"{streams} streams, {samples} samples, {len(page) / 1e6:.1f} MB")
    print(
        f"specmon            {ours * 1e3:8.1f} ms  {ours / samples * 1e9:6.0f} ns a sample"
        f" (goal {GOAL_SECONDS * 1e3:.0f} ms)"
    )
    print(f"prometheus_client  {theirs * 1e3:8.1f} ms  {theirs / samples * 1e9:6.0f} ns a sample")
    print(f"ratio              {theirs / ours:8.1f}")
    print(f"gzip, level 1      {packed * 1e3:8.1f} ms, off the event loop")
    return int(ours > GOAL_SECONDS)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
