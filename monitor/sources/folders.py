"""Reads recorded pages from a folder: `<unix_milliseconds>.prom` files, one sub-folder a target."""

from __future__ import annotations

import heapq
import os
import re
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from monitor import sources
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.sources import opening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from monitor.core.pages.scrapes import FailureReason

PAGE_NAME = re.compile(r"(\d+)\.prom(\.gz|\.zst)?")
MILLISECONDS = 1000
LARGEST_PAGE_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class _Recording:
    """The pages of one target: their times in order, and how their names end where not with `.prom`."""

    target: str
    folder: Path
    times: array[int]
    packed: dict[int, str]


def scrapes(root: Path) -> tuple[Iterator[Scrape], Callable[[], float]]:
    """Return the pages of all targets under `root` in time order, and the share that has been read.

    Pages directly in `root` are of the target that is called as the folder, a sub-folder's are of the
    target that is called as its path. All other files are passed over. Only the names are held in memory.
    Raises Unreadable where there is no page.
    """
    recordings = list(_recordings(root))
    total = sum(len(recording.times) for recording in recordings)
    if total == 0:
        raise sources.Unreadable(f"{root}: no page in it, expected files called <unix_milliseconds>.prom")
    done = 0

    def pages() -> Iterator[Scrape]:
        nonlocal done
        for at, recording in heapq.merge(*map(_moments, recordings), key=_time):
            done += 1
            yield _page(recording, at)

    return pages(), lambda: done / total


def page(path: Path, target: str, unix_seconds: float) -> Scrape:
    """Return the page in a file; a damaged or huge one is a failed scrape. Raises Unreadable."""
    try:
        with path.open("rb") as file:
            body = file.read(LARGEST_PAGE_BYTES + 1)
    except OSError as error:
        raise sources.Unreadable(f"{path}: {error.strerror or error}, expected a readable page") from None
    reason: FailureReason = "encoding"
    try:
        unpacked = opening.unpack(body, LARGEST_PAGE_BYTES)
    except opening.DAMAGED as error:
        return Scrape(
            target, unix_seconds, failure=Failure(reason, f"{path}: the packed data are damaged ({error})")
        )
    if len(unpacked) > LARGEST_PAGE_BYTES:
        reason, limit = "too_large", LARGEST_PAGE_BYTES >> 20
        return Scrape(
            target, unix_seconds, failure=Failure(reason, f"{path}: expected a page of at most {limit} MiB")
        )
    return Scrape(target, unix_seconds, body=unpacked)


def milliseconds(name: str) -> int | None:
    """Return the time in the name of a page's file (unix milliseconds), None where it names none."""
    match = PAGE_NAME.fullmatch(name)
    if match is None or str(int(match[1])) != match[1]:
        return None
    at = int(match[1])
    return at if 0 < at < sources.LATEST * MILLISECONDS else None


def _moments(recording: _Recording) -> Iterator[tuple[int, _Recording]]:
    return ((at, recording) for at in recording.times)


def _time(moment: tuple[int, _Recording]) -> int:
    return moment[0]


def _page(recording: _Recording, unix_milliseconds: int) -> Scrape:
    name = f"{unix_milliseconds}.prom{recording.packed.get(unix_milliseconds, '')}"
    return page(recording.folder / name, recording.target, unix_milliseconds / MILLISECONDS)


def _recordings(root: Path) -> Iterator[_Recording]:
    """Return what each folder under `root` has, in the order of the targets' names."""
    own_name = root.resolve().name
    for folder, folders, files in os.walk(root, onerror=_unreadable):
        folders.sort()
        times: list[int] = []
        packed: dict[int, str] = {}
        for name in files:
            at = milliseconds(name)
            if at is None:
                continue
            if not name.endswith(".prom"):
                packed.setdefault(at, "." + name.rpartition(".")[2])
            times.append(at)
        if times:
            path = Path(folder)
            target = own_name if path == root else path.relative_to(root).as_posix()
            yield _Recording(target, path, array("q", sorted(set(times))), packed)


def _unreadable(error: OSError) -> None:
    raise sources.Unreadable(f"{error.filename}: {error.strerror}, expected a readable folder") from None
