"""CPU per scrape of specmon and of Prometheus, both scraping the same local engines; memory of a sidecar.

Run as `python -m tests.bench.bench_scrape [SECONDS]`. Fails where specmon takes more than 0.45 of
Prometheus' CPU per scrape, or 80 MB with one target. Without Prometheus only specmon's side is printed.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

from tests import real_engine

if TYPE_CHECKING:
    from collections.abc import Iterator

TARGETS = 200
SECONDS = 20.0
WARM_SECONDS = 5.0
GOAL_RATIO = 0.45
GOAL_MEGABYTES = 80.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


@contextlib.contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command and stop it by its own process id."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def megabytes(pid: int) -> float:
    """Return the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * PAGE / 1e6


def page(url: str) -> str:
    """Return what a URL answers, once it does."""
    for _ in range(200):
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310
            return str(answer.read().decode())
        time.sleep(0.1)
    raise RuntimeError(f"{url} does not answer")


def measured(pid: int, seconds: float, scrapes: object) -> float:
    """Return the CPU seconds per scrape over a while; `scrapes()` counts them."""
    assert callable(scrapes)
    time.sleep(WARM_SECONDS)
    count, cpu = scrapes(), cpu_seconds(pid)
    time.sleep(seconds)
    return float((cpu_seconds(pid) - cpu) / (scrapes() - count))


def total(text: str, name: str) -> float:
    """Return the sum of a metric over its series."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))


def of_specmon(engines: int, targets: int, seconds: float) -> tuple[float, float]:
    """Return specmon's CPU seconds per scrape and its memory in MB."""
    settings = {
        "targets": [
            {"url": f"http://127.0.0.1:{engines}/{i}/metrics", "name": f"engine-{i}"} for i in range(targets)
        ],
        "scrape": {"interval": "1s", "timeout": "0.9s"},
        "web": {"listen_address": ["127.0.0.1:0"]},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "specmon.yml"
        file.write_text(json.dumps(settings), encoding="utf-8")
        with started(sys.executable, "-m", "monitor", "run", "--config", str(file)) as process:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1].removesuffix("/report")
            scrapes = lambda: total(page(f"{address}/metrics"), "specmon_target_scrapes_total")  # noqa: E731
            return measured(process.pid, seconds, scrapes), megabytes(process.pid)


def of_prometheus(engines: int, seconds: float) -> float:
    """Return Prometheus' CPU seconds per scrape."""
    jobs = [
        {
            "job_name": f"engine-{i}",
            "metrics_path": f"/{i}/metrics",
            "static_configs": [{"targets": [f"127.0.0.1:{engines}"]}],
        }
        for i in range(TARGETS)
    ]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "prometheus.yml"
        settings = {"global": {"scrape_interval": "1s", "scrape_timeout": "900ms"}, "scrape_configs": jobs}
        file.write_text(json.dumps(settings), encoding="utf-8")
        port = real_engine.free_port()
        flags = (
            f"--config.file={file}",
            f"--storage.tsdb.path={folder}",
            f"--web.listen-address=127.0.0.1:{port}",
        )
        with started("prometheus", *flags) as process:
            name = "prometheus_target_interval_length_seconds_count"
            scrapes = lambda: total(page(f"http://127.0.0.1:{port}/metrics"), name)  # noqa: E731
            return measured(process.pid, seconds, scrapes)


def main() -> int:
    """Print both sides."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    failed = False
    with started(sys.executable, "-m", "tests.bench.engines", "0") as engines:
        assert engines.stdout is not None
        port = int(engines.stdout.readline())
        _, memory = of_specmon(port, 1, 3.0)
        print(f"sidecar with one target: {memory:.0f} MB resident, goal below {GOAL_MEGABYTES:.0f}")
        failed |= memory >= GOAL_MEGABYTES
        ours, memory = of_specmon(port, TARGETS, seconds)
        print(f"specmon, {TARGETS} targets at 1 s: {ours * 1e3:.3f} ms CPU per scrape, {memory:.0f} MB")
        if shutil.which("prometheus") is None:
            print("prometheus is not installed: no ratio")
            return int(failed)
        theirs = of_prometheus(port, seconds)
        ratio = ours / theirs
        print(
            f"prometheus, the same engines: {theirs * 1e3:.3f} ms CPU per scrape; ratio {ratio:.2f}, goal {GOAL_RATIO:.2f}"
        )
        failed |= ratio > GOAL_RATIO
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
