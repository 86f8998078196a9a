"""What 100,000 changes of targets and labels leave behind: `make soak` (minutes; CI runs a short one).

A service whose clock runs 600 times as fast watches engines whose targets and model names come and go: each
target stays for `TARGETS / GOING` scrapes, each name for `MODELS / NEW_MODELS`, and both are known for an hour of
that clock after they went. Someone reads the metrics all the while. After the first parts, in which
caches and tables find their size, memory, open files and the store must stay as they are: within 5 % and within
their limits.

    python -m tests.soak [--changes 100000] [--trace]
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
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.core import pipeline, streams
from monitor.metrics import textformat
from monitor.service import service
from monitor.sources.targets import Target
from monitor.store import Store, sqlite_file
from tests import made

if TYPE_CHECKING:
    from collections.abc import Sequence

SPEED = 600.0  # seconds of the service's clock a second
TARGETS, GOING, MODELS, NEW_MODELS, MOST_STREAMS = 20, 1, 20, 5, 800
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
    """A server of targets whose pages have `NEW_MODELS` names that the one before had not; `pages` counts them."""
    asked: dict[bytes, int] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
                pages[0] += 1
                asked[path] = number = asked.get(path, 0) + 1
                body = page(path.decode(), number)
                writer.write(_HEAD % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    return await asyncio.start_server(answer, "127.0.0.1", 0)


def page(path: str, number: int) -> bytes:
    """Return a target's page of this number: a model that stays, and some that came with this page or before."""
    first = number * NEW_MODELS
    names = ["stays", *(f"made-up{path}-{n}" for n in range(first, first + MODELS))]
    counts = {"drafts": number * 1000.0, "accepted": [number * 800.0, number * 400.0]}
    return b"".join(made.page(**counts, model_name=name, started_at=1e9) for name in names)  # type: ignore[arg-type]


async def soak(changes: int, folder: Path, growth: Growth | None = None) -> tuple[Size, Size]:
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
    while (done := replaced + pages[0] * NEW_MODELS) < changes:
        await asyncio.sleep(ROUND_SECONDS)
        replaced += GOING
        wanted = [*wanted[GOING:], *(target(port, TARGETS + replaced - n) for n in range(GOING))]
        one.replace(PLAN, wanted)
        textformat.render(one.snapshot().families())
        sizes.append(measured(one, folder))
        if growth is not None and done > changes / 2:
            growth.begin()
    stop.set()
    await running
    kept.close()
    server.close()
    part = len(sizes) // PARTS
    return usual(sizes[-3 * part : -2 * part]), usual(sizes[-part:])


class Growth:
    """Where memory was taken since the middle of the soak that is still in use, if that is asked for."""

    def __init__(self, *, traced: bool = False) -> None:
        self._traced = traced
        self._middle: tracemalloc.Snapshot | None = None

    def begin(self) -> None:
        """Take the middle, once."""
        if self._traced and self._middle is None:
            gc.collect()
            self._middle = tracemalloc.take_snapshot()

    def lines(self) -> list[str]:
        """Return the places that took most."""
        if self._middle is None:
            return []
        gc.collect()
        return [str(each) for each in tracemalloc.take_snapshot().compare_to(self._middle, "lineno")[:20]]


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
    parser.add_argument(
        "--trace", action="store_true", help="say where memory was taken that is still in use"
    )
    options = parser.parse_args(arguments)
    if options.trace:
        tracemalloc.start()
    growth = Growth(traced=options.trace)
    with tempfile.TemporaryDirectory() as folder:
        before, after = asyncio.run(soak(options.changes, Path(folder), growth))
    print(f"before {before}\nafter  {after}", *growth.lines(), sep="\n")
    found = complaints(before, after)
    print("\n".join(found) or "nothing grew")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
