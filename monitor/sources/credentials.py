"""What a target is shown with a request: headers, token, certificate; files are read again when changed."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yarl import URL

    from monitor.sources.targets import Target, Tls

ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"

_Signature = tuple[tuple[int, int, int], ...]


class Credentials:
    """The requests of one target."""

    def __init__(self, target: Target, user_agent: str) -> None:
        self._headers = {
            "Accept": ACCEPT,
            "Accept-Encoding": "identity",
            "User-Agent": user_agent,
            "X-Prometheus-Scrape-Timeout-Seconds": f"{target.timeout:g}",
            **dict(target.headers),
        }
        if target.bearer_token is not None:
            self._headers["Authorization"] = f"Bearer {target.bearer_token}"
        self._file = target.bearer_token_file
        self._read: _Signature = ()
        self._requests: dict[URL, bytes] = {}

    def request(self, url: URL) -> bytes:
        """Return the request to send now; OSError or ValueError where the token file cannot be read."""
        if self._file is not None:
            signature = _signature(self._file)
            if signature != self._read:
                self._headers["Authorization"] = f"Bearer {Path(self._file).read_text().strip()}"
                self._read = signature
                self._requests.clear()
        request = self._requests.get(url)
        if request is None:
            request = self._requests[url] = _request(url, self._headers)
        return request


class Certificates:
    """TLS contexts by their description, shared by targets and made again when a file has changed."""

    def __init__(self) -> None:
        self._contexts: dict[Tls, tuple[_Signature, ssl.SSLContext]] = {}

    def context(self, tls: Tls) -> ssl.SSLContext:
        """Return the context for `tls`; raises OSError (ssl.SSLError is one) where a file cannot be used."""
        files = [file for file in (tls.ca_file, tls.cert_file, tls.key_file) if file]
        signature = _signature(*files)
        known = self._contexts.get(tls)
        if known is None or known[0] != signature:
            known = (signature, _context(tls))
            self._contexts[tls] = known
        return known[1]


def _request(url: URL, headers: dict[str, str]) -> bytes:
    """Return the bytes of a GET request; user and password of the URL become a header."""
    sent = {"Host": url.raw_authority.rpartition("@")[2], **headers}
    if url.user is not None:
        pair = f"{url.user}:{url.password or ''}".encode()
        sent.setdefault("Authorization", f"Basic {base64.b64encode(pair).decode()}")
    lines = [f"GET {url.raw_path_qs or '/'} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header has a line break in it, expected none")
    return "\r\n".join([*lines, "", ""]).encode()


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
