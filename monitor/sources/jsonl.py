"""Reads scrapes from JSON lines.

`{"at", "target", "body"}` is a page, `{"at", "target", "model_name", "drafts", …}` are counters.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from functools import partial
from typing import TYPE_CHECKING, Never

from monitor import sources
from monitor.core.pages.engines import counters
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.sources import opening

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

    from monitor.core.pages.scrapes import FailureReason

LONGEST_LINE_BYTES = 64 << 20
LINES_UNTIL_GIVEN_UP = 100  # so many first lines, none of them good: this is another kind of file
SHOWN_CHARACTERS = 60

_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_EXPECTED = 'JSON lines with "at", "target" and either "body" or "drafts", "draft_tokens" and "accepted"'


class _RefusedLineError(Exception):
    def __init__(self, reason: FailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: FailureReason = reason


def scrapes(stream: io.BufferedReader, name: str) -> Iterator[Scrape]:
    """Return one scrape a line, in the order of the lines; `name` is what messages call the source.

    A line that cannot be read is a failed scrape of the target `name` at the time of the line before.
    Raises Unreadable where none of the first lines is good.
    """
    each = _each(stream, name)
    refused: list[Scrape] = []
    for scrape in each:
        if scrape.failure is None:
            yield from (dataclasses.replace(line, at=scrape.at) for line in refused)
            yield scrape
            break
        refused.append(scrape)
        if len(refused) == LINES_UNTIL_GIVEN_UP:
            _give_up(name, refused)
    else:
        _give_up(name, refused)
    yield from each


def _give_up(name: str, refused: list[Scrape]) -> Never:
    failure = refused[0].failure if refused else None
    detail = failure.detail if failure else f"{name}: nothing in it"
    raise sources.Unreadable(f"{detail}; expected {_EXPECTED}")


def _each(stream: io.BufferedReader, name: str) -> Iterator[Scrape]:
    """Return a scrape for each line; a refused one has the time of the line before."""
    at = 0.0
    lines = _lines(stream)
    for number in itertools.count(1):
        try:
            line = next(lines, None)
            if line is None:
                return
            if line.isspace():
                continue
            scrape = _scrape(line)
        except _RefusedLineError as error:
            scrape = Scrape(name, at, failure=Failure(error.reason, f"{name} line {number}: {error}"))
        at = scrape.at
        yield scrape


def _lines(stream: io.BufferedReader) -> Iterator[bytes]:
    """Return the lines; damage in the packed data is raised once, and nothing follows it."""
    try:
        yield from iter(partial(stream.readline, LONGEST_LINE_BYTES), b"")
    except opening.DAMAGED as error:
        raise _RefusedLineError(
            "encoding", f"the packed data are damaged or cut off here ({error})"
        ) from None


def _scrape(line: bytes) -> Scrape:
    if len(line) == LONGEST_LINE_BYTES:
        raise _RefusedLineError("too_large", f"the line is longer than {LONGEST_LINE_BYTES >> 20} MiB")
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _RefusedLineError("json", f"read {_shown(line)} ({error})") from None
    if type(record) is not dict:
        raise _RefusedLineError("json", f"read {_shown(line)}, expected a JSON object")
    at = record.get("at")
    if not (type(at) is float or type(at) is int) or not 0 < at < sources.LATEST:
        raise _RefusedLineError("bad_counters", f'"at" is {_brief(at)}, expected unix seconds')
    target = record.get("target")
    if type(target) is not str or not target:
        raise _RefusedLineError(
            "bad_counters", f'"target" is {_brief(target)}, expected the name of the target'
        )
    if _HALF_CHARACTER.search(line):
        _refuse_halves(record)
    body = record.get("body")
    if body is not None:
        return _page(float(at), target, body, record.get("beside"))
    try:
        return Scrape(target, float(at), readings=(counters.reading(record),))
    except counters.Malformed as error:
        raise _RefusedLineError("bad_counters", str(error)) from None


def _refuse_halves(record: dict[str, object]) -> None:
    """Refuse names with half a character in them, which JSON can say and no other text can."""
    names = [value for name, value in record.items() if name not in ("body", "beside")]
    try:
        json.dumps(names, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        detail = f"read half a character ({error.object[error.start]!a}), expected names that are text"
        raise _RefusedLineError("bad_counters", detail) from None


def _page(unix_seconds: float, target: str, body: object, beside: object) -> Scrape:
    if type(body) is not str:
        raise _RefusedLineError("not_metrics", f'"body" is {str(body)[:SHOWN_CHARACTERS]!r}, expected a text')
    pages = beside if isinstance(beside, dict) else {}
    return Scrape(
        target,
        unix_seconds,
        body=_bytes(body),
        beside={path: _bytes(str(text)) for path, text in pages.items()},
    )


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _brief(value: object) -> str:
    return repr(value)[:SHOWN_CHARACTERS]


def _shown(line: bytes) -> str:
    return repr(line[:SHOWN_CHARACTERS].decode("utf-8", "replace").strip())
