"""Two monitors look at the same engines: one in peace, one while everything goes wrong. What both found."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.chaos import faults, fleet, monitors
from tests.chaos.fleet import Fleet
from tests.chaos.monitors import Monitor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from monitor.core.vocabulary import EventKind
    from tests.chaos.monitors import Receiver

    Key = tuple[str, str, str]

FAULTY = 0.25  # of the scrapes
OLD_SECONDS = 1.0
FALLS = 0.2  # of the time in which things go wrong
BAD: Mapping[EventKind, float] = {"dead_draft": fleet.DEAD, "collapse": fleet.COLLAPSED}
WARM: Mapping[EventKind, float] = {"dead_draft": 40_000.0, "collapse": 700_000.0}
"""Drafts after which this is judged: a dead draft at once, a collapse after three quarters of a minute."""
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.5
MOST_LATE_SECONDS = 4.0  # a change may be dated so much otherwise where the scrapes around it failed


@dataclass(slots=True)
class Outcome:
    """What a run showed: events of both monitors, the notices of the troubled one, which faults there were.

    `missing` is what the one in peace should have found and has not, or the other way round.
    """

    clean: list[dict[str, Any]]
    troubled: list[dict[str, Any]]
    told: list[tuple[str, dict[str, Any]]]
    ends: list[float]
    log: str
    faults: dict[str, int]
    missing: Sequence[Key] = ()


class Engines:
    """Serves the fleet: `/clean/…` as it is, `/troubled/…` with faults while `troubled` is set."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet, self._rng = fleet, random.Random(seed)
        self.troubled = False
        self.faults: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._answered(reader, writer):
                await writer.drain()
        writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
        if not path.endswith(b"/metrics"):
            writer.write(faults.answer(b"", b"404 Not Found"))
            return True
        _, kind, name, _ = path.decode().split("/")
        body = self._fleet.page(name)
        if kind == "clean" or not self.troubled or self._rng.random() >= FAULTY:
            writer.write(faults.answer(body))
            return True
        fault = self._rng.choice(faults.PAGE_FAULTS)
        self.faults[fault] = self.faults.get(fault, 0) + 1
        await faults.spoilt(fault, body, self._fleet.page(name, OLD_SECONDS), reader, writer)
        return False


async def run(folder: Path, *, kind: EventKind, seed: int, engines: int, seconds: float) -> Outcome:
    """Return what both monitors found while things went wrong for so many seconds and events of `kind` began."""
    fleet = Fleet(engines, BAD[kind], seed)
    served = Engines(fleet, seed)
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0, backlog=512)
    base = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with monitors.receiving() as receiver, monitors.receiving() as other:
        both = [
            Monitor(folder / way, [(name, f"{base}/{way}/{name}/metrics") for name in fleet.names], told)
            for way, told in (("clean", other), ("troubled", receiver))
        ]
        try:
            await asyncio.gather(*(each.start() for each in both))
            fleet.begin()
            await until_warm(both, len(fleet.names), WARM[kind])
            served.troubled = True
            story = asyncio.create_task(told(fleet, both[1], seconds))
            gone_wrong = await trouble(both[1], receiver, random.Random(seed), seconds, story)
            served.troubled = False
            return await outcome(both, receiver, wanted(fleet), served.faults | gone_wrong)
        finally:
            for each in both:
                await each.kill()
            server.close()
            await asyncio.sleep(2 * faults.TURN_SECONDS)  # whoever hangs for them sees that they are gone


async def until_warm(both: Sequence[Monitor], engines: int, enough: float) -> None:
    """Wait until both have seen so many drafts of each engine."""
    async with asyncio.timeout(3 * PATIENCE_SECONDS):
        while True:
            seen = [drafts for each in both for drafts in await each.values("specmon_drafts_total")]
            if len(seen) == 2 * engines and min(seen) >= enough:
                return
            await asyncio.sleep(LOOK_SECONDS)


