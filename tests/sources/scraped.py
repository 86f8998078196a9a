"""Pages of engines as a Prometheus has them: with the labels of its scrapes, at the times of a grid."""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.alerts import servers, tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from monitor.core.pages.scrapes import Scrape
    from tests.alerts.servers import Server

STEP = 10.0
POD = {"job": "llm/vllm", "instance": "10.0.0.7:8000", "namespace": "llm", "pod": "vllm-0", "engine": "prod"}
TARGET = "llm/vllm-0"
_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_PAIR = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


def on_grid(pages: Sequence[Scrape], end: float, step: float = STEP, target: str = TARGET) -> list[Scrape]:
    """Return a page for each time of the grid, the last there was by then, moved so that they end at `end`."""
    first, last = pages[0].at, pages[-1].at
    count = math.ceil((last - first) / step)
    by_then = [[page for page in pages if page.at <= first + index * step][-1] for index in range(count + 1)]
    start = end // step * step - count * step
    return [replace(page, target=target, at=start + index * step) for index, page in enumerate(by_then)]


def lines(page: Scrape, added: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield series and value as Prometheus keeps them: a label that it has itself is `exported_…`."""
    assert page.body is not None
    for name, labels, value in _LINE.findall(page.body.decode()):
        own = {
            f"exported_{label}" if label in added else label: text for label, text in _PAIR.findall(labels)
        }
        pairs = ",".join(f'{label}="{text}"' for label, text in sorted((own | dict(added)).items()))
        yield f"{name}{{{pairs}}}", value


@contextlib.contextmanager
def prometheus(folder: Path, pages: Sequence[Scrape], added: Mapping[str, str]) -> Iterator[Server]:
    """Run a real Prometheus that holds these pages."""
    text = [f"{series} {value} {page.at:.3f}" for page in pages for series, value in lines(page, added)]
    (folder / "pages.txt").write_text("\n".join([*text, "# EOF", ""]))
    promtool = tools.program("promtool")
    tools.run(promtool, "tsdb", "create-blocks-from", "openmetrics", folder / "pages.txt", folder / "data")
    (folder / "prometheus.yml").write_text("{}\n")
    with servers.prometheus(folder / "data", folder / "prometheus.yml") as server:
        yield server


@contextlib.contextmanager
def victoria_metrics(folder: Path, pages: Sequence[Scrape], added: Mapping[str, str]) -> Iterator[Server]:
    """Run a real VictoriaMetrics that holds these pages."""
    program = tools.program_or_skip("victoria-metrics")
    port = servers._free_port()
    flags = [f"-httpListenAddr=127.0.0.1:{port}", f"-storageDataPath={folder}", "-search.latencyOffset=0s"]
    flags += ["-maxLabelsPerTimeseries=60"]  # vLLM's cache_config_info has more than the default
    process = subprocess.Popen([program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = servers.Server(port, process)
    try:
        servers.until(server.is_ready, "VictoriaMetrics ready")
        text = [
            f"{series} {value} {page.at * 1000:.0f}" for page in pages for series, value in lines(page, added)
        ]
        _post(f"http://127.0.0.1:{port}/api/v1/import/prometheus", "\n".join(text).encode())
        last = f"/api/v1/query?query=process_start_time_seconds&time={pages[-1].at}&nocache=1"
        servers.until(lambda: "pod" in str(server.ask("GET", last)), "the import visible")
        yield server
    finally:
        process.terminate()
        process.wait(timeout=60)


def _post(url: str, body: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=60):  # noqa: S310 - our own
        pass
