"""Host names that take long to look up, or cannot be, delay no other name and not the end of the process."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from monitor.core.pages.scrapes import Failure
from monitor.sources import client, lookups
from monitor.sources.targets import Target
from tests.sources import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    Answers = dict[str, object]


class NameServer:
    """Stands for the system's lookup: names ending in .slow wait until `answering`; `wrong` is raised."""

    def __init__(self) -> None:
        self.answering = threading.Event()
        self.asked: list[str] = []
        self.wrong: socket.gaierror | None = None

    def look_up(self, host: str, *_: object, **__: object) -> list[object]:
        """As socket.getaddrinfo."""
        self.asked.append(host)
        if host.endswith(".slow"):
            self.answering.wait(60)
        if self.wrong is not None:
            raise self.wrong
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    """The lookup of this test."""
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server.look_up)
    yield server
    server.answering.set()


async def test_forty_silent_names_blind_no_good_target(names: NameServer) -> None:
    """While 40 targets wait for their names, every scrape of a target with a good name brings its page."""
    async with servers.serving(servers.answer()) as server, client.Client(time.time) as asking:
        port = server.url.split(":")[2].split("/")[0]

        def target(host: str, timeout: float) -> Target:
            return Target(host, f"http://{host}:{port}/metrics", timeout=timeout)

        silent = [asyncio.ensure_future(asking.fetch(target(f"{n}.slow", 1.0))) for n in range(40)]
        await asyncio.sleep(0)
        good = await asyncio.gather(*(asking.fetch(target(f"{n}.good", 10.0)) for n in range(50)))
        assert [look.body for look in good] == [servers.PAGE] * 50
        assert {look.failure and look.failure.reason for look in await asyncio.gather(*silent)} == {"timeout"}
        assert len([name for name in names.asked if name.endswith(".slow")]) == 40


async def test_a_name_that_becomes_slow_keeps_its_addresses(
    names: NameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a name stood for lately is used while its lookup takes long or no name server answers."""
    monkeypatch.setattr(lookups, "FRESH_SECONDS", 0.0)
    monkeypatch.setattr(lookups, "PATIENCE_SECONDS", 0.05)
    names.answering.set()
    found = lookups.Lookups()
    assert [each["host"] for each in await found.resolve("a.slow", 80)] == ["127.0.0.1"]
    names.answering.clear()
    assert [each["port"] for each in await found.resolve("a.slow", 80)] == [80]
    names.answering.set()
    names.wrong = socket.gaierror(socket.EAI_AGAIN, "try again")
    assert len(await found.resolve("a.slow", 80)) == 1
    names.wrong = socket.gaierror(socket.EAI_NONAME, "no such name")
    async with asyncio.timeout(20):
        with pytest.raises(OSError, match="no such name"):  # noqa: PT012 - until a lookup has ended within the patience
            while True:
                await found.resolve("a.slow", 80)
                await asyncio.sleep(0.01)
    with pytest.raises(OSError, match="no such name"):
        await found.resolve("a.slow", 80)


async def test_one_lookup_serves_all_who_ask(names: NameServer) -> None:
    """Fifty askers of one name are one lookup, and its answer holds for a while."""
    found = lookups.Lookups()
    await asyncio.gather(*(found.resolve("a.good", port) for port in range(50)))
    await found.resolve("a.good", 80)
    assert names.asked == ["a.good"]


async def test_what_is_known_is_bounded(names: NameServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that come and go leave nothing behind beyond a number."""
    monkeypatch.setattr(lookups, "MOST_KNOWN", 5)
    found = lookups.Lookups()
    for number in range(20):
        await found.resolve(f"{number}.good", 80)
    await found.resolve("19.good", 80)
    await found.resolve("0.good", 80)
    assert len(names.asked) == 21


def test_the_process_ends_while_a_lookup_hangs() -> None:
    """Silent name servers do not hold the process."""
    code = (
        "import asyncio, socket, threading\n"
        "socket.getaddrinfo = lambda *_: threading.Event().wait(60)\n"
        "from monitor.sources import lookups\n"
        "async def main():\n"
        "    try:\n"
        "        async with asyncio.timeout(0.1):\n"
        "            await lookups.Lookups().resolve('a', 1)\n"
        "    except TimeoutError:\n"
        "        print('over')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=40, check=True
    )
    assert done.stdout == "over\n"


async def test_a_name_that_does_not_exist_is_a_failure_that_says_so(names: NameServer) -> None:
    """The sentence has the system's own words."""
    names.wrong = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    async with client.Client(time.time) as asking:
        look = await asking.fetch(Target("a", "http://nowhere.good/metrics"))
    assert isinstance(look.failure, Failure)
    assert look.failure.reason == "dns"
    assert "cannot be resolved (Name or service not known)" in look.failure.detail
