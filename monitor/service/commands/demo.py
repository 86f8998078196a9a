"""`specmon demo`: the service against simulated engines, after a simulated day of theirs."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.service import commands
from monitor.service.commands import run as command
from monitor.settings import flags

if TYPE_CHECKING:
    import argparse

    from monitor.settings import Settings
    from monitor.store import Store

SCRAPE_INTERVAL = 1.0
SCRAPE_TIMEOUT = 0.9
SILENT_SECONDS = 20.0
STALE_INTERVALS = 10.0  # of a second each: a busy laptop is no engine that went away
WINDOWS = (10.0, 60.0, 300.0, 600.0)  # five minutes because the rules read that window
BUCKET_SECONDS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every setting but the targets as a flag: these are the demo's own."""
    flags.add(parser, without=("targets",))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 16), help="of the simulation")  # noqa: S311


def run(arguments: argparse.Namespace) -> int:
    """Watch simulated engines until SIGTERM or SIGINT."""
    effective = command.read(arguments)
    if effective.targets:
        raise commands.Unusable("the demo brings its own targets; expected none, use `specmon run` for yours")
    asyncio.run(_run(effective, arguments.seed))
    return commands.FINE


async def _run(effective: Settings, seed: int) -> None:
    from monitor.service import assembly, demo
    from monitor.service.commands import listing, serving
    from monitor.service.demo import past
    from monitor.sources import targets

    fleet = demo.SimulatedFleet(seed)
    plan = assembly.plan(effective)
    limits = replace(
        plan.limits,
        scrape_interval=SCRAPE_INTERVAL,
        idle_seconds=10.0,
        silent_seconds=SILENT_SECONDS,
        stale_intervals=STALE_INTERVALS,
    )
    plan = replace(plan, windows=WINDOWS, limits=limits)
    tell = listing.progress(sys.stderr, "simulating the day before") or (lambda _: None)

    wanted = [
        targets.Target(name, url, interval=SCRAPE_INTERVAL, timeout=SCRAPE_TIMEOUT)
        for name, url in await fleet.start()
    ]

    def prepare(kept: Store) -> None:
        if not kept.load():
            past.save(kept, past.live_through(plan, fleet.members, seed, time.time(), tell))
        fleet.begin()

    try:
        await serving.serve(effective, plan, wanted, bucket=BUCKET_SECONDS, simulated=True, prepare=prepare)
    finally:
        await fleet.stop()
