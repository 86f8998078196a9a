"""Measures what a monitor needs by the number of its targets: the sizing table of deploy/README.md.

Run as `python -m tests.bench.bench_sizing [--write]`; prints the table, `--write` puts it into the page. The
targets are real pages of 54 KB whose counters grow, served by another process on this machine. CPU is the
process's own time per scrape, everything included (reading, judging, saving, being scraped), held against the
default interval; memory is the most that was resident. The store is filled as 30 days of history would.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from monitor import settings, store
from monitor.history import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "deploy" / "README.md"
MARKERS = ("<!-- made by `python -m tests.bench.bench_sizing --write`: sizing -->\n", "<!-- end -->")
COUNTS = (1, 10, 100, 1000)
MEASURED_SECONDS = 24.0
SCRAPED_EVERY_SECONDS = 6.0
DAY = 86_400.0
POSITIONS = 5
TICKS = os.sysconf("SC_CLK_TCK")
MEBIBYTE = 1 << 20
SIDECAR_LIMIT_MEBIBYTES = 80.0


def main() -> int:
    """Print the table and perhaps write it; return 1 where the sidecar outgrows its goal."""
    stored = stored_bytes_per_stream()
    with engines() as port:
        rows = [measure(port, count) for count in COUNTS]
    text = table(rows, stored)
    print(text, end="")
    if "--write" in sys.argv:
        before, start, rest = PAGE.read_text().partition(MARKERS[0])
        PAGE.write_text(before + start + text + rest[rest.index(MARKERS[1]) :])
    return 1 if rows[0][1] > SIDECAR_LIMIT_MEBIBYTES else 0


def table(rows: list[tuple[int, float, float, float]], stored: float) -> str:
    """The Markdown of the measurements: targets, MiB resident, CPU seconds per scrape, bytes of /metrics."""
    interval = settings.Settings().scrape.interval
    head = (
        f"| targets | memory | CPU at {interval:.0f} s | CPU per scrape | store after 30 days | /metrics |\n"
    )
    lines = [head, "| ---: | ---: | ---: | ---: | ---: | ---: |\n"]
    for count, memory, cpu, size in rows:
        cores = 1000 * cpu * count / interval
        lines.append(
            f"| {count:,} | {memory:.0f} MiB | {max(cores, 0.1):.{0 if cores >= 10 else 1}f}m | {1e6 * cpu:,.0f} µs "
            f"| {stored * count / MEBIBYTE:,.1f} MiB | {size / 1024:,.0f} KiB |\n"
        )
    return "".join(lines)


@contextlib.contextmanager
def engines() -> Iterator[int]:
    """The port of a process that serves the targets."""
    with _started("tests.bench.engines") as (_, said):
        yield int(said)


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


def measure(port: int, count: int) -> tuple[int, float, float, float]:
    """Run a monitor of `count` targets: MiB resident, CPU seconds per scrape, bytes of its page."""
    interval = 1.0 if count <= 100 else 5.0
    targets = [
        {"url": f"http://127.0.0.1:{port}/{each}/metrics", "name": f"vllm-{each}"} for each in range(count)
    ]
    with tempfile.TemporaryDirectory() as folder:
        config = {
            "targets": targets,
            "scrape": {"interval": interval},
            "store": {"path": f"{folder}/specmon.db"},
            "web": {"listen_address": ["127.0.0.1:0"]},
        }
        file = Path(folder) / "specmon.yaml"
        file.write_text(yaml.safe_dump(config))
        with _started("monitor", "run", "--config", str(file), "--log.level", "error") as (pid, said):
            found = re.search(r"http://[\d.:]+", said)
            assert found is not None, "specmon did not start"
            figures = _observed(pid, found[0] + "/metrics")
    return count, *figures


def _observed(pid: int, url: str) -> tuple[float, float, float]:
    """What the running monitor used from its second scrape of everything on."""
    time.sleep(SCRAPED_EVERY_SECONDS)
    scrapes, cpu = _scrapes(_page(url)), _cpu(pid)
    page = b""
    until = time.monotonic() + MEASURED_SECONDS
    while time.monotonic() < until:
        time.sleep(SCRAPED_EVERY_SECONDS)
        page = _page(url)
    made = _scrapes(page) - scrapes
    status = Path(f"/proc/{pid}/status").read_text()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    return int(peak[1]) / 1024, (_cpu(pid) - cpu) / made, len(page)


def _page(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310 - our own
        body: bytes = answer.read()
    return body


def _scrapes(page: bytes) -> float:
    return sum(
        float(value)
        for value in re.findall(rb"^specmon_target_scrapes_total\{.*\} (\S+)$", page, re.MULTILINE)
    )


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


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


def _bucket(stream: int, at: float) -> Bucket:
    drafts = 12_000.0 + at % 977
    return Bucket(
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
