"""Asks a target for its page once and says what came, page or failure, never by an exception."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from typing import TYPE_CHECKING, Self

from yarl import URL

import monitor
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.sources import bodies, credentials, probing, targets, wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from monitor.core.pages.scrapes import FailureReason
    from monitor.sources.targets import Beside, Target
    from monitor.sources.wire import Answer, Connection

USER_AGENT = f"specmon/{monitor.__version__}"
LONGEST_IDLE_SECONDS = 65.0  # a connection that rested longer may be dead without either side knowing
MOST_REDIRECTS = 3
LARGEST_BESIDE_BYTES = 4 << 20  # what stands beside a page is small, and is kept
_OK = 200
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_UNAUTHORISED = frozenset((401, 403))


class _Peer:
    """What is kept of a target between requests: its headers, where its page was found, its connection."""

    __slots__ = ("connection", "credentials", "places", "target", "url", "used_at")

    def __init__(self, target: Target) -> None:
        self.target = target
        self.credentials = credentials.Credentials(target, USER_AGENT)
        self.places = probing.places(target)
        self.url = self.places[0]
        self.connection: Connection | None = None
        self.used_at = 0.0

    def take(self, now: float) -> Connection | None:
        """Return the connection if it can be used again; whoever takes it has it alone."""
        connection, self.connection = self.connection, None
        if connection is None or (connection.reusable and now - self.used_at < LONGEST_IDLE_SECONDS):
            return connection
        connection.close()
        return None

    def drop(self) -> None:
        """Close the connection, which is to another place than the next request."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def give(self, connection: Connection, now: float) -> None:
        """Keep a connection for the next request, if it is good for one."""
        if connection.reusable and self.connection is None:
            self.connection, self.used_at = connection, now
        else:
            connection.close()


