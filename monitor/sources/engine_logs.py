"""Reads engine logs: the lines that tell of speculation become counters, one target a log."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from monitor import sources
from monitor.core.pages import logs
from monitor.core.pages.scrapes import Scrape
from monitor.sources import opening

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

SNIFFED_BYTES = 256 << 10
LONGEST_LINE_BYTES = 1 << 20
SHOWN_CHARACTERS = 60

# What stands on lines of speculation, and what the first lines of logs look like before there is one.
_MARKS = re.compile(
    rb"SpecDecoding metrics|accept len: |draft acceptance|statistics +\S+: #calls|\"specDecodingStats\"|"
    rb"Avg generation throughput|Decode batch|ServerArgs\(|LLM engine|print_timing|llama_model_loader|"
    rb"^(?:\(\w+ pid=\d+\) )?(?:INFO|WARNING|DEBUG) \d\d-\d\d |^\[\d{4}-\d\d-\d\d \d\d:|"
    rb"^\d+\.\d\d\.\d{3}\.\d{3} [IWED] ",
    re.MULTILINE,
)
_WRAPPED = (b'{"log":', b'{"message":', b'{"MESSAGE":')  # as Docker and journald wrap a line
_TEXTS = ("log", "message", "MESSAGE")


def looks_like(start: bytes) -> bool:
    """Return whether the first bytes of a file are of an engine's log."""
    first = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    if first.startswith(b"{") and not first.startswith(_WRAPPED):
        return b'"specDecodingStats"' in first and b'"iter"' in first and b'"body"' not in first
    return not first.startswith(b"# ") and _MARKS.search(start) is not None


def scrapes(stream: io.BufferedReader, name: str, near: float) -> Iterator[Scrape]:
    """Yield what a log says, a reading at a time; `name` is its target, `near` (unix seconds) its date.

    Raises Unreadable where no line tells of speculation.
    """
    log = logs.EngineLog(near)
    lines, first = 0, ""
    try:
        while line := stream.readline(LONGEST_LINE_BYTES):
            text = _text(line)
            first = first or text.strip()
            lines += 1
            for at, reading in log.readings(text):
                yield Scrape(name, at, readings=(reading,))
    except opening.DAMAGED as error:
        raise sources.Unreadable(f"{name}: the packed data are damaged ({error})") from None
    for at, reading in log.rest():
        yield Scrape(name, at, readings=(reading,))
    if not log.read:
        shown = repr(first[:SHOWN_CHARACTERS])
        raise sources.Unreadable(
            f"{name}: no line of speculation among {lines} lines, the first {shown}; expected {logs.EXPECTED}"
        )


def _text(line: bytes) -> str:
    """Return a line as its engine wrote it; one that a collector wrapped is led by the collector's time."""
    text = line.decode("utf-8", "replace")
    if not line.startswith(_WRAPPED):
        return text
    try:
        record = json.loads(text)
    except ValueError:
        return text
    told = next((str(record[key]) for key in _TEXTS if key in record), "")
    return f"{record.get('time', '')} {told}"
