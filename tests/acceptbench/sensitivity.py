"""What a fifth less and a fourth more of each number in detectors and fleet does to what is found.

A small bench in memory: streams of a few scenarios, some without a change, in step through `detectors.step` and, for
the fleet's numbers, `fleet.step`. A number is scaled in its module, which is defined anew in a process of its own;
what every scenario shows then is compared with what it shows as it is. It is a measure of what matters, not of
how well anything is found: the streams are short, and those of one scenario few.

    python -m tests.acceptbench.sensitivity [MODULE…] [--factors 0.8,1.25] [--seed N] [--jobs N]

Printed is a line a number and factor: `alike`, or by how much false alarms, the share found and the median differ.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import detectors, fleet
from monitor.core.counts.deltas import Counts
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence
from tests.acceptbench import catalogue, generate
from tests.acceptbench.scenarios import Change, Scenario, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

ROOT = Path(__file__).parents[2]
ROOMS = ("detectors", "fleet")
HOURS, CHANGE_AT = 7.5, (5.0, 5.5)
LEAST_DIFFERENCE = 1.5  # minutes by which a median may differ, and still be alike
ALIKE_SHARE = 0.25

_FALL = Change("ramp", shift=-0.9, ramp_h=1.5)
SINGLE = (
    *(replace(catalogue.ALL[name], reps=6) for name in ("null-diurnal", "null-medium-bursty", "null-low")),
    replace(catalogue.ALL["null-heavy"], reps=4),
    *(replace(catalogue.ALL[name], reps=4) for name in ("collapse-medium", "collapse-low", "late-high")),
    *(replace(catalogue.ALL[name], reps=6) for name in ("partial-high", "partial-medium")),
    *(replace(catalogue.ALL[name], reps=4) for name in ("blank-tenth", "subset-30pct", "improve-high")),
    replace(catalogue.ALL["tenant-45min"], reps=4),
    Scenario("slide", catalogue.HIGH, _FALL, reps=4, expect="down"),
)
FLEETS = tuple(
    replace(catalogue.ALL[name], reps=reps)
    for name, reps in (
        ("fleet-null", 8),
        ("fleet-one-partial", 16),
        ("fleet-one-medium", 8),
        ("fleet-all-partial", 8),
    )
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What one scenario showed: alarms before the change or without one, minutes to the finds, alarms closed."""

    false: int
    groups: int
    minutes: tuple[float, ...]
    closed: int

    @property
    def median(self) -> float:
        """The median of the minutes, infinite where half were not found."""
        return float(
            np.quantile(
                [*self.minutes, *[math.inf] * (self.groups - len(self.minutes))], 0.5, method="higher"
            )
        )


def shortened(scenario: Scenario) -> Scenario:
    """Return a scenario whose change comes after five hours."""
    return replace(scenario, hours=HOURS, change=replace(scenario.change, at_h=CHANGE_AT))


@cache
def streams(scenarios: tuple[Scenario, ...], seed: int) -> tuple[tuple[Scenario, Stream], ...]:
    """Return the streams of scenarios, replica after replica."""
    short = [shortened(each) for each in scenarios]
    return tuple((each, generate.simulate(each, rep, seed)) for each in short for rep in range(each.reps))


def intervals(some: Sequence[Stream]) -> Iterator[Counts]:
    """Yield the counts of streams in step, interval by interval."""
    size, width = len(some), max(each.accepted.shape[1] for each in some)
    accepted = np.zeros((len(some[0]), size, width))
    for row, each in enumerate(some):
        accepted[:, row, : each.accepted.shape[1]] = each.accepted
    drafts = np.stack([each.drafts for each in some], 1).astype(np.float64)
    no, k = np.zeros(size, bool), np.array([each.accepted.shape[1] for each in some])
    for step, at in enumerate(some[0].t):
        values = np.full((size, NUM_COUNTERS), np.nan)
        values[:, Counter.DRAFTS], values[:, Counter.DRAFT_TOKENS] = drafts[step], drafts[step] * k
        values[:, Counter.ACCEPTED_TOKENS] = accepted[step].sum(1)
        yield Counts(
            rows=np.arange(size),
            at=np.full(size, at),
            seconds=np.full(size, 15.0),
            values=values,
            accepted=accepted[step],
            positions=k,
            num_speculative_tokens=k,
            evidence=np.full(size, int(Evidence.STEPS)),
            restarted=no,
            gap=no,
            new_regime=no,
        )


def shown(scenarios: tuple[Scenario, ...], seed: int, *, together: bool) -> dict[str, Shown]:
    """Return what each scenario shows; replicas are compared where `together`."""
    every = streams(scenarios, seed)
    plan = detectors.DetectionPlan()
    watch = detectors.allocate(plan, len(every))
    groups = _groups(every)
    compared = fleet.allocate(len(every), int(groups.max()) + 1)
    told: list[tuple[int, float, str, str]] = []
    for counts in intervals([stream for _, stream in every]):
        findings = detectors.step(plan, watch, counts)
        alarms = [(alarm.index, alarm) for alarm in findings.alarms]
        if together:
            said = fleet.step(plan, compared, groups, counts, watch, watch, findings)
            alarms = [(alarm.index, alarm) for alarm in said.findings.alarms] + list(said.named)
            told += [(each.rows[0], each.raised_at, each.action, each.kind) for each in said.common]
        told += [(row, alarm.raised_at, alarm.action, alarm.kind) for row, alarm in alarms]
    return _judged(every, told)


