"""One target's page -> its readings, with the memory of how the last page of that target was read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from monitor.core.pages import absences, engines, exposition
from monitor.core.pages.engines import iterations
from monitor.core.pages.engines.base import UNKNOWN, Counter, Reading, Unsupported
from monitor.core.pages.scrapes import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Layout, Problem

LARGEST = 1e18
GLANCES = 8  # of so many pages one is searched for wanted lines that were not there before


@dataclass(slots=True)
class Memory:
    """How a target's page is read: which engine's names, where they stood, what they mean.

    `schema` is None before the first good page. `beside` keeps the answers of the engine's other pages.
    `glances` counts the pages that were only read where the lines stood before. `totals` are those of an
    engine whose page holds records of iterations.
    """

    schema: engines.Schema | None = None
    layout: Layout | None = None
    reader: Reader | None = None
    beside: dict[str, bytes] = field(default_factory=dict)
    duplicates: int = 0
    glances: int = 0
    totals: iterations.Totals | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What one page said: readings, or why there are none, and the lines that could not be read."""

    readings: tuple[Reading, ...] = ()
    failure: Failure | None = None
    problems: tuple[Problem, ...] = ()
    duplicates: int = 0


def read(memory: Memory, body: bytes, beside: Mapping[str, bytes], engine: str = "") -> Look:
    """Return what `body` says; `memory` is brought up to date. `engine` is what the operator says it is."""
    try:
        page = _page(memory, body, engine)
    except exposition.RefusedPageError as error:
        return Look(failure=Failure(error.reason, error.detail))
    if page is None or memory.reader is None or memory.schema is None:
        return Look(failure=Failure("unrecognised", engines.why_unrecognised(body)))
    for path in memory.schema.engine.beside:
        memory.beside.pop(path, None)  # read with every page: an old answer does not belong to this one
    if beside:
        memory.beside.update(beside)
    readings = memory.reader([_possible(value) for value in page.values], memory.beside)
    if not readings:
        detail = absences.why(memory.schema, page, body)
        return Look(failure=Failure("unrecognised", detail), problems=page.problems)
    if isinstance(readings, Unsupported):
        return Look(failure=Failure("unsupported", readings.detail), problems=page.problems)
    if not all(problem.located for problem in page.problems):
        readings = tuple(_without_speculation(reading) for reading in readings)
    return Look(readings, problems=page.problems, duplicates=memory.duplicates)


def read_iterations(
    memory: Memory, body: bytes, beside: Mapping[str, bytes], unix_seconds: float, model_name: str
) -> Look:
    """Return what records of single iterations, read at `unix_seconds`, add to those read before."""
    memory.beside.update(beside)
    try:
        memory.totals = iterations.add(
            memory.totals or iterations.Totals(began=unix_seconds), body, unix_seconds
        )
    except iterations.NotIterations as error:
        return Look(failure=Failure("not_metrics", str(error)))
    return Look((iterations.reading(memory.totals, model_name, memory.beside),))


def _possible(value: float) -> float:
    """Return a value as readers take it: they calculate, and nothing that is true is as large as that."""
    return value if -LARGEST < value < LARGEST else UNKNOWN


def _page(memory: Memory, body: bytes, engine: str) -> exposition.Page | None:
    """Return the page read with the remembered schema, or with the one it is recognised by now."""
    exposition.refuse_too_many_lines(body)
    if memory.schema is not None:
        # A series that a glance overlooks is seen a few pages later and counts from zero: nothing is lost.
        memory.glances = (memory.glances + 1) % GLANCES
        glance = memory.glances > 0
        page = exposition.read(body, memory.schema.wanted, memory.layout, glance=glance)
        if page.layout is memory.layout or memory.schema == engines.recognise(body, engine):
            _learn(memory, page)
            return page
    exposition.refuse_unless_exposition(body)
    memory.schema = engines.recognise(body, engine)
    if memory.schema is None:
        return None
    page = exposition.read(body, memory.schema.wanted)
    _learn(memory, page)
    return page


def _without_speculation(reading: Reading) -> Reading:
    """Return a reading of a page on which a line says neither its series nor its value.

    What is missing cannot be told from what is not there: k would seem to have changed, or a position to
    have lost its tokens. The next whole page counts for both.
    """
    unknown = (UNKNOWN,) * (Counter.ACCEPTED_TOKENS + 1)
    counters = (*unknown, *reading.counters[len(unknown) :])
    return replace(reading, counters=counters, accepted=(), num_speculative_tokens=0)


def _learn(memory: Memory, page: exposition.Page) -> None:
    if memory.schema is not None and page.layout is not memory.layout:
        memory.layout = page.layout
        memory.duplicates = len(page.layout.series) - len(set(page.layout.series))
        memory.reader = memory.schema.engine.prepare(page.layout.series, memory.schema.prefix)
