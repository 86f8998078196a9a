"""`specmon top`: the worst first, cut to the window, safe for a terminal, plain when piped."""

from __future__ import annotations

import asyncio
import sys

from monitor.web import terminal
from tests.web import made_fleet
from tests.web.fleet_of_five import HOSTILE, Service
from tests.web.serving import client


async def top(*arguments: str) -> tuple[int | None, str, str]:
    """Run the command with its output in a pipe; return its exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "monitor", "top", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await process.communicate()
    return process.returncode, out.decode(), errors.decode()


async def test_the_first_screen_is_piped_once() -> None:
    """Piped it prints verdicts and models of the running monitor, once, without a control sequence."""
    async with client(made_fleet.service(60)) as session:
        code, out, _ = await top(str(session.make_url("")))
    assert code == 0
    lines = out.splitlines()
    assert "SIMULATED" in lines[0]
    assert lines[2].startswith(f"! All 40 replicas of {made_fleet.NAMES[0]} have collapsed")
    row = next(line for line in lines if line.startswith("▼ collapsed"))
    for word in (made_fleet.NAMES[0], "40 collapsed", "1.24", "3.31", "−63 %", "25 min ago"):
        assert word in row
    assert "\x1b" not in out


async def test_what_cannot_be_read_is_said_in_a_line() -> None:
    """An address without a monitor ends it with exit code 2 and one sentence."""
    async with client(Service()) as session:
        code, _, errors = await top(str(session.make_url("/nowhere")))
    assert code == 2
    assert "answered 404, expected the API of a monitor" in errors
    code, _, errors = await top("ftp://x")
    assert (code, len(errors.splitlines())) == (2, 1)


def test_a_screen_fits_its_window() -> None:
    """No line is longer than the window, none is below it, and names send nothing to the terminal."""
    models = {"models": [{"model_name": HOSTILE * 9, "state": "ok", "counts": {"ok": 3}}] * 50}
    lines = terminal.screen({"at": 5.0, "verdicts": [HOSTILE * 9] * 5}, models, 80, 20)
    assert len(lines) == 20
    assert max(map(len, lines)) == 80
    assert all(char.isprintable() for line in lines for char in line)
    assert "and 2 more" in "".join(lines)
