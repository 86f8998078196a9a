"""One target's page -> its readings, with the memory of how the last page of that target was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor import engines, exposition
from monitor.engines.base import Unsupported
from monitor.scrapes import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.engines.base import Reader, Reading
    from monitor.exposition import Layout, Problem

STATS_OFF = "expected its serving metrics; are they switched off there?"


@dataclass(slots=True)
class Memory:
    """How a target's page is read: which engine's names, where they stood, what they mean.

    `schema` is None before the first good page. `beside` keeps the answers of the engine's other pages.
    """

    schema: engines.Schema | None = None
    layout: Layout | None = None
    reader: Reader | None = None
    beside: dict[str, bytes] = field(default_factory=dict)
    duplicates: int = 0


@dataclass(frozen=True, slots=True)
class Look:
    """What one page said: readings, or why there are none, and the lines that could not be read."""

    readings: tuple[Reading, ...] = ()
    failure: Failure | None = None
    problems: tuple[Problem, ...] = ()
    duplicates: int = 0


def read(memory: Memory, body: bytes, beside: Mapping[str, bytes]) -> Look:
    """Return what `body` says; `memory` is brought up to date."""
    try:
        page = _page(memory, body)
    except exposition.RefusedPageError as error:
        return Look(failure=Failure(error.reason, error.detail))
    if page is None or memory.reader is None or memory.schema is None:
        return Look(failure=Failure("unrecognised", engines.why_unrecognised(body)))
    if beside:
        memory.beside.update(beside)
    readings = memory.reader(page.values, memory.beside)
    if not readings:
        return Look(failure=Failure("unrecognised", f"a page of {memory.schema.engine.name} without one stream: {STATS_OFF}"))
    if isinstance(readings, Unsupported):
        return Look(failure=Failure("unsupported", readings.detail), problems=page.problems)
    return Look(readings, problems=page.problems, duplicates=memory.duplicates)


def _page(memory: Memory, body: bytes) -> exposition.Page | None:
    """Return the page read with the remembered schema, or with the one it is recognised by now."""
    if memory.schema is not None:
        page = exposition.read(body, memory.schema.wanted, memory.layout)
        if page.values or page.problems:
            _learn(memory, page)
            return page
    exposition.refuse_unless_exposition(body)
    memory.schema = engines.recognise(body)
    if memory.schema is None:
        return None
    page = exposition.read(body, memory.schema.wanted)
    _learn(memory, page)
    return page


def _learn(memory: Memory, page: exposition.Page) -> None:
    if memory.schema is not None and page.layout is not memory.layout:
        memory.layout = page.layout
        memory.duplicates = len(page.layout.series) - len(set(page.layout.series))
        memory.reader = memory.schema.engine.prepare(page.layout.series, memory.schema.prefix)
