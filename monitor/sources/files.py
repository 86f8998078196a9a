"""Reads history from files: a folder of pages, JSON lines, OpenMetrics with time stamps, an engine's log."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from monitor import sources
from monitor.sources import batches, engine_logs, folders, jsonl, opening, timestamped

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator

    from monitor.core.pages.scrapes import Scrape

BATCHES_PER_PROGRESS = 64
MOST_TARGETS = 20_000  # each takes some ten kilobytes
STANDARD_INPUT_NAME = "standard input"

_EXPECTED = (
    "a folder of <unix_milliseconds>.prom pages, JSON lines, OpenMetrics text with time stamps, or an "
    "engine's log"
)
_EXPOSITION = re.compile(rb'[#a-zA-Z_:]|\{[ \t]*"[^"]*"[ \t]*[,}]')


def replay(source: str, progress: Callable[[float], None] | None = None) -> Iterator[list[Scrape]]:
    """Return the scrapes of `source` (a folder, a file, `-` for standard input) as batches in time order.

    A batch holds scrapes of one time, each of another target, at most `batches.LARGEST_BATCH`. JSON lines
    keep the order of their lines. `progress` is called now and then with the share that has been read
    (0 to 1, always 0 on standard input). Raises Unreadable, at once or at the first batch.
    """
    if source != opening.STANDARD_INPUT and os.path.isdir(source):  # noqa: PTH112 - pathlib's raises for some names
        yield from _batches(*folders.scrapes(Path(source)), progress)
        return
    name = STANDARD_INPUT_NAME if source == opening.STANDARD_INPUT else source
    with opening.opened(source) as (stream, share):
        yield from _batches(_told_by_first_bytes(stream, name, _written_at(source)), share, progress)


def page(path: str) -> Scrape:
    """Return the one page in a file, named by the file; its time is in the name, or when it was written."""
    file = Path(path)
    if file.is_dir():
        raise sources.Unreadable(
            f"{path}: read a folder, expected a file with a page; specmon replay reads folders of pages"
        )
    named = folders.milliseconds(file.name)
    try:
        at = file.stat().st_mtime if named is None else named / folders.MILLISECONDS
    except OSError as error:
        raise sources.Unreadable(f"{path}: {error.strerror}, expected a file with a page") from None
    target = file.name if named is None else file.resolve().parent.name
    return folders.page(file, target, at)


def _batches(
    scrapes: Iterator[Scrape], share: Callable[[], float], progress: Callable[[float], None] | None
) -> Iterator[list[Scrape]]:
    targets: set[str] = set()
    for count, batch in enumerate(batches.same_time(scrapes)):
        targets.update(scrape.target for scrape in batch)
        if len(targets) > MOST_TARGETS:
            read = f"read more than {MOST_TARGETS} targets, the last {batch[-1].target[:80]!r}"
            raise sources.Unreadable(f"{read}: expected fewer, or the history in several parts")
        if progress is not None and count % BATCHES_PER_PROGRESS == 0:
            progress(share())
        yield batch
    if progress is not None:
        progress(1.0)


def logged(source: str) -> Iterator[Scrape] | None:
    """Return what an engine's log in a file says, None where it is none; `-` is always taken for one."""
    piped = source == opening.STANDARD_INPUT
    if not piped and not Path(source).is_file():
        return None
    name = STANDARD_INPUT_NAME if piped else Path(source).name
    with contextlib.ExitStack() as held:
        stream, _ = held.enter_context(opening.opened(source))
        try:
            if not piped and not engine_logs.looks_like(stream.peek(1)[: engine_logs.SNIFFED_BYTES]):
                return None
        except opening.DAMAGED:
            return None
        return iter(list(engine_logs.scrapes(stream, name, _written_at(source))))


def _written_at(source: str) -> float:
    """Return when a file was written (unix seconds); standard input is written now."""
    try:
        return time.time() if source == opening.STANDARD_INPUT else Path(source).stat().st_mtime
    except OSError:
        return time.time()


def _told_by_first_bytes(stream: io.BufferedReader, name: str, written_at: float) -> Iterator[Scrape]:
    try:
        seen = stream.peek(1)[: engine_logs.SNIFFED_BYTES]
    except opening.DAMAGED as error:
        raise sources.Unreadable(f"{name}: the packed data are damaged ({error})") from None
    if engine_logs.looks_like(seen):
        return engine_logs.scrapes(stream, name, written_at)
    start = seen.lstrip(b"\xef\xbb\xbf \t\r\n")
    if _EXPOSITION.match(start):
        return timestamped.scrapes(stream, name)
    if start.startswith(b"{") or b'\n{"' in start:  # the second: a first line that was cut off
        return jsonl.scrapes(stream, name)
    shown = repr(start[: jsonl.SHOWN_CHARACTERS].decode("utf-8", "replace"))
    raise sources.Unreadable(f"{name}: {'read ' + shown if start else 'it is empty'}, expected {_EXPECTED}")
