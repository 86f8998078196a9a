"""What goes wrong: with the answer to a scrape, and with the process that scrapes or what it needs."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Mapping

    from tests.chaos.monitors import Monitor, Receiver

HEAD = b"HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n%s\r\n"
PAGE_FAULTS = (
    "hangs", "drips", "breaks off", "is closed", "is no HTTP", "is an error", "goes elsewhere", "is a web page",
    "is empty", "is half a page", "is garbage", "is huge garbage", "is packed badly", "is old", "has no numbers",
)  # fmt: skip
TURN_SECONDS = 0.02
HUGE = b'vllm:prompt_tokens_total{model_name="m"} zzz\n' * 50_000


def answer(body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    """Return a whole HTTP answer."""
    return HEAD % (status, len(body), more) + body


async def spoilt(
    name: str, body: bytes, old: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer with a fault; the connection is closed after it. `old` is an earlier page."""
    whole = answer(body)
    if name == "hangs":
        await reader.read()  # until whoever asked gives up
    elif name == "drips":
        for byte in whole[:40]:
            if writer.is_closing():
                return
            writer.write(bytes((byte,)))
            await asyncio.sleep(TURN_SECONDS)
    else:
        writer.write(_answers(whole, body, old)[name])


def _answers(whole: bytes, body: bytes, old: bytes) -> Mapping[str, bytes]:
    return {
        "breaks off": whole[: len(whole) // 2],
        "is closed": b"",
        "is no HTTP": b"\x16\x03\x01" + b"x" * 100,
        "is an error": answer(body, b"500 Internal Server Error"),
        "goes elsewhere": answer(b"", b"302 Found", b"Location: http://127.0.0.2:9/metrics\r\n"),
        "is a web page": answer(b"<html>sign in</html>"),
        "is empty": answer(b""),
        "is half a page": answer(body[: len(body) // 2]),
        "is garbage": answer(b"\xff\x00" * 500),
        "is huge garbage": answer(HUGE),
        "is packed badly": answer(body, more=b"Content-Encoding: gzip\r\n"),
        "is old": answer(old),
        "has no numbers": answer(
            b"\n".join(line.rpartition(b" ")[0] + b" NaN" for line in body.splitlines()) + b"\n"
        ),
    }


async def hang_up(monitor: Monitor, _: Receiver, rng: random.Random) -> None:
    """Have the settings read again, many times at once; sometimes they are wrong."""
    monitor.write_settings(broken=rng.random() < 0.5)
    for _time in range(rng.choice((1, 50))):
        monitor.signal(signal.SIGHUP)
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.5)
    monitor.write_settings()


async def end(monitor: Monitor, _: Receiver, __: random.Random) -> None:
    """End the process as Kubernetes does, and start it again."""
    await monitor.end()
    await monitor.start()


async def kill(monitor: Monitor, _: Receiver, __: random.Random) -> None:
    """Kill the process, and start it again."""
    await monitor.kill()
    await monitor.start()


async def stand_still(monitor: Monitor, _: Receiver, rng: random.Random) -> None:
    """Let the whole process stand still, as a node without memory does."""
    monitor.signal(signal.SIGSTOP)
    await asyncio.sleep(rng.uniform(0.2, 1.0))
    monitor.signal(signal.SIGCONT)


async def lock_the_store(monitor: Monitor, _: Receiver, rng: random.Random) -> None:
    """Hold the store's lock for writing, as a backup does."""
    other = sqlite3.connect(monitor.store, timeout=1.0, isolation_level=None)
    with contextlib.closing(other), contextlib.suppress(sqlite3.OperationalError):
        other.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(rng.uniform(0.2, 2.0))
        other.execute("ROLLBACK")


async def fill_the_disk(monitor: Monitor, _: Receiver, rng: random.Random) -> None:
    """Let no file grow for a while: what is written fails."""
    await _limited(monitor, resource.RLIMIT_FSIZE, 4096, rng)


async def take_the_descriptors(monitor: Monitor, _: Receiver, rng: random.Random) -> None:
    """Let no file and no connection be opened for a while."""
    await _limited(monitor, resource.RLIMIT_NOFILE, 16, rng)


async def take_the_receiver(_monitor: Monitor, receiver: Receiver, rng: random.Random) -> None:
    """Let the receiver of notifications refuse everything for a while."""
    receiver.status = rng.choice((500, 503, 429))
    await asyncio.sleep(rng.uniform(0.2, 2.0))
    receiver.status = 200


async def _limited(monitor: Monitor, limit: int, most: int, rng: random.Random) -> None:
    before, hard = resource.prlimit(monitor.pid, limit)
    resource.prlimit(monitor.pid, limit, (most, hard))
    await asyncio.sleep(rng.uniform(0.2, 1.5))
    resource.prlimit(monitor.pid, limit, (before, hard))


PROCESS_FAULTS: Mapping[str, Callable[[Monitor, Receiver, random.Random], Awaitable[None]]] = {
    "settings read again": hang_up,
    "SIGTERM": end,
    "SIGKILL": kill,
    "stands still": stand_still,
    "store locked": lock_the_store,
    "disk full": fill_the_disk,
    "no descriptors": take_the_descriptors,
    "receiver away": take_the_receiver,
}