class Client:
    """Connections to targets; `async with` closes them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._certificates = credentials.Certificates()
        self._peers: dict[str, _Peer] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in list(self._peers.values()):
            self.forget(peer.target)
        await asyncio.sleep(0)  # the event loop closes the sockets in its next turn

    async def fetch(self, target: Target, beside: Sequence[Beside] = ()) -> Scrape:
        """Return the page of `target`, and those of the pages `beside` that answered, within one deadline."""
        loop = asyncio.get_running_loop()
        at = self._clock()
        started = loop.time()
        deadline = started + target.timeout
        peer = self._peer(target)
        if len(peer.places) > 1:
            page = await self._found_engine(peer, deadline)
        else:
            page = await self._page(peer, peer.url, deadline)
        if isinstance(page, Failure):
            self.forget(target)
            return Scrape(target.name, at, failure=page, duration=loop.time() - started)
        others = {}
        for other in beside:
            answer = await self._page(peer, peer.url.join(URL(other.path)), deadline, LARGEST_BESIDE_BYTES)
            if not isinstance(answer, Failure):
                others[other.path] = answer
        return Scrape(target.name, at, body=page, beside=others, duration=loop.time() - started)

    def forget(self, target: Target) -> None:
        """Drop what is kept of a target: its connection, where its page had moved to, the token as read."""
        peer = self._peers.pop(target.name, None)
        if peer is not None and peer.connection is not None:
            peer.connection.close()

    def _peer(self, target: Target) -> _Peer:
        peer = self._peers.get(target.name)
        if peer is None or peer.target is not target:
            self.forget(target)
            peer = self._peers[target.name] = _Peer(target)
        return peer

    async def _found_engine(self, peer: _Peer, deadline: float) -> bytes | Failure:
        """Return the first engine's page among the target's places, which is its place from now on.

        Without one: the first page of any other kind, and without that the last failure. Where nothing
        answers at a port, its other paths are not tried.
        """
        other: tuple[URL, bytes] | None = None
        failure = Failure("connection", f"{targets.shown(peer.target.url)}: nowhere to look")
        silent: set[URL] = set()
        for url in peer.places:
            if url.origin() in silent:
                continue
            if url.origin() != peer.url.origin():
                peer.drop()
            peer.url = url
            page = await self._page(peer, url, deadline)
            if isinstance(page, Failure):
                if page.reason != "http_status":
                    silent.add(url.origin())
                failure = page
            elif probing.is_engine(page):
                peer.places = (peer.url,)
                return page
            else:
                other = other or (peer.url, page)
        if other is None:
            return failure
        peer.url, page = other
        return page

    async def _page(
        self, peer: _Peer, url: URL, deadline: float, largest: int = sys.maxsize
    ) -> bytes | Failure:
        limit = min(peer.target.body_limit, largest)
        try:
            async with asyncio.timeout_at(deadline):
                return bodies.unpacked(await self._found(peer, url, limit), limit)
        except TimeoutError:
            reason: FailureReason = "timeout"
            detail = f"no whole page within {peer.target.timeout:g}s"
        except bodies.RefusedBodyError as error:
            reason, detail = error.reason, str(error)
        except wire.TooLargeError as error:
            refused = bodies.too_large(str(error), limit)
            reason, detail = refused.reason, str(refused)
        except (OSError, wire.NotHttpError, ValueError) as error:
            reason, detail = _explained(error)
        return Failure(reason, f"{targets.shown(url)}: {detail}")

    async def _found(self, peer: _Peer, url: URL, limit: int) -> Answer:
        """Return the answer with a page, after redirects within the same host and port."""
        asked = url
        for _ in range(MOST_REDIRECTS + 1):
            answer = await self._answer(peer, url, limit)
            if answer.status == _OK:
                if asked is peer.url:
                    peer.url = url
                return answer
            if answer.status not in _REDIRECTS:
                raise _refused(answer)
            url = _redirected(url, answer)
        raise bodies.RefusedBodyError("redirect", f"more than {MOST_REDIRECTS} redirects, expected a page")

    async def _answer(self, peer: _Peer, url: URL, limit: int) -> Answer:
        request = _request(peer, url)
        loop = asyncio.get_running_loop()
        connection = peer.take(loop.time())
        if connection is not None:
            try:
                answer = await connection.get(request, limit)
            except wire.ClosedError as error:
                # The server closed the resting connection just as the request went out: ask once more.
                if not error.untouched:
                    raise
            else:
                peer.give(connection, loop.time())
                return answer
        tls, server_name = self._tls(peer.target, url)
        connection = await wire.connect(url.host or "", url.port or 0, tls, server_name)
        answer = await connection.get(request, limit)
        peer.give(connection, loop.time())
        return answer

    def _tls(self, target: Target, url: URL) -> tuple[ssl.SSLContext | None, str | None]:
        if url.scheme != "https":
            return None, None
        tls = target.tls or targets.Tls()
        try:
            return self._certificates.context(tls), tls.server_name or None
        except OSError as error:
            raise bodies.RefusedBodyError("tls", f"a certificate file cannot be used ({error})") from None


def _request(peer: _Peer, url: URL) -> bytes:
    try:
        return peer.credentials.request(url)
    except (OSError, ValueError) as error:
        detail = f"the token file {peer.target.bearer_token_file} cannot be read ({error})"
        raise bodies.RefusedBodyError("unauthorised", detail) from None


def _refused(answer: Answer) -> bodies.RefusedBodyError:
    status = f"{answer.status} {answer.reason}".strip()
    if answer.status in _UNAUTHORISED:
        return bodies.RefusedBodyError("unauthorised", f"read status {status}, expected to be let in")
    return bodies.RefusedBodyError("http_status", f"read status {status}, expected 200")


def _redirected(url: URL, answer: Answer) -> URL:
    """Return where to go; only within the same host and port, since headers and tokens go along."""
    location = answer.headers.get("location", "")
    try:
        there = url.join(URL(location))
    except ValueError:
        there = None
    if not location or there is None:
        detail = f"read status {answer.status} to {location[:80]!r}, expected a page or where it is"
        raise bodies.RefusedBodyError("redirect", detail)
    if there.origin() != url.origin():
        detail = (
            f"redirected to {targets.shown(there)!r}, not followed: expected a page on the same host and port"
        )
        raise bodies.RefusedBodyError("redirect", detail)
    return there


def _explained(error: Exception) -> tuple[FailureReason, str]:
    """Return the reason and sentence for what a connection raised."""
    if isinstance(error, socket.gaierror):
        return "dns", f"the host name cannot be resolved ({error.strerror})"
    if isinstance(error, ssl.SSLError):
        return "tls", f"no TLS connection ({error.reason or error}{_verification(error)})"
    if isinstance(error, wire.ClosedError):
        return "connection", str(error)
    if isinstance(error, OSError):
        return "connection", f"no connection ({_system_message(error)})"
    return "connection", str(error)


def _verification(error: ssl.SSLError) -> str:
    return f": {error.verify_message}" if isinstance(error, ssl.SSLCertVerificationError) else ""


def _system_message(error: OSError) -> str:
    """Return the system's own words, such as "Connection refused", where the error has its number."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)
