"""What a server is shown with a request: headers, token, certificate; files are read again when changed."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict

from aiohttp.hdrs import AUTHORIZATION
from multidict import CIMultiDict
from yarl import URL

from monitor.sources import targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from monitor.sources.targets import Tls

_Signature = tuple[tuple[int, int, int], ...]


class Addressee(Protocol):
    """Whom requests go to: a target, a query API, a receiver of notifications."""

    @property
    def url(self) -> str:
        """Where it is; a user and password in it are sent as a header."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What is sent besides; these win over all others but the token."""

    @property
    def bearer_token(self) -> str | None:
        """The token to send."""

    @property
    def bearer_token_file(self) -> str | None:
        """The file with the token to send; wins over `bearer_token`."""

    @property
    def tls(self) -> Tls | None:
        """How its certificate is checked, and ours."""


class UnusableCredentialsError(Exception):
    """A token or certificate that cannot be sent; `reason` for machines, the message for people."""

    def __init__(self, reason: Literal["unauthorised", "tls"], message: str) -> None:
        super().__init__(message)
        self.reason: Literal["unauthorised", "tls"] = reason


class RequestOptions(TypedDict, total=False):
    """What aiohttp is given with each request to a server."""

    headers: Mapping[str, str]
    allow_redirects: bool
    ssl: ssl.SSLContext
    server_hostname: str | None


class Certificates:
    """TLS contexts by their description, shared by servers and made again when a file has changed."""

    def __init__(self) -> None:
        self._contexts: dict[Tls, tuple[_Signature, ssl.SSLContext]] = {}

    def context(self, tls: Tls) -> ssl.SSLContext:
        """Return the context for `tls`; raises UnusableCredentialsError where a file cannot be used."""
        files = [file for file in (tls.ca_file, tls.cert_file, tls.key_file) if file]
        try:
            signature = _signature(*files)
            known = self._contexts.get(tls)
            if known is None or known[0] != signature:
                known = self._contexts[tls] = (signature, _context(tls))
        except OSError as error:  # ssl.SSLError is one
            raise UnusableCredentialsError("tls", f"a certificate file cannot be used ({error})") from None
        return known[1]


class Credentials:
    """The headers and the TLS of one server; `common` are headers that its own replace."""

    def __init__(self, server: Addressee, certificates: Certificates, common: Mapping[str, str]) -> None:
        self._certificates = certificates
        self._tls = (server.tls or targets.Tls()) if server.url.startswith("https:") else None
        self._file = server.bearer_token_file
        self._read: _Signature = ()
        self._headers = CIMultiDict(common)  # a name replaces itself however it is spelt
        for name, value in (*_from_url(server.url), *server.headers):
            self._headers[name] = value
        if server.bearer_token:
            self._headers[AUTHORIZATION] = f"Bearer {server.bearer_token}"

    def options(self) -> RequestOptions:
        """Return what goes with the next request, without redirects; raises UnusableCredentialsError."""
        if self._file:
            self._read_token(self._file)
        options = RequestOptions(headers=self._headers, allow_redirects=False)
        if self._tls is not None:
            options["ssl"] = self._certificates.context(self._tls)
            options["server_hostname"] = self._tls.server_name or None
        return options

    def _read_token(self, file: str) -> None:
        try:
            signature = _signature(file)
            if signature != self._read:
                self._headers[AUTHORIZATION] = f"Bearer {_token(file)}"
                self._read = signature
        except (OSError, ValueError) as error:
            detail = f"the token file {file} cannot be read ({error})"
            raise UnusableCredentialsError("unauthorised", detail) from None


def _token(file: str) -> str:
    token = Path(file).read_text(encoding="utf-8").strip()
    if any(mark in token for mark in "\r\n\0"):
        raise ValueError("it has a line break in it, expected none")
    return token


def address(url: str | URL) -> URL:
    """Return where to ask: the URL without user and password, which Credentials send as a header."""
    return URL(url).with_user(None)


def _from_url(url: str) -> Iterator[tuple[str, str]]:
    parsed = URL(url)
    if parsed.user is not None:
        pair = f"{parsed.user}:{parsed.password or ''}".encode()
        yield AUTHORIZATION, f"Basic {base64.b64encode(pair).decode()}"


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca_file or None)
    if tls.cert_file:
        context.load_cert_chain(tls.cert_file, tls.key_file or None)
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _signature(*files: str) -> _Signature:
    """Return what changes when one of the files is written or replaced."""
    stats = [Path(file).stat() for file in files]
    return tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats)
