"""One HTTP/1.1 connection that asks with GET and reads whole answers of a bounded size.

A scrape is one small request and one page, some hundred times a second in one process. A general client
costs as much as reading and judging the page does (measured, 200 targets and pages of 48 KB: 350 to 440 µs
CPU a scrape with aiohttp's, 280 to 320 with this one, of which 220 to 265 are the sockets and the event
loop). So this is the part of HTTP that a scrape needs: no cookies, no proxies, no streaming, no pipelining.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

LONGEST_HEAD_BYTES = 64 << 10

_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: ([^\r\n]*))?$")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?$")
_LENGTH = re.compile(r"\d{1,18}$")
_FIRST_FINAL = 200
_BODILESS = frozenset((204, 304))


class TooLargeError(Exception):
    """The body is larger than was allowed; the message says how that was seen."""


class NotHttpError(Exception):
    """What came is no HTTP/1.1 answer; the message says what was read."""


class ClosedError(ConnectionError):
    """The connection ended before the answer did; `untouched` if nothing of the answer had come."""

    def __init__(self, *, untouched: bool) -> None:
        super().__init__("the connection was closed before the page had ended")
        self.untouched = untouched


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; the names of `headers` are in lower case."""

    status: int
    reason: str
    headers: dict[str, str]
    body: bytes


async def connect(host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None) -> Connection:
    """Return an open connection; raises OSError (socket.gaierror and ssl.SSLError are such)."""
    loop = asyncio.get_running_loop()
    name = (server_name or host) if tls else None
    _, connection = await loop.create_connection(Connection, host, port, ssl=tls, server_hostname=name)
    return connection


