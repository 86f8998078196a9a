"""A real browser, driven over its own debugging protocol; no package beside aiohttp is needed."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import ClientSession, WSMsgType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from aiohttp import ClientWebSocketResponse

COMMAND = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
_PATIENCE = 60.0


class Tab:
    """One page of the browser."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._said: list[dict[str, dict[str, str]]] = []
        self._shown: set[str] = set()
        self._origin = ""
        self._asked: set[str] = set()

    @property
    def complaints(self) -> list[str]:
        """What the browser complained about, but not of pages that were left: their servers may be gone."""
        return [json.dumps(said) for said in self._said if not self._late(said)]

    @property
    def outside(self) -> set[str]:
        """Where something was loaded from that is none of the pages' own origins."""
        return {origin for origin in self._asked if origin.startswith("http")} - self._shown

    async def call(self, method: str, **parameters: object) -> dict[str, object]:
        """Return the result of a protocol method, noting what the browser complains about meanwhile."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        return await self._until(self._number)

    async def show(self, url: str, width: int, *, dark: bool = False) -> None:
        """Load a page at a width as a telephone or a screen would, and wait until it is complete."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        for domain in ("Page", "Log", "Runtime", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        self._origin = _origin(url)
        self._shown.add(self._origin)
        await self.call("Page.navigate", url=url)
        await self._until("Page.loadEventFired")

    async def press(self, key: str) -> None:
        """Press a key such as Tab or Enter."""
        text = {"Enter": "\r"}.get(key)
        codes = {"Tab": 9, "Enter": 13}
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
                **(more if kind == "keyDown" else {}),
            )

    async def run_script(self, script: str) -> object:
        """Return the value of a promise on the page."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        result = answer["result"]
        assert isinstance(result, dict)
        assert "exceptionDetails" not in answer, answer
        return result.get("value")

    async def value(self, script: str) -> object:
        """Return the value of an expression on the page."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        result = answer["result"]
        assert isinstance(result, dict)
        return result.get("value")

    async def _until(self, wanted: int | str) -> dict[str, object]:
        async with asyncio.timeout(_PATIENCE):
            async for message in self._socket:
                assert message.type is WSMsgType.TEXT
                said = json.loads(message.data)
                if said.get("method") in {"Log.entryAdded", "Runtime.exceptionThrown"}:
                    self._said.append(said["params"])
                if said.get("method") == "Network.requestWillBeSent":
                    self._asked.add(_origin(said["params"]["request"]["url"]))
                if wanted in {said.get("id"), said.get("method")}:
                    assert "error" not in said, said
                    return dict(said.get("result") or said.get("params") or {})
        raise AssertionError(f"the browser closed the connection before {wanted!r}")

    def _late(self, said: dict[str, dict[str, str]]) -> bool:
        origin = _origin(said.get("entry", {}).get("url", ""))
        return origin != self._origin and origin in self._shown


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@asynccontextmanager
async def tab(profile: Path) -> AsyncIterator[Tab]:
    """Start a browser with an empty profile and yield a page of it; it chooses its own free port."""
    assert COMMAND is not None
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *_FLAGS,
        "--remote-debugging-port=0",
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        host = await _listening(process)
        async with ClientSession() as session:
            async with session.get(f"http://{host}/json/list") as response:
                pages = await response.json()
            address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
            async with session.ws_connect(address, max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        process.terminate()
        await process.communicate()


async def _listening(process: asyncio.subprocess.Process) -> str:
    """Return the host and port that the browser says it listens on."""
    assert process.stderr is not None
    async with asyncio.timeout(_PATIENCE):
        async for line in process.stderr:
            _, found, rest = line.decode(errors="replace").partition("DevTools listening on ws://")
            if found:
                return rest.split("/")[0]
    raise AssertionError("the browser ended before it listened")