def _groups(every: Sequence[tuple[Scenario, Stream]]) -> npt.NDArray[np.int64]:
    return np.array([row // max(scenario.fleet, 1) for row, (scenario, _) in enumerate(every)])


def _judged(
    every: Sequence[tuple[Scenario, Stream]], told: Sequence[tuple[int, float, str, str]]
) -> dict[str, Shown]:
    found: dict[str, Shown] = {}
    for row, (scenario, stream) in enumerate(every):
        before = found.get(scenario.name, Shown(0, 0, (), 0))
        own = [each for each in told if each[0] == row]
        change = stream.change_at if stream.shift.any() else None
        opened = [at for _, at, action, kind in own if action == "open" and _counts(scenario, kind)]
        late = [(at - change) / 60.0 for at in opened if change is not None and at > change]
        found[scenario.name] = Shown(
            false=before.false + len(opened) - len(late),
            groups=before.groups + (change is not None),
            minutes=(*before.minutes, *sorted(late)[:1]),
            closed=before.closed + sum(action == "close" for _, _, action, _ in own),
        )
    return found


def _counts(scenario: Scenario, kind: str) -> bool:
    """Whether an alarm counts: improvements are information, but where one is put in."""
    return kind != "improvement" or scenario.expect == "up"


def difference(base: dict[str, Shown], other: dict[str, Shown]) -> str:
    """Return in words what differs, `alike` where nothing does that a few streams could tell."""
    words = []
    false = sum(other[name].false - base[name].false for name in base)
    if abs(false) > max(2, 0.25 * sum(each.false for each in base.values())):
        words.append(f"{false:+d} false alarms")
    for name, before in base.items():
        now = other[name]
        if abs(len(now.minutes) - len(before.minutes)) > 1:
            words.append(f"{name} {len(before.minutes)} → {len(now.minutes)} found")
        elif before.groups and min(before.median, now.median) < math.inf:
            apart = abs(now.median - before.median)
            if apart > max(LEAST_DIFFERENCE, ALIKE_SHARE * min(before.median, now.median)):
                words.append(f"{name} {before.median:.1f} → {now.median:.1f} min")
        if abs(now.closed - before.closed) > max(2, ALIKE_SHARE * before.closed):
            words.append(f"{name} {before.closed} → {now.closed} closed")
    return ", ".join(words) or "alike"


def numbers(module: str) -> list[str]:
    """Return the names of a module's numbers that are not whole: those that shape its tables stay."""
    found = importlib.import_module(module)
    names = [
        target.id
        for node in ast.parse(Path(str(found.__file__)).read_text()).body
        if isinstance(node, ast.Assign)
        for each in node.targets
        for target in (each.elts if isinstance(each, ast.Tuple) else [each])
        if isinstance(target, ast.Name) and target.id.isupper() and not target.id.startswith("_")
    ]
    return [name for name in names if _is_free(getattr(found, name))]


def _is_free(value: object) -> bool:
    if isinstance(value, tuple):
        return all(isinstance(each, float) for each in value)
    return isinstance(value, float) or (isinstance(value, np.ndarray) and value.dtype == np.float64)


def scaled(module: str, name: str, factor: float) -> None:
    """Define a module anew with one of its numbers scaled."""
    known = importlib.import_module(module)
    tree = ast.parse(Path(str(known.__file__)).read_text())
    change = ast.parse(
        f"{name} = tuple(_ * {factor} for _ in {name}) if isinstance({name}, tuple) else {name} * {factor}"
    ).body
    body: list[ast.stmt] = []
    for node in tree.body:
        body.append(node)
        if isinstance(node, ast.Assign) and any(
            isinstance(each, ast.Name) and each.id == name
            for target in node.targets
            for each in ast.walk(target)
        ):
            body += change
    tree.body = body
    exec(compile(ast.fix_missing_locations(tree), str(known.__file__), "exec"), known.__dict__)  # noqa: S102


def _varied(seed: int, which: tuple[str, str, float]) -> dict[str, Shown] | None:
    """Return what is shown with a number scaled, in a process of its own; None where it cannot be."""
    module, name, factor = which
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            scaled(module, name, factor)
            found = shown(_scenarios(module), seed, together=".fleet" in module)
            os.write(write, json.dumps({each: _plain(value) for each, value in found.items()}).encode())
            os._exit(0)
        except BaseException:  # noqa: BLE001 — a child goes no further than this
            os._exit(1)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    if not text:
        return None
    return {
        name: Shown(false, groups, tuple(minutes), closed)
        for name, (false, groups, minutes, closed) in json.loads(text).items()
    }


def _plain(value: Shown) -> list[object]:
    return [getattr(value, field.name) for field in fields(value)]


def _scenarios(module: str) -> tuple[Scenario, ...]:
    return FLEETS if ".fleet" in module else SINGLE


def modules() -> list[str]:
    """Return the modules whose numbers are looked at."""
    core = ROOT / "monitor" / "core"
    paths = [path for room in ROOMS for path in sorted((core / room).rglob("*.py"))]
    dotted = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]
    return [name for name in dotted if numbers(name)]


def main() -> None:
    """Print a line a number and factor."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--factors", default="0.8,1.25")
    parser.add_argument("--seed", type=int, default=90817)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    for module in modules():
        if asked.modules and not any(module.endswith(name) for name in asked.modules):
            continue
        base = shown(_scenarios(module), asked.seed, together=".fleet" in module)
        which = [
            (module, name, float(factor)) for name in numbers(module) for factor in asked.factors.split(",")
        ]
        with ThreadPoolExecutor(asked.jobs) as pool:
            for (_, name, factor), found in zip(
                which, pool.map(partial(_varied, asked.seed), which), strict=True
            ):
                said = "fails" if found is None else difference(base, found)
                print(f"{module.removeprefix('monitor.core.')}.{name} × {factor}: {said}", flush=True)


if __name__ == "__main__":
    main()
