"""Learns what signs speak for, and measures how often the true cause comes first.

    python -m tests.acceptbench.causes            prints the figures on fleets that the table has not seen
    python -m tests.acceptbench.causes --write    learns the table anew: monitor/core/events/attribution/learnt.py

Every fleet goes through the product's own pipeline. What counts is the first event that its change brings, as
it stands at the end: the product looks at it again while it is open.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
from collections import Counter as Tally
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.core import pipeline
from monitor.core.events import attribution
from monitor.core.events.attribution import learnt, signs
from tests.acceptbench.causing import CAUSES, HISTORY, INTERVAL, SIZES, START, TRAFFIC, Case, Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from monitor.core.events import Event
    from monitor.core.events.attribution.signs import Sign, Surroundings
    from monitor.core.vocabulary import CauseName

TABLE = Path(learnt.__file__)
LEARNT_SEED, JUDGED_SEED = 1, 2
FALLS = ("collapse", "drop", "tail_drop", "decay", "dead_draft", "regime_change", "improvement")
FLEETS = (1, 6)
NOT_LEARNT = ("step_time",)
"""Signs that are told and not weighed: what a step takes follows from batch sizes and lengths of contexts, in ways
that differ from one card and engine to the next."""
PAIRS: tuple[tuple[CauseName, CauseName], ...] = (
    ("draft", "traffic"),
    ("engine", "load"),
    ("config", "traffic"),
    ("context_limit", "load"),
    ("target_model", "load"),
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a case: the first event of its change with its causes, and the signs at each look at it."""

    case: Case
    kind: str | None
    causes: tuple[tuple[str, float], ...]
    looks: tuple[tuple[tuple[str, str], ...], ...]


class _Heard:
    """Listens to what signs the product measures for each change point."""

    def __init__(self) -> None:
        self.signs: dict[tuple[float, float], list[tuple[tuple[str, str], ...]]] = {}
        self.measure = signs.of

    def __call__(self, around: Surroundings) -> tuple[Sign, ...]:
        found = self.measure(around)
        values = tuple((sign.name, sign.value) for sign in found)
        looks = self.signs.setdefault(around.change_point, [])
        if values not in looks:
            looks.append(values)
        return found


def run(job: tuple[Case, int]) -> Judged:
    """Return what the product says of one fleet."""
    case, seed = job
    heard = _Heard()
    attribution.signs.of = heard
    try:
        first = _first(Fleet(case, seed))
    finally:
        attribution.signs.of = heard.measure
    if first is None:
        return Judged(case, None, (), ())
    looks = heard.signs.get((first.change_point_low, first.change_point_high), [])
    return Judged(
        case,
        first.kind,
        tuple((cause.cause, cause.weight) for cause in first.causes),
        tuple(looks),
    )


def _first(fleet: Fleet) -> Event | None:
    """Return the first event raised after the change, as it stood at the end."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    events: dict[str, Event] = {}
    for scrapes in fleet.scrapes():
        step = pipeline.step(plan, state, scrapes)
        state = step.state
        for event in step.events:
            events[event.id] = event
    for identity in state.identities:
        if identity.event is not None:
            events[identity.event.id] = identity.event
    since = START + (HISTORY - 2) * INTERVAL
    falls = [event for event in events.values() if event.kind in FALLS and event.raised_at >= since]
    return min(falls, key=lambda event: (event.kind == "regime_change", event.raised_at), default=None)


def cases(numbers: Iterable[int], causes: Sequence[CauseName] = CAUSES) -> list[Case]:
    """Return each cause in each size, traffic and fleet; one bad replica needs others beside it."""
    return [
        Case(cause, size, traffic, replicas, number)
        for cause, size, traffic, replicas, number in itertools.product(
            causes, SIZES, TRAFFIC, FLEETS, numbers
        )
        if cause != "replica" or replicas > 1
    ]


def pairs(numbers: Iterable[int]) -> list[Case]:
    """Return fleets with two causes at once."""
    return [
        Case(first, "medium", traffic, 6, number, second)
        for (first, second), traffic, number in itertools.product(PAIRS, TRAFFIC, numbers)
    ]


def outcome(found: Judged) -> str:
    """Return "right", "unknown", "wrong", or "silent" where there was no event."""
    if found.kind is None:
        return "silent"
    first = found.causes[0][0]
    brought = first == "restart" and found.case.cause in attribution.BROUGHT_BY_RESTARTS
    if first in (found.case.cause, found.case.second) or brought:
        return "right"
    return "unknown" if first == "unknown" else "wrong"


def _table(found: Sequence[Judged]) -> str:
    counts: dict[str, dict[str, Tally[str]]] = {cause: {} for cause in CAUSES}
    for each in found:
        for name, value in itertools.chain.from_iterable(each.looks):
            if value != "unknown" and name not in NOT_LEARNT:
                counts[each.case.cause].setdefault(name, Tally())[value] += 1
    lines = [
        '"""How often each value of each sign was seen under each cause, in simulated fleets.',
        "",
        "Written by `python -m tests.acceptbench.causes --write`; do not edit.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "# fmt: off",
        "COUNTS: dict[str, dict[str, dict[str, int]]] = {",
    ]
    for cause, by_sign in counts.items():
        lines.append(f'    "{cause}": {{')
        for name, values in by_sign.items():
            told = ", ".join(f'"{value}": {number}' for value, number in sorted(values.items()))
            lines.append(f'        "{name}": {{{told}}},')
        lines.append("    },")
    return "\n".join([*lines, "}", ""])


def figures(found: Sequence[Judged]) -> str:
    """Return how often each cause came first, one line a cause."""
    lines = []
    for cause in CAUSES:
        own = [each for each in found if each.case.cause == cause and each.case.second is None]
        if own:
            lines.append(_line(cause, own))
    double = [each for each in found if each.case.second is not None]
    return "\n".join([*lines, *([_line("two at once", double)] if double else [])])


def _line(name: str, found: Sequence[Judged]) -> str:
    tally = Tally(outcome(each) for each in found)
    wrong = Tally(each.causes[0][0] for each in found if outcome(each) == "wrong")
    told = ", ".join(f"{cause} {number}" for cause, number in wrong.most_common(3))
    heard = len(found) - tally["silent"]
    return (
        f"{name:14s} {len(found):4d} fleets, {heard:4d} with an event: right {tally['right']:4d} "
        f"({100 * tally['right'] / max(heard, 1):3.0f} %), unknown {tally['unknown']:3d}, wrong "
        f"{tally['wrong']:3d}" + (f" ({told})" if told else "")
    )


def main() -> None:
    """Learn the table or print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="learn the table anew")
    parser.add_argument(
        "--numbers", type=int, default=3, help="fleets of each cause, size, traffic and number"
    )
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    numbers = range(asked.numbers)
    with multiprocessing.Pool(asked.processes) as pool:
        if asked.write:
            jobs = [(case, LEARNT_SEED) for case in cases(numbers)]
            TABLE.write_text(_table(pool.map(run, jobs, chunksize=4)))
            return
        jobs = [(case, JUDGED_SEED) for case in [*cases(numbers), *pairs(numbers)]]
        print(figures(pool.map(run, jobs, chunksize=4)))


if __name__ == "__main__":
    main()
