"""Starts the application behind its door on a free port, for the tests of who gets in."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from typing import TYPE_CHECKING

from monitor.web import app
from monitor.web.door import guard, listening, webfile
from tests.web.fleet_of_five import Service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

TOKEN = "a-token-for-changes"
PASSWORD = "open sesame"
HASH = "$2b$04$PB7fQA4cRMjhcBKIF5Z4aufLUNUGOcdgNqEYuSvu.iErS9pdIOKRa"


@contextlib.asynccontextmanager
async def behind(
    file: str = "", rules: guard.Rules | None = None, **options: object
) -> AsyncIterator[tuple[str, int]]:
    """Serve until the block ends; the address."""
    file_in_force = webfile.WebFile(file)
    made = guard.Guard(rules or guard.Rules(token=TOKEN), file_in_force)
    application = app.application(Service, app.Options(guards=(made.middleware,), **options))  # type: ignore[arg-type]
    async with listening.listening(application, [("127.0.0.1", 0)], file_in_force.listening()) as addresses:
        yield addresses[0]
    made.close()


async def raw(address: tuple[str, int], text: bytes) -> bytes:
    """What the server answers to these bytes until it closes."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(text)
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    return answer


def authority(folder: Path) -> None:
    """Make ca.pem in `folder`."""
    _openssl(
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=ca", folder, "ca"
    )


def certificate(folder: Path, name: str, san: str) -> None:
    """Make `name`.pem and `name`.key, signed by ca.pem."""
    _openssl(
        f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} "
        f"-addext subjectAltName={san} -addext basicConstraints=critical,CA:FALSE -CA {folder}/ca.pem -CAkey {folder}/ca.key",
        folder,
        name,
    )


def _openssl(options: str, folder: Path, name: str) -> None:
    files_made = ["-out", f"{folder / name}.pem", "-keyout", f"{folder / name}.key"]
    subprocess.run(["openssl", *options.split(), *files_made], check=True, capture_output=True)