async def told(fleet: Fleet, monitor: Monitor, seconds: float) -> None:
    """Let acceptance fall, and come back once the monitor knows of it, whatever happens to it meanwhile."""
    await asyncio.sleep(FALLS * seconds)
    fleet.fall()
    fallen = sum(story != "steady" for story in fleet.story.values())
    until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
    while asyncio.get_running_loop().time() < until:
        with contextlib.suppress(aiohttp.ClientError):
            if len((await monitor.read("/api/v1/events?status=open"))["events"]) >= fallen:
                break
        await asyncio.sleep(LOOK_SECONDS)
    fleet.rise()


async def trouble(
    monitor: Monitor, receiver: Receiver, rng: random.Random, seconds: float, story: asyncio.Task[None]
) -> dict[str, int]:
    """Let one thing after the other go wrong until the story is told; return how often each did."""
    found = dict.fromkeys(faults.PROCESS_FAULTS, 0)
    until = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < until or not story.done() or not all(found.values()):
        fewest = min(found.values())
        name = rng.choice([each for each, times in found.items() if times == fewest])
        await faults.PROCESS_FAULTS[name](monitor, receiver, rng)
        found[name] += 1
        await asyncio.sleep(rng.uniform(0.1, 0.8))
    await story
    return found


def wanted(fleet: Fleet) -> set[Key]:
    """Return what there is to find."""
    return {
        (name, "critical", "open" if story == "falls" else "closed")
        for name, story in fleet.story.items()
        if story != "steady"
    }


async def outcome(
    both: Sequence[Monitor], receiver: Receiver, expected: set[Key], gone_wrong: dict[str, int]
) -> Outcome:
    """Return what both found once that is all that there is to find, or no more comes; end them."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_SECONDS
    while True:
        clean, troubled = [(await each.read("/api/v1/events?limit=1000"))["events"] for each in both]
        found = Outcome(clean, troubled, receiver.posts, both[1].took, both[1].log, gone_wrong)
        if (_by_key(clean).keys() == expected and not complaints(found)) or loop.time() > until:
            break
        await asyncio.sleep(LOOK_SECONDS)
    for each in both:
        await each.end()
    return dataclasses.replace(found, log=both[1].log, missing=sorted(expected ^ _by_key(clean).keys()))


def complaints(found: Outcome) -> list[str]:
    """Return what the troubled monitor did that the one in peace did not, and the other way round."""
    clean, troubled = _by_key(found.clean), _by_key(found.troubled)
    said = [f"not even found in peace, or only there: {key}" for key in found.missing]
    said += [f"missed: {key}" for key in clean.keys() - troubled.keys()]
    said += [f"false: {key}" for key in troubled.keys() - clean.keys()]
    said += [f"{key} came {len(events)} times" for key, events in troubled.items() if len(events) > 1]
    for key in clean.keys() & troubled.keys():
        late = troubled[key][0]["change_point_at"] - clean[key][0]["change_point_at"]
        if abs(late) > MOST_LATE_SECONDS:
            said.append(f"{key} is dated {late:+.1f} s otherwise")
    happened = {(event["id"], status) for event in found.troubled for status in _statuses(event)}
    heard = [(post["id"], post["status"]) for post in dict(found.told).values()]
    said += [f"not told: {each}" for each in happened - set(heard)]
    said += [f"told under several keys: {each}" for each in set(heard) if heard.count(each) > 1]
    said += [f"the end took {took:.1f} s" for took in found.ends if took > monitors.END_SECONDS]
    said += ["a traceback in the log"] if "Traceback" in found.log else []
    return said


def _statuses(event: dict[str, Any]) -> tuple[str, ...]:
    return ("open",) if event["status"] == "open" else ("open", "closed")


def _by_key(events: Sequence[dict[str, Any]]) -> dict[Key, list[dict[str, Any]]]:
    """Return the events by target, severity and status.

    The kind is not compared: a fall to nothing is a collapse for who sees what came before it in the same bucket.
    """
    found: dict[Key, list[dict[str, Any]]] = {}
    for event in events:
        found.setdefault((event["target"], event["severity"], event["status"]), []).append(event)
    return found
