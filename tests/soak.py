"""What 100,000 changes of targets and labels leave behind: `make soak` (minutes; CI runs a short one).

A service whose clock runs 600 times as fast watches engines whose targets and model names come and go. After
the first half, in which caches and tables find their size, memory, open files and the store must stay as they
are: within 5 % and within their limits.

    python -m tests.soak [--changes 100000]
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import dataclasses
import gc
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.core import pipeline, streams
from monitor.service import service
from monitor.sources.targets import Target
from monitor.store import Store, sqlite_file
from tests import made

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEED = 600.0  # seconds of the service's clock a second
TARGETS, GOING, MODELS, MOST_STREAMS = 20, 4, 20, 400
ROUND_SECONDS = 0.5
SIZE_LIMIT = 8 << 20
MOST_GROWTH = 0.05
MOST_FILES = 2 * TARGETS  # of connections to targets that come and go; a leak would be thousands
PARTS = 5  # of all changes: the third is held against the last; until then caches find their size
PLAN = pipeline.Plan(
    limits=streams.Limits(scrape_interval=SPEED * ROUND_SECONDS, forget_seconds=3600.0, streams=MOST_STREAMS)
)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """What the process uses: bytes in memory, open files, bytes of the store, rows of the state."""

    memory: int
    files: int
    store: int
    streams: int


async def engines(pages: list[int]) -> asyncio.Server:
    """A server whose every page has models of other names, one aside that stays; `pages` holds their number."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                pages[0] = number = pages[0] + 1
                counts = {"drafts": float(number * 10), "accepted": [number * 8.0, number * 4.0]}
                names = ["stays", *(f"made-up-{number}-{n}" for n in range(MODELS))]
                body = b"".join(made.page(**counts, model_name=name, started_at=1e9) for name in names)  # type: ignore[arg-type]
                writer.write(_HEAD % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


async def soak(changes: int, folder: Path) -> tuple[Size, Size]:
    """Return the usual sizes around the middle of so many changes, and at their end."""
    pages = [0]
    server = await engines(pages)
    port = server.sockets[0].getsockname()[1]
    begun = time.time()

    def clock() -> float:
        return begun + (time.time() - begun) * SPEED

    kept = Store(str(folder / "s.db"), size_limit=SIZE_LIMIT, clock=clock)
    wanted = [target(port, number) for number in range(TARGETS)]
    one = service.Service(PLAN, wanted, kept, clock=clock, bucket=ROUND_SECONDS)
    stop = asyncio.Event()
    running = asyncio.create_task(one.run(stop))
    sizes: list[Size] = []
    replaced = 0
    while replaced + pages[0] * MODELS < changes:
        await asyncio.sleep(ROUND_SECONDS)
        replaced += GOING
        wanted = [*wanted[GOING:], *(target(port, TARGETS + replaced - n) for n in range(GOING))]
        one.replace(PLAN, wanted)
        sizes.append(measured(one, folder))
    stop.set()
    await running
    kept.close()
    server.close()
    part = len(sizes) // PARTS
    return usual(sizes[-3 * part : -2 * part]), usual(sizes[-part:])


def usual(sizes: Sequence[Size]) -> Size:
    """Return the median of each: what waits to be read at one moment is no leak."""
    columns = zip(*(dataclasses.astuple(size) for size in sizes), strict=True)
    return Size(*(round(statistics.median(column)) for column in columns))


def target(port: int, number: int) -> Target:
    """An engine's target of its own name."""
    url = f"http://127.0.0.1:{port}/{number}/metrics"
    return Target(f"t{number}", url, interval=ROUND_SECONDS, timeout=0.9 * ROUND_SECONDS)


def measured(one: service.Service, folder: Path) -> Size:
    """Return what the process uses now."""
    gc.collect()
    if sys.platform == "linux":  # what malloc keeps for later is no leak
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
    files = len(list(Path("/proc/self/fd").iterdir()))
    store = sum(each.stat().st_size for each in folder.iterdir())
    return Size(pages * 4096, files, store, len(one.snapshot().streams()))


def complaints(before: Size, after: Size, most_growth: float = MOST_GROWTH) -> list[str]:
    """Return what grew that should not have; memory may by a share of `most_growth`."""
    found = []
    if after.memory > before.memory * (1.0 + most_growth):
        found.append(f"memory grew from {before.memory >> 20} to {after.memory >> 20} MiB")
    if after.files > before.files + MOST_FILES:
        found.append(f"open files grew from {before.files} to {after.files}")
    if after.store > SIZE_LIMIT + 2 * sqlite_file.LARGEST_LOG_AT_REST:
        found.append(f"the store has {after.store >> 20} MiB, its limit is {SIZE_LIMIT >> 20}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Soak and say what it took; 1 where something grew."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--changes", type=int, default=100_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        before, after = asyncio.run(soak(options.changes, Path(folder)))
    print(f"before {before}\nafter  {after}")
    found = complaints(before, after)
    print("\n".join(found) or "nothing grew")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
