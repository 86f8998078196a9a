"""How soon health and metrics answer while 500 targets hang and one sends 20 MB of garbage.

Run as `python -m tests.bench.bench_hostile [SECONDS]`. Before and after each question this process calculates
for a while: where that takes much longer than the time it had of a processor, the machine is busy with other
things, and the answer in between is left out. Fails where one of the others took 0.1 s.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench import bench_scrape
from tests.bench.pages import real_page

if TYPE_CHECKING:
    from collections.abc import Sequence

HANGING, GOOD, GARBAGE_BYTES = 500, 50, 20_000_000
SECONDS, WARM_SECONDS = 60.0, 6.0
FEWEST = 100  # answers of each path in moments that count
GOAL_SECONDS = 0.1
WORK_SECONDS = 0.01  # of a processor
MOST_DELAY = 1.5
ASKED = ("/metrics", "/-/healthy")
QUANTILES = {"median": 0.5, "p95": 0.95, "p99": 0.99, "slowest": 1.0}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"


async def engines() -> None:
    """Serve targets by their path: `/hang…` answers never, `/garbage` 20 MB, all else a real page."""
    page, line = real_page(), b'vllm:prompt_tokens_total{model_name="m",engine="0"} zzz\n'
    garbage = line * (GARBAGE_BYTES // len(line))  # few enough lines to be searched, none of them a sample

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                if asked.startswith(b"GET /hang"):
                    await reader.read()
                    break
                body = garbage if asked.startswith(b"GET /garbage") else page
                writer.write(HEAD % len(body) + body)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def took(port: int, path: str) -> float:
    """Return the seconds until a whole answer was there, over a connection of its own."""
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n" % path.encode())
    assert (await reader.read()).startswith(b"HTTP/1.")
    writer.close()
    return time.perf_counter() - begun


def is_quiet() -> bool:
    """Work for a moment and return whether the machine let us."""
    begun, used = time.perf_counter(), time.process_time()
    while time.process_time() - used < WORK_SECONDS:
        pass
    return time.perf_counter() - begun < MOST_DELAY * WORK_SECONDS


async def answers(port: int, seconds: float) -> list[tuple[float, bool]]:
    """Return how long each answer took, to the paths in turn, and whether it counts."""
    found: list[tuple[float, bool]] = []
    until, before = time.perf_counter() + seconds, is_quiet()
    while time.perf_counter() < until:
        seconds = await took(port, ASKED[len(found) % len(ASKED)])
        after = is_quiet()
        found.append((seconds, before and after))
        before = after
    return found


def settings(port: int) -> dict[str, object]:
    """Return what specmon is told to watch."""
    paths = [*(f"hang{n}" for n in range(HANGING)), *(f"good{n}" for n in range(GOOD)), "garbage"]
    return {
        "targets": [{"url": f"http://127.0.0.1:{port}/{path}/metrics", "name": path} for path in paths],
        "scrape": {"interval": "2s", "timeout": "1s"},
        "web": {"listen_address": ["127.0.0.1:0"]},
    }


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share of the values is."""
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]


def report(path: str, found: Sequence[tuple[float, bool]]) -> bool:
    """Print how soon a path answered; return whether it was soon enough."""
    counted = [seconds for seconds, counts in found if counts]
    if len(counted) < FEWEST:
        print(f"{path:12} the machine is too busy to tell")
        return False
    figures = ", ".join(f"{name} {quantile(counted, share) * 1e3:.0f}" for name, share in QUANTILES.items())
    print(f"{path:12} {len(counted):5} answers of {len(found)} count: {figures} ms")
    return max(counted) < GOAL_SECONDS


def measured(seconds: float) -> tuple[list[tuple[float, bool]], str]:
    """Return what `answers` does, and specmon's metrics at the end."""
    command = (sys.executable, "-m", "tests.bench.bench_hostile", "engines")
    with tempfile.TemporaryDirectory() as folder, bench_scrape.started(*command) as served:
        assert served.stdout is not None
        file = Path(folder) / "specmon.yml"
        file.write_text(json.dumps(settings(int(served.stdout.readline()))), encoding="utf-8")
        with bench_scrape.started(sys.executable, "-m", "monitor", "run", "--config", str(file)) as process:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1].removesuffix("/report")
            time.sleep(WARM_SECONDS)
            found = asyncio.run(answers(int(address.rpartition(":")[2]), seconds))
            return found, bench_scrape.page(f"{address}/metrics")


def main() -> int:
    """Print the figures; return 1 where the goal is missed."""
    found, page = measured(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
    failed = {line.split('reason="')[1].split('"')[0] for line in page.splitlines() if _is_failure(line)}
    print(f"targets failed for: {', '.join(sorted(failed))}")
    print(*(line for line in page.splitlines() if line.startswith("specmon_event_loop_")), sep="\n")
    met = [report(path, found[first :: len(ASKED)]) for first, path in enumerate(ASKED)]
    return int(not all(met))


def _is_failure(line: str) -> bool:
    return line.startswith("specmon_target_scrape_failures_total{") and not line.endswith(" 0")


if __name__ == "__main__":
    if sys.argv[1:] == ["engines"]:
        asyncio.run(engines())
    else:
        sys.exit(main())
