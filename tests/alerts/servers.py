"""Real servers for tests, each in a process of its own on a free port of this machine."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import subprocess
import time
from typing import TYPE_CHECKING, TypeVar

from tests.alerts import tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEADLINE_SECONDS = 60.0
Value = TypeVar("Value")


class Server:
    """A server that answers on `port`."""

    def __init__(self, port: int, process: subprocess.Popen[bytes]) -> None:
        self.port = port
        self.process = process

    def ask(self, method: str, path: str, body: object = None) -> object:
        """Return the JSON that the server answers, None where it answers nothing; fail on an error."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"} if text else {})
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, (path, said[:500])
        return json.loads(said) if said.startswith((b"{", b"[")) else None

    def is_ready(self) -> bool:
        """Return whether the server says that it is ready; fail where it has ended."""
        assert self.process.poll() is None, "the server ended at its start"
        with contextlib.suppress(OSError, AssertionError, http.client.HTTPException):
            self.ask("GET", "/-/ready")
            return True
        return False


def until(found: Callable[[], Value], what: str) -> Value:
    """Return the first true answer of `found`, asked until the deadline."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {DEADLINE_SECONDS:.0f} s")


@contextlib.contextmanager
def prometheus(folder: Path, config: Path) -> Iterator[Server]:
    """Run Prometheus over the blocks in `folder`."""
    with _running(
        tools.program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={folder}",
        "--storage.tsdb.retention.time=30d",
    ) as server:
        yield server


@contextlib.contextmanager
def alertmanager(folder: Path, config: Path) -> Iterator[Server]:
    """Run Alertmanager with its data in `folder`, alone (no cluster)."""
    with _running(
        tools.program("prometheus-alertmanager", "alertmanager"),
        f"--config.file={config}",
        f"--storage.path={folder}",
        "--cluster.listen-address=",
    ) as server:
        yield server


@contextlib.contextmanager
def _running(*command: str) -> Iterator[Server]:
    port = _free_port()
    arguments = [*command, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = Server(port, process)
    try:
        until(server.is_ready, f"{command[0]} ready")
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port
