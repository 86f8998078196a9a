"""`specmon top`: the first screen of a running monitor in a terminal, renewed; plain and once when piped."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from monitor.service import commands
from monitor.settings import quantities
from monitor.web import terminal

if TYPE_CHECKING:
    import argparse

    from monitor.web.fields import Record

ADDRESS = "http://127.0.0.1:10101"
TIMEOUT_SECONDS = 10.0
_MOST_MODELS = 200
_PLAIN = (100_000, 100_000)  # columns and lines where nobody's window ends
_CLEAR = "\x1b[H\x1b[J"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the monitor is, and how often to look."""
    parser.add_argument(
        "address", metavar="URL", nargs="?", default=ADDRESS, help=f"of the monitor (default: {ADDRESS})"
    )
    parser.add_argument(
        "--every", metavar="DURATION", default="5s", help="from one look to the next (default: 5s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Show the models until Ctrl-C; piped, print them once."""
    try:
        seconds = quantities.duration(arguments.every)
    except ValueError as error:
        raise commands.Unusable(f"--every: {error}") from error
    address = arguments.address.rstrip("/")
    if urlsplit(address).scheme not in {"http", "https"}:
        raise commands.Unusable(f"read {address!r}, expected the address of a monitor such as {ADDRESS}")
    watched = sys.stdout.isatty()
    while True:
        fleet = _read(f"{address}/api/v1/fleet")
        models = _read(f"{address}/api/v1/models?limit={_MOST_MODELS}")
        room = shutil.get_terminal_size() if watched else _PLAIN
        lines = terminal.screen(fleet, models, room[0], room[1] - 1)
        print((_CLEAR if watched else "") + "\n".join(lines), flush=True)
        if not watched:
            return commands.FINE
        time.sleep(seconds)


def _read(url: str) -> Record:
    """Return a JSON object. Raises Unusable where there is none."""
    try:
        with urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - http or https, looked at above
            found = json.load(answer)
    except HTTPError as error:
        raise commands.Unusable(f"{url} answered {error.code}, expected the API of a monitor") from error
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise commands.Unusable(f"{url} cannot be read: {reason}") from error
    if not isinstance(found, dict):
        raise commands.Unusable(f"{url} gave no object, expected the API of a monitor")
    return found
