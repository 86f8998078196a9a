"""Asks a target for its page once and says what came, page or failure, never by an exception."""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
from typing import TYPE_CHECKING, Self

import aiohttp
from yarl import URL

import monitor
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.sources import bodies, credentials, lookups, probing, targets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from monitor.core.pages.scrapes import FailureReason
    from monitor.sources.targets import Beside, Target

USER_AGENT = f"specmon/{monitor.__version__}"
ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
LONGEST_IDLE_SECONDS = 65.0  # a connection that rested longer may be dead without either side knowing
MOST_REDIRECTS = 3
LARGE_BYTES = 16 << 10  # packed; those of usual engines are smaller
LARGEST_BESIDE_BYTES = 4 << 20  # what stands beside a page is small, and is kept
_OK = 200
_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_UNAUTHORISED = frozenset((401, 403))
_FRAMINGS = ("", "identity", "chunked")
# The deadline is one for all that a scrape asks, so aiohttp keeps none of its own.
_NO_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


class _Peer:
    """What is kept of a target between requests: its headers, and where its page was found."""

    __slots__ = ("credentials", "places", "target", "url")

    def __init__(self, target: Target, certificates: credentials.Certificates) -> None:
        self.target = target
        self.credentials = credentials.Credentials(target, certificates, _headers(target))
        self.places = probing.places(target)
        self.url = self.places[0]


def _headers(target: Target) -> dict[str, str]:
    return {
        "Accept": ACCEPT,
        "Accept-Encoding": "identity",
        "User-Agent": USER_AGENT,
        "X-Prometheus-Scrape-Timeout-Seconds": f"{target.timeout:g}",
    }


class Client:
    """Connections to targets; `async with` closes them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._certificates = credentials.Certificates()
        self._peers: dict[str, _Peer] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._peers.clear()
        if self._session is not None:
            await self._session.close()
            self._session = None
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
        """Drop what is kept of a target: where its page had moved to, the token as read.

        A connection that failed is closed already, one that rests closes by itself.
        """
        self._peers.pop(target.name, None)

    def _peer(self, target: Target) -> _Peer:
        peer = self._peers.get(target.name)
        if peer is None or peer.target is not target:
            peer = self._peers[target.name] = _Peer(target, self._certificates)
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
            peer.url = url
            page = await self._page(peer, url, deadline)
            if isinstance(page, Failure):
                if page.reason != "http_status":
                    silent.add(url.origin())
                failure = page
            elif await asyncio.to_thread(probing.is_engine, page):
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
                return await self._found(peer, url, limit)
        except TimeoutError:
            reason: FailureReason = "timeout"
            detail = f"no whole page within {peer.target.timeout:g}s"
        except (bodies.RefusedBodyError, credentials.UnusableCredentialsError) as error:
            reason, detail = error.reason, str(error)
        except bodies.TooLongError as error:
            refused = bodies.too_large(str(error), limit)
            reason, detail = refused.reason, str(refused)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason, detail = _explained(error)
        return Failure(reason, f"{targets.shown(url)}: {detail}")

    async def _found(self, peer: _Peer, url: URL, limit: int) -> bytes:
        """Return the page, after redirects within the same host and port."""
        asked = url
        for _ in range(MOST_REDIRECTS + 1):
            options = peer.credentials.options()
            async with self._connections().get(credentials.address(url), **options) as answer:
                if answer.status == _OK:
                    if asked is peer.url:
                        peer.url = url
                    return await _page(answer, limit)
                if answer.status not in _REDIRECTS:
                    raise _refused(answer)
                url = _redirected(url, answer)
        raise bodies.RefusedBodyError("redirect", f"more than {MOST_REDIRECTS} redirects, expected a page")

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=lookups.connector(limit=0, keepalive=LONGEST_IDLE_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_NO_TIMEOUT,
                auto_decompress=False,  # `bodies` unpacks no further than the limit
            )
        return self._session


async def _page(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    framing = answer.headers.get("Transfer-Encoding", "").lower()
    if framing not in _FRAMINGS:
        detail = f"read Transfer-Encoding {framing[:40]!r}, expected chunked or none"
        raise bodies.RefusedBodyError("encoding", detail)
    packing = answer.headers.get("Content-Encoding", "")
    body = await bodies.received(answer, limit)
    if len(body) < LARGE_BYTES:
        return bodies.unpacked(body, packing, limit)
    # Beside the event loop: a small packed body can be megabytes of page.
    return await asyncio.to_thread(bodies.unpacked, body, packing, limit)


def _refused(answer: aiohttp.ClientResponse) -> bodies.RefusedBodyError:
    status = f"{answer.status} {answer.reason or ''}".strip()
    if answer.status in _UNAUTHORISED:
        return bodies.RefusedBodyError("unauthorised", f"read status {status}, expected to be let in")
    return bodies.RefusedBodyError("http_status", f"read status {status}, expected 200")


def _redirected(url: URL, answer: aiohttp.ClientResponse) -> URL:
    """Return where to go; only within the same host and port, since headers and tokens go along."""
    location = answer.headers.get("Location", "")
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
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "dns", f"the host name cannot be resolved ({error.os_error.strerror})"
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        found = error.os_error if isinstance(error, aiohttp.ClientSSLError) else error
        return "tls", f"no TLS connection ({_tls_message(found)})"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "connection", "the connection was closed before the page had ended"
    if isinstance(error, aiohttp.ClientResponseError):
        return "connection", f"read what is no HTTP/1.1 answer ({_first_line(error.message)})"
    if isinstance(error, OSError):
        return "connection", f"no connection ({_system_message(error)})"
    return "connection", f"no connection ({_first_line(str(error)) or type(error).__name__})"


def _tls_message(error: OSError) -> str:
    """Return OpenSSL's own words, and what it found wrong with a certificate."""
    verified = f": {error.verify_message}" if isinstance(error, ssl.SSLCertVerificationError) else ""
    reason = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return f"{reason or error}{verified}"


def _first_line(message: str) -> str:
    return message.strip().partition("\n")[0].strip().rstrip(":")


def _system_message(error: OSError) -> str:
    """Return the system's own words, such as "Connection refused", where the error has its number."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)
