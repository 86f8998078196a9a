"""What stands before every path: host, origin, sizes, rate, users, and the token of changes."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web

from monitor.web.door import passwords
from monitor.web.door.listening import Connection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from monitor.settings.door import Door
    from monitor.web.door.webfile import WebFile

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LONGEST_QUERY = 2048
MOST_PARAMETERS = 20
LARGEST_BODY_BYTES = 64 << 10
MOST_AT_ONCE = 64  # requests; more would only wait for the threads that answer them
ANSWER_SECONDS = 30.0
IDLE_SECONDS = 30.0
TOKEN_HEADER = "X-Specmon-Token"  # noqa: S105 - a name
_READING = frozenset({"GET", "HEAD"})
_ALIVE = "/-/healthy"


@dataclass(frozen=True, slots=True)
class Rules:
    """Who may ask what. `hosts` are the names that a request may be sent to, None: any.

    `token` or the file at `token_file` opens what changes something; without either nobody may.
    """

    hosts: frozenset[str] | None = None
    token: str = ""
    token_file: str = ""


class Guard:
    """The outermost part of the application. `clock` is monotonic, in seconds."""

    def __init__(self, rules: Rules, file: WebFile, clock: Callable[[], float] = time.monotonic) -> None:
        self._rules, self._file, self._clock = rules, file, clock
        self._passwords = passwords.Passwords()
        self._at_once = 0
        self._tokens, self._filled_at = math.inf, clock()

    def close(self) -> None:
        """Let the thread for passwords end."""
        self._passwords.close()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer what is refused here; hand on the rest, so many at once and each for so long."""
        _allow(request, ANSWER_SECONDS)
        door = self._file.now
        try:
            refusal = self._misshapen(request) or self._overrun(door) or await self._stranger(request, door)
            if refusal is None:
                refusal = self._full(request)
            response = refusal or await self._handled(request, handler)
        finally:
            _allow(request, IDLE_SECONDS)
        for name, value in door.http_server_config.headers.items():
            response.headers[name] = value
        return response

    async def _handled(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._at_once += 1
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await handler(request)
        except TimeoutError:
            return _refused(503, "there was no answer in time", {"Retry-After": "5"})
        finally:
            self._at_once -= 1

    def _full(self, request: web.Request) -> web.Response | None:
        if self._at_once < MOST_AT_ONCE or request.path.endswith(_ALIVE):
            return None
        return _refused(503, f"{self._at_once} requests are being answered", {"Retry-After": "1"})

    def _misshapen(self, request: web.Request) -> web.Response | None:
        if len(request.query_string) > LONGEST_QUERY or len(request.query) > MOST_PARAMETERS:
            return _refused(414, f"expected a query of at most {LONGEST_QUERY} characters")
        if (request.content_length or 0) > LARGEST_BODY_BYTES:
            return _refused(413, f"expected a body of at most {LARGEST_BODY_BYTES} bytes")
        if self._rules.hosts is not None and not _is_host(request.host, self._rules.hosts):
            return _refused(421, "this name is not one of this monitor's (web.allowed_hosts)")
        if request.method not in _READING and _is_cross_site(request):
            return _refused(403, "sent by a page of another site")
        return None

    def _overrun(self, door: Door) -> web.Response | None:
        """Take one token of the bucket, which gets one each interval up to `burst`."""
        limit = door.rate_limit
        if not limit.interval:
            return None
        now = self._clock()
        gained = (now - self._filled_at) / limit.interval
        self._tokens = min(max(limit.burst, 1), self._tokens + gained)
        self._filled_at = now
        if self._tokens < 1:
            return _refused(429, "too many requests (rate_limit)", {"Retry-After": "1"})
        self._tokens -= 1
        return None

    async def _stranger(self, request: web.Request, door: Door) -> web.Response | None:
        if door.tls_server_config and door.tls_server_config.client_allowed_sans:
            names = door.tls_server_config.client_allowed_sans
            if not _has_name(request, names):
                return _refused(403, "the certificate has none of the expected names")
        if request.method not in _READING:
            refusal = self._may_change(request, door)
            if refusal is not None:
                return refusal
        return await self._user(request, door)

    def _may_change(self, request: web.Request, door: Door) -> web.Response | None:
        if self._is_token(request):
            return None
        how = f"{TOKEN_HEADER}: …" if door.basic_auth_users else "Authorization: Bearer …"
        return _refused(401, f"expected the token of web.admin_token ({how})", {"WWW-Authenticate": "Bearer"})

    def _is_token(self, request: web.Request) -> bool:
        expected = self._token()
        scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
        given = request.headers.get(TOKEN_HEADER) or (bearer.strip() if scheme.lower() == "bearer" else "")
        return bool(expected) and bool(given) and passwords.same(given, expected)

    def _token(self) -> str:
        if not self._rules.token_file:
            return self._rules.token
        try:
            return Path(self._rules.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return ""

    async def _user(self, request: web.Request, door: Door) -> web.Response | None:
        if not door.basic_auth_users:
            return None
        try:
            if await self._passwords.accept(request.headers.get("Authorization", ""), door.basic_auth_users):
                return None
        except passwords.BusyError:
            return _refused(503, "too many passwords wait to be looked at", {"Retry-After": "1"})
        return _refused(401, "expected a user and password", {"WWW-Authenticate": 'Basic realm="specmon"'})


def _allow(request: web.Request, seconds: float) -> None:
    if isinstance(request.protocol, Connection):
        request.protocol.allow(seconds)


def _refused(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(status=status, text=f"{status}: {message}\n", headers=headers)


def _is_host(given: str, hosts: frozenset[str]) -> bool:
    """Return whether a Host header names us: an address says so by itself, a name must be known.

    A page of a stranger can have its own name point to this address, and then read us as its own site.
    """
    try:
        name = urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in hosts
    return True


def _is_cross_site(request: web.Request) -> bool:
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        return True
    origin = request.headers.get("Origin")
    return origin is not None and urlsplit(origin).netloc != request.host


def _has_name(request: web.Request, names: tuple[str, ...]) -> bool:
    shown = (request.transport.get_extra_info("peercert") if request.transport else None) or {}
    return any(value in names for _, value in shown.get("subjectAltName", ()))
