"""The runs in `tests/fixtures/<engine>/expected.json`: pages in time order and what must be read from them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from monitor.core.counts import deltas
from monitor.core.counts import readings as arrays
from monitor.core.pages import engines, exposition
from monitor.core.pages.engines import configured
from monitor.core.pages.engines.base import UNKNOWN, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from monitor.core.pages.engines.base import Engine, Reader, Reading

FIXTURES = Path(__file__).parents[1] / "fixtures"
NUM_POSITIONS = 64
INTERVAL = 15.0


class Expected(TypedDict, total=False):
    """What must be read of one stream; a field that is not there is not compared."""

    evidence: str
    state: str
    drafts: float | None
    accepted_tokens: float
    accepted: list[float]
    k: int
    mal: float | None
    readme_mal: float
    readme_conditional: list[float]
    tolerance: float
    engine_version: str
    config: dict[str, str]
    step_seconds: float
    observed_tpot_seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """Pages of one target in time order, with the answers that stood beside each."""

    engine: str
    name: str
    version: str
    verified: str
    how: str
    pages: tuple[bytes, ...]
    beside: tuple[Mapping[str, bytes], ...]
    expect: Mapping[str, Expected] = field(default_factory=dict)
    unsupported: str = ""

    @property
    def id(self) -> str:
        """The run's name in the list of tests."""
        return f"{self.engine}-{self.name}"


def all_runs() -> list[Run]:
    """Every run of every engine that has fixtures."""
    return [run for name in engines.ENGINES for run in of(name)]


@cache
def of(engine: str) -> tuple[Run, ...]:
    """The runs of one engine."""
    folder = FIXTURES / engine
    text = json.loads((folder / "expected.json").read_text())
    return tuple(_run(engine, folder, text["verified"], each) for each in text["runs"])


def _run(engine: str, folder: Path, verified: str, text: Mapping[str, object]) -> Run:
    pages = text["pages"]
    beside = text.get("beside", {})
    expect = text.get("expect", {})
    assert isinstance(pages, list)
    assert isinstance(beside, dict)
    assert isinstance(expect, dict)
    answers: list[dict[str, bytes]] = [{} for _ in pages]
    for path, files in beside.items():
        for answer, file in zip(
            answers, files if isinstance(files, list) else [files] * len(pages), strict=True
        ):
            answer[path] = (folder / file).read_bytes()
    return Run(
        engine=engine,
        name=str(text["name"]),
        version=str(text["version"]),
        verified=verified,
        how=str(text.get("how", "captured")),
        pages=tuple((folder / page).read_bytes() for page in pages),
        beside=tuple(answers),
        expect=expect,
        unsupported=str(text.get("unsupported", "")),
    )


def recognised(page: bytes) -> engines.Schema:
    """The schema of a page that must have one."""
    schema = engines.recognise(page)
    assert schema is not None, engines.why_unrecognised(page)
    return schema


def look(page: bytes, beside: Mapping[str, bytes] | None = None) -> tuple[Reading, ...] | Unsupported:
    """What one page says when it is the first of its target."""
    schema = recognised(page)
    read = exposition.read(page, schema.wanted)
    return read_by(schema.engine.prepare(read.layout.series, schema.prefix), read.values, beside or {})


def read_by(
    reader: Reader, values: Sequence[float], beside: Mapping[str, bytes]
) -> tuple[Reading, ...] | Unsupported:
    """What a reader makes of a page's values, as `looks` takes it."""
    found = reader(values, beside)
    return found if isinstance(found, Unsupported) else tuple(configured.judged(each) for each in found)


def readings(page: bytes, beside: Mapping[str, bytes] | None = None) -> dict[str, Reading]:
    """The readings of a page that must have some, by `model/replica`."""
    found = look(page, beside)
    assert not isinstance(found, Unsupported), found.detail
    return {f"{each.model_name}/{each.replica}": each for each in found}


def counted(before: Reading | None, after: Reading) -> deltas.Counts:
    """What happened from `before`, or from zero, to `after`."""
    state = deltas.allocate(1, NUM_POSITIONS)
    counts = None
    for index, reading in enumerate([after] if before is None else [before, after]):
        since = INTERVAL if before is None else UNKNOWN
        now = arrays.stack(
            [reading],
            np.array([(index + 2) * INTERVAL]),
            np.array([since]),
            NUM_POSITIONS,
        )
        counts, _ = deltas.between(state, np.arange(1), now)
    assert counts is not None
    return counts


def streams(run: Run) -> Iterator[tuple[str, Expected, Reading | None, Reading]]:
    """The streams of a run: name, what is expected, the first reading if there are two pages, the last."""
    last = readings(run.pages[-1], run.beside[-1])
    first = readings(run.pages[0], run.beside[0]) if len(run.pages) > 1 else {}
    assert set(last) == set(run.expect)
    for name, expected in run.expect.items():
        yield name, expected, first.get(name), last[name]


def engine(name: str) -> Engine:
    """One row of the table of engines."""
    return engines.ENGINES[name]
