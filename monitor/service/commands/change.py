"""`specmon change`: tells a running monitor what was changed, for a deployment's pipeline.

Told again with the same id it changes nothing, so a job that is run again may tell it again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from monitor.core.vocabulary import CHANGE_KINDS
from monitor.service import commands
from monitor.settings import quantities

if TYPE_CHECKING:
    import argparse

ADDRESS = "http://127.0.0.1:10101"
TOKEN_VARIABLE = "SPECMON_WEB__ADMIN_TOKEN"  # noqa: S105 - a name
TIMEOUT_SECONDS = 10.0
_SAID_BYTES = 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What was changed, where, and since when."""
    parser.add_argument(
        "address", metavar="URL", nargs="?", default=ADDRESS, help=f"of the monitor (default: {ADDRESS})"
    )
    parser.add_argument("--id", required=True, help="your own name of the change, such as the job's number")
    parser.add_argument("--kind", required=True, choices=CHANGE_KINDS, help="what was changed")
    parser.add_argument("--text", required=True, help="one line that says what")
    parser.add_argument("--model-name", default="", metavar="NAME", help="of this model (default: of all)")
    parser.add_argument("--target", default="", metavar="NAME", help="of this target (default: of all)")
    parser.add_argument("--at", type=float, metavar="SECONDS", help="unix time of its begin (default: now)")
    parser.add_argument(
        "--within", default="15m", metavar="DURATION", help="until it is everywhere (default: 15m)"
    )
    parser.add_argument(
        "--token-file", default="", metavar="FILE", help=f"holds the admin token (default: ${TOKEN_VARIABLE})"
    )


def run(arguments: argparse.Namespace) -> int:
    """Tell it; print what is kept."""
    try:
        seconds = quantities.duration(arguments.within)
    except ValueError as error:
        raise commands.Unusable(f"--within: {error}") from error
    address = arguments.address.rstrip("/")
    if urlsplit(address).scheme not in {"http", "https"}:
        raise commands.Unusable(f"read {address!r}, expected the address of a monitor such as {ADDRESS}")
    told = {name: getattr(arguments, name) for name in ("id", "kind", "text", "model_name", "target")}
    told |= {"seconds": seconds} | ({} if arguments.at is None else {"at": arguments.at})
    status, kept = _post(f"{address}/api/v1/changes", told, _token(arguments.token_file))
    print(f"{'kept' if status == 201 else 'told before'}: {kept}")  # noqa: PLR2004 - created
    return commands.FINE


def _token(file: str) -> str:
    """Return the token. Raises Unusable where none is given."""
    try:
        given = Path(file).read_text(encoding="utf-8") if file else os.environ.get(TOKEN_VARIABLE, "")
    except (OSError, UnicodeDecodeError) as error:
        raise commands.Unusable(f"--token-file: {file} cannot be read: {error}") from error
    if not given.strip():
        raise commands.Unusable(f"read no token, expected --token-file or ${TOKEN_VARIABLE}")
    return given.strip()


def _post(url: str, told: dict[str, object], token: str) -> tuple[int, str]:
    """Return the status and what is kept. Raises Unusable where the monitor does not take it."""
    headers = {"Content-Type": "application/json", "X-Specmon-Token": token}
    request = Request(url, json.dumps(told).encode(), headers, method="POST")  # noqa: S310 - looked at above
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - http or https
            return answer.status, f"{told['kind']} {told['id']}: {told['text']}"
    except HTTPError as error:
        said = error.read(_SAID_BYTES).decode(errors="replace").strip()
        raise commands.Unusable(f"{url} answered {error.code}: {_sentence(said)}") from error
    except (URLError, OSError, ValueError) as error:
        raise commands.Unusable(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from error


def _sentence(body: str) -> str:
    try:
        found = json.loads(body)
    except ValueError:
        return body
    return str(found.get("error", body)) if isinstance(found, dict) else body
