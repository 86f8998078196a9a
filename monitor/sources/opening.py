"""Opens a file or standard input for reading bytes, unpacked where it is gzip or zstd."""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import zstandard

from monitor import sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import WriteableBuffer

STANDARD_INPUT = "-"
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError)

_BUFFER_BYTES = 1 << 20
_ZSTD_PIECE_BYTES = 4096
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


@contextlib.contextmanager
def opened(source: str) -> Iterator[tuple[io.BufferedReader, Callable[[], float]]]:
    """Give the unpacked bytes of `source` and a function that says which share of it has been read.

    `source` is a path, or `-` for standard input, whose share read is always 0. The packing is told from
    the first bytes, not from the name. Raises Unreadable where the file cannot be opened.
    """
    if source == STANDARD_INPUT:
        standard_input = io.FileIO(sys.stdin.fileno(), closefd=False)
        yield _unpacked(io.BufferedReader(standard_input, _BUFFER_BYTES)), lambda: 0.0
        return
    try:
        size = max(Path(source).stat().st_size, 1)
        file = io.FileIO(source)
    except OSError as error:
        raise sources.Unreadable(f"{source}: {error.strerror or error}, expected a readable file") from None
    with file:
        yield _unpacked(io.BufferedReader(file, _BUFFER_BYTES)), lambda: file.tell() / size


def unpack(body: bytes, limit: int) -> bytes:
    """Return `body` unpacked where it is gzip or zstd, at most `limit` + 1 bytes of it.

    Raises one of DAMAGED where it cannot be. Little more than the limit is made: a small packed body can
    stand for gigabytes.
    """
    if body.startswith(_GZIP):
        return gzip.GzipFile(fileobj=io.BytesIO(body)).read(limit + 1)
    if body.startswith(_ZSTD):
        return _unpacked_zstd(body, limit)
    return body


def _unpacked_zstd(body: bytes, limit: int) -> bytes:
    unpacking, unpacked = zstandard.ZstdDecompressor().decompressobj(), bytearray()
    for start in range(0, len(body), _ZSTD_PIECE_BYTES):
        unpacked += unpacking.decompress(body[start : start + _ZSTD_PIECE_BYTES])
        if unpacking.eof or len(unpacked) > limit:
            break
    if not unpacking.eof and len(unpacked) <= limit:
        raise EOFError("the zstd frame has no end")
    return bytes(unpacked[: limit + 1])


class _Pieces(io.RawIOBase):
    """Gives what has been unpacked so far, so that what stands before damage is not lost with it."""

    def __init__(self, unpacked: gzip.GzipFile | zstandard.ZstdDecompressionReader) -> None:
        self._unpacked = unpacked

    def readable(self) -> bool:
        """True: this can be read, and nothing else."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the beginning of `buffer` and return how many bytes that were, 0 at the end."""
        view = memoryview(buffer)
        piece = self._unpacked.read1(len(view))
        view[: len(piece)] = piece
        return len(piece)


def _unpacked(packed: io.BufferedReader) -> io.BufferedReader:
    magic = packed.peek(len(_ZSTD))
    if magic.startswith(_GZIP):
        return io.BufferedReader(_Pieces(gzip.GzipFile(fileobj=packed)), _BUFFER_BYTES)
    if magic.startswith(_ZSTD):
        reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
        return io.BufferedReader(_Pieces(reader), _BUFFER_BYTES)
    return packed
