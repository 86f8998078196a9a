"""Two hours of series for a real Prometheus, made by the code that makes our own page.

Stream 0 collapsed an hour ago, stream 1 is well, stream 2 has been idle for the whole time, and is the only one of
its model. The series of recording rules are written by hand.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

import numpy as np

from monitor import metrics, store
from monitor.core.vocabulary import STATES
from monitor.metrics import changes, selfmetrics, textformat
from tests.alerts import names
from tests.metric_tables import open_change, stream_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from monitor.metrics import Floats, StreamTable, WindowTable
    from monitor.metrics.textformat import Family

STEP_SECONDS = 60
STEPS = 120
SCRAPED = 'job="specmon",instance="s:10101"'
STREAMS = (("a:8000", "org/m"), ("b:8000", "org/m"), ("c:8000", "idle"))
IDLE = 2


def write(path: Path, end: int) -> None:
    """Write the series that end at `end` (unix seconds) as an OpenMetrics file."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for step in range(STEPS + 1):
        at = end - (STEPS - step) * STEP_SECONDS
        family = ""
        for line in _page(step, at).splitlines():
            if line.startswith("# "):
                family = line.split(" ")[2]
                if line not in heads.setdefault(family, []):
                    heads[family].append(line)
            else:
                samples.setdefault(family, []).append(f"{line} {at}")
    lines = [
        line for family, head in heads.items() if family in samples for line in (*head, *samples[family])
    ]
    path.write_text("\n".join([*lines, "# EOF", ""]))


def _page(step: int, at: int) -> str:
    table = _table(step, at)
    looked = [
        metrics.TargetRow(
            "a:8000", up=True, duration=0.01, last_success_at=at, scrapes=4 * step, failures={"dns": 1}
        ),
        metrics.TargetRow("gone:8000", False, 0.01, at - 9000.0, 4 * step, {"connection": 4 * step}),
        metrics.TargetRow("never:8000", False, 0.01, math.nan, 4 * step, {"html": 4 * step}),
    ]
    families: list[Family] = [
        selfmetrics.build_family("0.1.0", "abc"),
        *selfmetrics.reload_families(successful=True, succeeded_at=at),
        *metrics.stream_families(table),
        *changes.families([open_change(table.labels[0])] if step >= STEPS // 2 else [], []),
        *metrics.target_families(looked),
        *(textformat.single(each.name, each.kind, each.help, at) for each in store.Store("").families()),
        *names.notifier().families(),
    ]
    text = textformat.render(families, openmetrics=True).decode().removesuffix("# EOF\n")
    process = selfmetrics.process_text(selfmetrics.registry(), openmetrics=True).decode()
    return "\n".join([*map(_scraped, (text + process).splitlines()), *_recorded()])


def _scraped(line: str) -> str:
    """Return a line with the labels that a scrape adds."""
    if line.startswith("#"):
        return line
    name, brace, rest = line.partition("{")
    if brace:
        return f"{name}{{{SCRAPED},{rest}"
    name, _, value = line.partition(" ")
    return f"{name}{{{SCRAPED}}} {value}"


def _recorded() -> Iterator[str]:
    labels = 'job="vllm",instance="v:8000",model_name="org/m",replica="0",engine="vllm"'
    for name in sorted(names.recorded()):
        yield f"# TYPE {name} gauge"
        position = ',position="1"' if "position" in name else ""
        yield f"{name}{{{labels}{position}}} 2.5"


def _table(step: int, at: int) -> StreamTable:
    """Return the table at a step: totals grow but for the idle stream, which knows no estimate."""
    table = stream_table(len(STREAMS), ("1m", "5m", "1h"))
    labels = [metrics.stream_labels(target, model, "0") for target, model in STREAMS]
    fallen = step >= STEPS // 2
    grown = np.array([step, step, 0.0])
    states = ("collapsed" if fallen else "ok", "ok", "idle")
    return dataclasses.replace(
        table,
        labels=labels,
        info=[
            metrics.info_labels(
                block,
                engine="vllm",
                engine_version="0.32.0",
                draft_model="org/d",
                method="eagle3",
                num_speculative_tokens=4,
                regime="1",
            )
            for block in labels
        ],
        state=np.array([STATES.index(state) for state in states]),
        drafts=1000 * grown,
        draft_tokens=4000 * grown,
        accepted_tokens=2000 * grown,
        position_accepted_tokens=np.outer(grown, [800.0, 600, 400, 200]),
        windows=[_without_idle(window) for window in table.windows],
        last_change_at=np.array(
            [at - 60.0 * (step - STEPS // 2) if fallen else math.nan, math.nan, math.nan]
        ),
        violations={"positions_sum": grown},
    )


def _without_idle(window: WindowTable) -> WindowTable:
    values = {
        each.name: _unknown_when_idle(getattr(window, each.name))
        for each in dataclasses.fields(window)
        if each.name != "name"
    }
    return metrics.WindowTable(name=window.name, **values)


def _unknown_when_idle(values: Floats) -> Floats:
    known = values.copy()
    known[IDLE] = math.nan
    return known
