"""`specmon demo`: the service against simulated engines, one of which loses its draft."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from monitor.service import commands
from monitor.service.commands import run as command
from monitor.settings import flags

if TYPE_CHECKING:
    import argparse

    from monitor.settings import Settings

SCRAPE_INTERVAL = 1.0
SCRAPE_TIMEOUT = 0.9
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
    import dataclasses

    from monitor.service import assembly, demo
    from monitor.service.commands import serving
    from monitor.sources import targets

    fleet = demo.SimulatedFleet(seed)
    wanted = [
        targets.Target(name, url, interval=SCRAPE_INTERVAL, timeout=SCRAPE_TIMEOUT)
        for name, url in await fleet.start()
    ]
    plan = assembly.plan(effective)
    limits = dataclasses.replace(plan.limits, scrape_interval=SCRAPE_INTERVAL, idle_seconds=10.0)
    plan = dataclasses.replace(plan, windows=WINDOWS, limits=limits)
    try:
        await serving.serve(effective, plan, wanted, bucket=BUCKET_SECONDS, simulated=True)
    finally:
        await fleet.stop()
