"""Scenarios through the command line of the product, as a user would replay them; what it said is judged.

Severity critical counts as a page, warning as a warning; kind `improvement` is up, `regime_change` and
`data_quality` have no direction.
"""

from __future__ import annotations

import heapq
import json
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Literal, TypedDict

from tests.acceptbench import counters, generate, judging

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.acceptbench.judging import Figures, Said, Severity
    from tests.acceptbench.scenarios import Scenario


class _Level(TypedDict):
    mal: float | None


class _Record(TypedDict):
    """The fields of an event that are looked at (DESIGN section 6)."""

    target: str | None
    model_name: str
    kind: str
    severity: Severity
    status: str
    raised_at: float
    change_point_at: float | None
    detector: str
    before: _Level
    after: _Level


COMMAND = (sys.executable, "-m", "monitor", "replay", "--json", "-")


def run(scenario: Scenario, seed: int, reps: int | None = None, command: Sequence[str] = COMMAND) -> Figures:
    """Return the figures of a scenario: one process for all of its streams."""
    scenario = scenario.repeated(reps)
    streams = [generate.simulate(scenario, rep, seed) for rep in range(scenario.reps)]
    heard = listen(
        (
            counters.lines(stream, f"rep-{rep}", f"{scenario.name}-{rep // (scenario.fleet or 1)}")
            for rep, stream in enumerate(streams)
        ),
        command,
    )
    own = [[said for said in heard if said.target == f"rep-{rep}"] for rep in range(scenario.reps)]
    size = scenario.fleet or 1
    if scenario.hit > 1:
        fleets = [
            (
                streams[at : at + size],
                [said for each in own[at : at + size] for said in each],
                [
                    said
                    for said in heard
                    if (said.target, said.model_name) == (None, f"{scenario.name}-{at // size}")
                ],
            )
            for at in range(0, scenario.reps, size)
        ]
        return judging.of_fleets(scenario, fleets)
    if scenario.expect == "none":
        return judging.of_streams(scenario, list(zip(streams, own, strict=True)))
    figures = judging.of_streams(scenario, list(zip(streams[::size], own[::size], strict=True)))
    quiet = [said for rep, each in enumerate(own) if rep % size for said in each]
    figures.others = sum(said.severity in judging.ALARMING for said in quiet)
    return figures


def listen(streams: Iterable[Iterable[counters.Line]], command: Sequence[str] = COMMAND) -> list[Said]:
    """Pipe streams into a command that reads the counters format, and return what it said, in time order.

    Raises CalledProcessError where the command fails.
    """
    opened: dict[str, Said] = {}
    with tempfile.TemporaryFile("w+") as output:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, text=True) as process:
            assert process.stdin is not None
            for _, line in heapq.merge(*streams, key=lambda each: each[0]):
                process.stdin.write(f"{line}\n")
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        output.seek(0)
        for line in output:
            record = json.loads(line)
            if record["type"] == "event":
                opened.setdefault(record["id"], _said(record))  # as it was when it opened
    return sorted(opened.values(), key=lambda said: said.at)


def _said(record: _Record) -> Said:
    kind, before, after = record["kind"], record["before"]["mal"], record["after"]["mal"]
    direction: Literal["down", "up"] | None = "up" if kind == "improvement" else "down"
    return judging.Said(
        target=record["target"],
        model_name=record["model_name"],
        at=record["raised_at"],
        direction=None if kind in ("regime_change", "data_quality") else direction,
        severity=record["severity"],
        since=record["change_point_at"],
        kind=kind,
        detector=record["detector"],
        lasts=record["status"] == "open",
        rose=before is not None and after is not None and after > before,
    )
