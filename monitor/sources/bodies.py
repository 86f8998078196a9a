"""Reads and unpacks the body of an answer, never beyond a limit."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp

    from monitor.core.pages.scrapes import FailureReason

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_PACKINGS = ("gzip", "x-gzip", "deflate")


class RefusedBodyError(Exception):
    """The answer has no page; `reason` for machines, the message for people."""

    def __init__(self, reason: FailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: FailureReason = reason


class TooLongError(Exception):
    """The body is longer than was allowed; the message says how that was seen."""


async def received(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """Return the body as it was sent, at most `limit` bytes; raises TooLongError as soon as it is known."""
    length = answer.content_length
    if length is not None and length > limit:
        raise TooLongError(f"the page says it has {length} bytes")
    body = await answer.content.readany()
    if len(body) <= limit and answer.content.at_eof():
        return body  # the usual page: it came at once
    pieces = bytearray(body)
    while len(pieces) <= limit and (body := await answer.content.readany()):
        pieces += body
    if len(pieces) > limit:
        raise TooLongError("the page is longer")
    return bytes(pieces)


def unpacked(body: bytes, packing: str, limit: int) -> bytes:
    """Return the body as it was before it was packed, at most `limit` bytes; raises RefusedBodyError.

    `packing` is what Content-Encoding says. Nothing beyond the limit is made: a small packed body can stand
    for gigabytes.
    """
    packing = packing.lower()
    if packing in ("identity", ""):
        return body
    if packing not in _PACKINGS:
        raise RefusedBodyError("encoding", f"read Content-Encoding {packing[:40]!r}, expected none or gzip")
    unpacking = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        body = unpacking.decompress(body, limit + 1)
    except zlib.error as error:
        raise RefusedBodyError("encoding", f"the packed page cannot be unpacked ({error})") from None
    if len(body) > limit:
        raise too_large("the packed page unpacks to more", limit)
    if not unpacking.eof or unpacking.unused_data:
        raise RefusedBodyError("encoding", "the packed page does not end where it should")
    return body


def too_large(detail: str, limit: int) -> RefusedBodyError:
    """Return the failure of a page beyond the limit, with the name of the setting."""
    return RefusedBodyError("too_large", f"{detail}, expected at most {limit} bytes (body_limit)")
