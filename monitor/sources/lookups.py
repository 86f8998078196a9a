"""Addresses of host names, looked up on threads of their own: a name that takes long delays no other.

The system's lookup cannot be given up, and holds its thread for as long as the name servers are silent. So a
name is looked up once at a time, whoever asks; one that was slow waits behind other slow ones only; and what
a name stood for lately is used while its lookup takes longer than `PATIENCE_SECONDS`. Nothing here holds up
the end of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    Key = tuple[str, int]

FRESH_SECONDS = 10.0  # so long an answer is used without a new lookup
KEPT_SECONDS = 300.0  # so long it is used where the new lookup is slow
PATIENCE_SECONDS = 0.5
MOST_KNOWN = 10_000  # names; discovery may bring new ones for ever
LOOKUPS_AT_ONCE = 32
SLOW_LOOKUPS_AT_ONCE = 16
MOST_THREADS = 256
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


@dataclass(slots=True)
class _Name:
    """What is known of a name: its addresses (family, protocol, host), since when (loop time), its pace."""

    addresses: Sequence[tuple[int, int, str]] = ()
    at: float = float("-inf")
    slow: bool = False
    lookup: asyncio.Task[None] | None = field(default=None, repr=False)


def connector(*, limit: int = 100, keepalive: float | None = 15.0) -> aiohttp.TCPConnector:
    """Return connections, `limit` at once (0: any number), to addresses found here.

    `keepalive` is how many seconds one may rest, None: each is closed after its request.
    """
    rest: dict[str, object] = {"force_close": True} if keepalive is None else {"keepalive_timeout": keepalive}
    return aiohttp.TCPConnector(resolver=Lookups(), use_dns_cache=False, limit=limit, **rest)  # type: ignore[arg-type]


class Lookups(AbstractResolver):
    """aiohttp's resolver; used on one event loop."""

    def __init__(self) -> None:
        self._names: dict[Key, _Name] = {}
        self._quick = asyncio.Semaphore(LOOKUPS_AT_ONCE)
        self._slow = asyncio.Semaphore(SLOW_LOOKUPS_AT_ONCE)
        self._threads = asyncio.Semaphore(MOST_THREADS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of `host`; raises OSError where it has none."""
        name = self._name((host, int(family)))
        now = asyncio.get_running_loop().time()
        if now - name.at > FRESH_SECONDS:
            await self._renewed(name, (host, int(family)), now)
        return [
            ResolveResult(hostname=host, host=found, port=port, family=kind, proto=proto, flags=_NUMERIC)
            for kind, proto, found in name.addresses
        ]

    async def close(self) -> None:
        """Wait for nothing any more."""
        for name in self._names.values():
            if name.lookup is not None:
                name.lookup.cancel()
        self._names.clear()

    def _name(self, key: Key) -> _Name:
        """Return what is known of a name, which is now the last one to be forgotten."""
        name = self._names.pop(key, None) or _Name()
        self._names[key] = name
        if len(self._names) > MOST_KNOWN:
            del self._names[next(iter(self._names))]
        return name

    async def _renewed(self, name: _Name, key: Key, now: float) -> None:
        """Wait for the lookup of a name, no longer than is needed where its last answer will do."""
        if name.lookup is None:
            name.lookup = asyncio.ensure_future(self._looked_up(name, key))
        usable = now - name.at <= KEPT_SECONDS
        try:
            async with asyncio.timeout(PATIENCE_SECONDS if usable else None):
                await asyncio.shield(name.lookup)
        except OSError as error:
            if not usable or not _is_passing(error):
                raise

    async def _looked_up(self, name: _Name, key: Key) -> None:
        try:
            async with self._threads:
                name.addresses = await self._in_lane(name, key)
                name.at = asyncio.get_running_loop().time()
        except OSError as error:
            if not _is_passing(error):
                name.at = float("-inf")
            raise
        finally:
            name.lookup = None

    async def _in_lane(self, name: _Name, key: Key) -> Sequence[tuple[int, int, str]]:
        """Return the addresses; a lookup that turns out slow gives its place among the quick ones back."""
        if name.slow:
            async with self._slow:
                running = _on_a_thread(key)
                await asyncio.wait([running], timeout=PATIENCE_SECONDS)
                name.slow = not running.done()
                return await running
        async with self._quick:
            running = _on_a_thread(key)
            await asyncio.wait([running], timeout=PATIENCE_SECONDS)
        name.slow = not running.done()
        return await running


def _is_passing(error: OSError) -> bool:
    """Return whether an error says nothing of the name: no name server answered in time."""
    return isinstance(error, TimeoutError) or error.errno == socket.EAI_AGAIN


def _on_a_thread(key: Key) -> asyncio.Future[Sequence[tuple[int, int, str]]]:
    """Return what will be the addresses. The thread is a daemon: the process may end before it does."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[tuple[int, int, str]]] = loop.create_future()

    def tell(addresses: Sequence[tuple[int, int, str]], error: Exception | None) -> None:
        if answer.done():
            return
        if error is None:
            answer.set_result(addresses)
        else:
            answer.set_exception(error)

    def look_up() -> None:
        found: Sequence[tuple[int, int, str]] = ()
        failure: Exception | None = None
        try:
            found = _addresses(*key)
        except (OSError, UnicodeError) as error:
            failure = error if isinstance(error, OSError) else OSError(None, str(error))
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, found, failure)

    threading.Thread(target=look_up, name=f"lookup {key[0]}", daemon=True).start()
    return answer


def _addresses(host: str, family: int) -> list[tuple[int, int, str]]:
    found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM, 0, socket.AI_ADDRCONFIG)
    return [(int(kind), proto, _numeric(kind, address)) for kind, _, proto, _, address in found]


def _numeric(family: int, address: tuple[object, ...]) -> str:
    """Return the address as text; one of a link alone needs to say of which link."""
    scope = address[3] if family == socket.AF_INET6 and len(address) > 3 else 0  # noqa: PLR2004
    return f"{address[0]}%{scope}" if scope else str(address[0])
