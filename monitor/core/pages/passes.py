"""Searches a page piece by piece, so that other threads get their turn between two pieces.

A regular expression keeps all other threads waiting for as long as one call takes: half a second for some
pages of 20 MB, in which nobody is answered. A piece takes half a millisecond at most, no longer than the
turns that the service gives its threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

PIECE_BYTES = 16 << 10
LINE_BYTES = 2 * PIECE_BYTES  # of a longer line only so many are searched: more than any reader takes
FEW_BYTES = 1 << 20  # a page so short has not too many lines
MOST_LINES = 500_000  # those of a page of body_limit are fewer by far; each line costs, empty or not


def matches(pattern: re.Pattern[bytes], text: bytes) -> Iterator[re.Match[bytes]]:
    """Yield what `finditer` finds, for a pattern that begins with a line feed and stays within its line.

    Of a line longer than LINE_BYTES only that much is searched.
    """
    for start, end in _pieces(text):
        yield from pattern.finditer(text, start, end)


def first(pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes] | None:
    """Return the first match of such a pattern, None where there is none."""
    return next(matches(pattern, text), None)


def has_too_many_lines(body: bytes) -> bool:
    """Return whether a page has more lines than are searched."""
    return len(body) > FEW_BYTES and body.count(b"\n") > MOST_LINES


def _pieces(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield where pieces begin and end; each begins with a line feed, the first one aside."""
    start, size = 0, len(text)
    while 0 <= start < size:
        end = min(start + PIECE_BYTES, size)
        following = size
        if end < size:
            following = text.rfind(b"\n", start + 1, end + 1)
            if following >= 0:
                end = following
            else:
                following = text.find(b"\n", end)
                end = min(start + LINE_BYTES, size if following < 0 else following)
        yield start, end
        start = following
