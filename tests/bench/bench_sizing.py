"""Measures what a monitor needs by the number of its targets: the sizing table of deploy/README.md.

Run as `python -m tests.bench.bench_sizing [--write]`; prints the table, `--write` puts it into the page. The
targets are real pages whose counters grow, served by another process on this machine and read at the default
interval. CPU is all that the process used (reading, judging, saving, being scraped by Prometheus twice a minute);
memory is the most that was resident. The store is filled with 30 days of history. The sizes are measured at the
same time, each in a process of its own.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from monitor import settings, store
from monitor.core.streams.history import HistoryBucket

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "deploy" / "README.md"
MARKERS = ("<!-- made by `python -m tests.bench.bench_sizing --write`: sizing -->\n", "<!-- end -->")
COUNTS = (1, 10, 100, 1000)
WARM_SECONDS = 32.0
PROMETHEUS_INTERVAL_SECONDS = 30.0
MEASURED_INTERVALS = 2
POSITIONS = 5
MEBIBYTE = 1 << 20
SIDECAR_LIMIT_MEBIBYTES = 80.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What a monitor of so many targets used: thousandths of a core, bytes of its page."""

    targets: int
    mebibytes: float
    millicores: float
    page_bytes: int


def main() -> int:
    """Print the table and perhaps write it; return 1 where the sidecar outgrows its goal."""
    stored = stored_bytes_per_stream()
    with _started("tests.bench.engines") as (_, port), ThreadPoolExecutor(len(COUNTS)) as pool:
        rows = list(pool.map(lambda count: measured(int(port), count), COUNTS))
    text = table(rows, stored)
    print(text, end="")
    if "--write" in sys.argv:
        before, start, rest = PAGE.read_text().partition(MARKERS[0])
        PAGE.write_text(before + start + text + rest[rest.index(MARKERS[1]) :])
    return 1 if rows[0].mebibytes > SIDECAR_LIMIT_MEBIBYTES else 0


def table(rows: list[Figures], stored: float) -> str:
    """The Markdown of the measurements; `stored` is in bytes per stream."""
    interval = settings.Settings().scrape.interval
    head = f"| targets | memory | CPU at {interval:.0f} s | store after 30 days | /metrics |\n"
    lines = [head, "| ---: | ---: | ---: | ---: | ---: |\n"]
    lines += [
        f"| {row.targets:,} | {row.mebibytes:.0f} MiB | {row.millicores:.1f}m "
        f"| {stored * row.targets / MEBIBYTE:,.1f} MiB | {row.page_bytes / 1024:,.0f} KiB |\n"
        for row in rows
    ]
    return "".join(lines)


@contextlib.contextmanager
def _started(module: str, *arguments: str) -> Iterator[tuple[int, str]]:
    """The id of a process of a module, and the first line that it says."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, process.stdout.readline()
        finally:
            process.kill()


def measured(port: int, count: int) -> Figures:
    """Run a monitor of `count` targets and look at what it uses once all of them were read twice."""
    targets = [
        {"url": f"http://127.0.0.1:{port}/{each}/metrics", "name": f"vllm-{each}"} for each in range(count)
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "targets": targets,
            "store": {"path": f"{folder}/specmon.db"},
            "web": {"listen_address": ["127.0.0.1:0"]},
        }
        file = Path(folder) / "specmon.yaml"
        file.write_text(yaml.safe_dump(config))
        with _started("monitor", "run", "--config", str(file), "--log.level", "error") as (pid, said):
            found = re.search(r"http://[\d.:]+", said)
            assert found is not None, "specmon did not start"
            return _observed(count, pid, found[0] + "/metrics")


def _observed(count: int, pid: int, url: str) -> Figures:
    time.sleep(WARM_SECONDS)
    before = _cpu_seconds(pid)
    for _ in range(MEASURED_INTERVALS):
        time.sleep(PROMETHEUS_INTERVAL_SECONDS)
        page = _page(url)
    used = _cpu_seconds(pid) - before
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert peak is not None
    millicores = 1000 * used / (MEASURED_INTERVALS * PROMETHEUS_INTERVAL_SECONDS)
    return Figures(count, int(peak[1]) / 1024, millicores, len(page))


def _page(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own
        body: bytes = answer.read()
    return body


def _cpu_seconds(pid: int) -> float:
    """The CPU time of a process's threads, exact where the clock tick of its total is too coarse."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def stored_bytes_per_stream(streams: int = 4) -> float:
    """What 30 days of a stream's history take in the store's file, a bucket per minute written."""
    now = [0.0]
    retention = settings.Settings().store.retention
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "specmon.db"
        kept = store.Store(str(path), retention=retention, clock=lambda: now[0])
        empty = path.stat().st_size
        while now[0] < retention:
            hour = [
                _bucket(stream, now[0] + 60.0 * minute) for minute in range(60) for stream in range(streams)
            ]
            now[0] += 3600.0
            kept.save({}, [], hour)
        kept.close()
        return (path.stat().st_size - empty) / streams


def _bucket(stream: int, at: float) -> HistoryBucket:
    drafts = 12_000.0 + at % 977
    return HistoryBucket(
        stream=f"vllm-{stream}",
        at=at,
        seconds=60.0,
        drafts=drafts,
        draft_tokens=drafts * POSITIONS,
        accepted_tokens=drafts * 2,
        accepted=tuple(drafts * 0.8**position for position in range(1, POSITIONS + 1)),
        decode_outputs=drafts,
        decode_seconds=at % 61 + 0.25,
        generation_tokens=drafts * 3,
        first_tokens=at % 53,
        baseline_mal=3.1,
        state="ok",
    )


if __name__ == "__main__":
    sys.exit(main())