class Connection(asyncio.Protocol):
    """An open connection; one request at a time."""

    def __init__(self) -> None:
        self.reusable = False
        self._transport: asyncio.Transport
        self._waiting: asyncio.Future[Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what create_connection promises
        self._transport = transport

    async def get(self, request: bytes, limit: int) -> Answer:
        """Send the request and return the answer; its body has at most `limit` bytes.

        Raises TooLargeError, NotHttpError and ConnectionError, after which the connection is of no use.
        """
        if self._transport.is_closing():
            raise ClosedError(untouched=True)
        self.reusable = False
        self._limit = limit
        self._head: tuple[int, str, dict[str, str]] | None = None
        self._buffer = bytearray()
        self._body = bytearray()
        self._length = -1
        self._chunked = False
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(request)
            return await self._waiting
        finally:
            self._waiting = None
            if not self.reusable:
                self._transport.abort()

    def close(self) -> None:
        """Close at once."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self._waiting is None or self._waiting.done():
            self.reusable = False  # bytes that nobody asked for: the two sides no longer agree
            self._transport.abort()
            return
        try:
            if self._head is None:
                data = self._read_head(bytes(self._buffer) + data)
            if self._head is not None and (data or self._length == 0):
                self._read_body(data)
        except (TooLargeError, NotHttpError) as error:
            self._waiting.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self.reusable = False
        if self._waiting is None or self._waiting.done():
            return
        if self._head is not None and self._length < 0 and not self._chunked and exc is None:
            self._finish(bytes(self._body), keep=False)  # a body without a length ends with the connection
        else:
            self._waiting.set_exception(ClosedError(untouched=self._head is None and not self._buffer))

    def _read_head(self, data: bytes) -> bytes:
        """Read the status line and the headers if they are complete; return what follows them.

        Answers before the final one (100 Continue) are passed over.
        """
        status: re.Match[bytes] | None = None
        lines: list[bytes] = []
        start = 0
        while status is None or int(status[2]) < _FIRST_FINAL:
            end = data.find(b"\r\n\r\n", start)
            if end < 0:
                self._keep_head(data[start:])
                return b""
            first, *lines = data[start:end].split(b"\r\n")
            status = _STATUS.match(first)
            if status is None:
                raise NotHttpError(f"read {_shown(first)}, expected an HTTP/1.1 answer")
            start = end + 4
        self._buffer = bytearray()
        code = int(status[2])
        headers = _headers(lines)
        self._keep = status[1] == b"1" and "close" not in headers.get("connection", "").lower()
        self._head = (code, (status[3] or b"").decode("latin-1"), headers)
        self._read_framing(code, headers)
        return data[start:]

    def _keep_head(self, data: bytes) -> None:
        self._buffer = bytearray(data)
        if len(data) > LONGEST_HEAD_BYTES or not b"HTTP/1."[: len(data)] == data[:7]:
            raise NotHttpError(f"read {_shown(data)}, expected an HTTP/1.1 answer")

    def _read_framing(self, code: int, headers: dict[str, str]) -> None:
        """Read from the headers where the body ends."""
        coding = headers.get("transfer-encoding", "").lower()
        length = headers.get("content-length")
        self._chunked = coding == "chunked"
        if coding not in ("", "identity", "chunked"):
            raise NotHttpError(f"read Transfer-Encoding {coding[:40]!r}, expected chunked or none")
        if code in _BODILESS:
            self._chunked, self._length = False, 0
        elif length is not None and not self._chunked:
            if not _LENGTH.match(length):
                raise NotHttpError(f"read Content-Length {length[:40]!r}, expected a number")
            self._length = int(length)
            if self._length > self._limit:
                raise TooLargeError(f"the page says it has {self._length} bytes")

    def _read_body(self, data: bytes) -> None:
        if self._chunked:
            self._read_chunks(data)
            return
        if len(data) == self._length and not self._body:  # the usual page: head and body came at once
            self._finish(data, keep=self._keep)
            return
        if self._length >= 0:
            missing = self._length - len(self._body)
            self._keep = self._keep and len(data) <= missing
            data = data[:missing]
        self._add(data)
        if len(self._body) == self._length:
            self._finish(bytes(self._body), keep=self._keep)

    def _read_chunks(self, received: bytes) -> None:
        data = self._buffer
        data += received
        start = 0
        while (end := data.find(b"\r\n", start)) >= 0:
            match = _CHUNK_SIZE.match(data[start:end])
            if match is None:
                raise NotHttpError(f"read {_shown(data[start:end])}, expected the size of a chunk")
            size = int(match[1], 16)
            if size == 0:
                self._read_trailers(start, end)
                return
            if len(self._body) + size > self._limit:
                raise TooLargeError("the page is longer")
            after = end + 2 + size + 2
            if len(data) < after:
                break
            self._add(data[end + 2 : after - 2])
            start = after
        del data[:start]
        if end < 0 and len(data) > LONGEST_HEAD_BYTES:
            raise NotHttpError(f"read {_shown(data)}, expected the size of a chunk")

    def _read_trailers(self, start: int, end: int) -> None:
        """Finish if what follows the last chunk is complete, up to its empty line."""
        stop = self._buffer.find(b"\r\n\r\n", end)
        if stop >= 0:
            self._finish(bytes(self._body), keep=self._keep and stop + 4 == len(self._buffer))
        elif len(self._buffer) - start > LONGEST_HEAD_BYTES:
            raise NotHttpError(f"read {_shown(self._buffer[start:])}, expected the end of the page")
        else:
            del self._buffer[:start]

    def _add(self, piece: bytes | bytearray) -> None:
        self._body += piece
        if len(self._body) > self._limit:
            raise TooLargeError("the page is longer")

    def _finish(self, body: bytes, *, keep: bool) -> None:
        assert self._head is not None  # noqa: S101 - for the type checker: a body follows a head
        assert self._waiting is not None  # noqa: S101
        self.reusable = keep
        self._body = bytearray()
        self._waiting.set_result(Answer(*self._head, body))


def _headers(lines: list[bytes]) -> dict[str, str]:
    """Return the headers by lower-case name; those that come more than once are joined by commas."""
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise NotHttpError(f"read {_shown(line)}, expected a header")
        name, value = name.strip().lower(), value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _shown(data: bytes | bytearray) -> str:
    return repr(data[:60].decode("utf-8", "replace"))
