"""A blocked event loop shows in a metric; a storm of signals does not block it."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from monitor.metrics import textformat
from monitor.service import pulse
from monitor.service.commands import serving


def value(watched: pulse.Pulse, name: str) -> float:
    """One of the pulse's values."""
    page = textformat.render(watched.families(), openmetrics=False).decode()
    return next(float(line.split()[1]) for line in page.splitlines() if line.startswith(name))


async def test_a_block_is_measured() -> None:
    """Work of half a second on the event loop is seen as such, within a turn of the pulse."""
    watched = pulse.Pulse()
    task = asyncio.create_task(watched.run())
    await asyncio.sleep(0.01)
    time.sleep(pulse.BEAT_SECONDS + 0.5)  # noqa: ASYNC251 - the block
    await asyncio.sleep(0.01)
    task.cancel()
    assert value(watched, "specmon_event_loop_blocked_seconds_total") >= 0.45
    assert value(watched, "specmon_event_loop_longest_block_seconds") >= 0.45


def test_small_delays_are_no_block_and_old_ones_pass() -> None:
    """The sum has blocks only; the longest is forgotten after a minute."""
    watched = pulse.Pulse()
    watched.note(5.0)
    for _ in range(239):
        watched.note(0.05)
    assert value(watched, "specmon_event_loop_longest_block_seconds") == 5.0
    watched.note(0.05)
    assert value(watched, "specmon_event_loop_longest_block_seconds") == 0.05
    assert value(watched, "specmon_event_loop_blocked_seconds_total") == 5.0


async def test_a_storm_of_hangups_is_one_reload() -> None:
    """Hundreds of SIGHUP in a row read the settings once, after the last of them; one later reads them again."""
    reloads = 0
    reloaded = asyncio.Event()

    async def reload() -> str:
        nonlocal reloads
        reloads += 1
        reloaded.set()
        return ""

    serving._on_hangup(reload)
    try:
        for expected in (1, 2):
            for _ in range(300):
                os.kill(os.getpid(), signal.SIGHUP)
                await asyncio.sleep(0)
            await asyncio.wait_for(reloaded.wait(), 20)
            reloaded.clear()
            assert reloads == expected
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
