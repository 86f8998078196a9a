"""`specmon replay`: history through the very pipeline of the live service."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING

from monitor.service import commands
from monitor.service.commands import past

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from monitor.core.detectors.calibration import Excursions
    from monitor.core.events import Event
    from monitor.core.pages.scrapes import Scrape
    from monitor.core.pipeline import Plan
    from monitor.core.streams import State
    from monitor.service.commands.retelling import Retelling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The source and the form of the output."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder of pages, a JSONL or OpenMetrics file, an engine's log, - for standard input, the URL "
        "of a Prometheus",
    )
    past.add_arguments(parser)
    parser.add_argument(
        "--changes",
        metavar="FILE",
        default="",
        help="what was told of changes: the answer of /api/v1/changes, or a change a line (JSON)",
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object a line: events, estimates, summaries"
    )
    parser.add_argument(
        "--updates", action="store_true", help="with --json: an event also whenever it changes"
    )
    parser.add_argument(
        "--every", metavar="DURATION", default="", help="with --json: an estimate of each stream this often"
    )
    parser.add_argument(
        "--false-alarms-per-month",
        type=float,
        default=1.0,
        metavar="N",
        help="false alarms that you accept per replica and 30 days (default: 1)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what happened in the history, in time order, and a summary of each stream."""
    from monitor import sources
    from monitor.core import detectors, pipeline
    from monitor.core.detectors import calibration
    from monitor.service.commands import listing, retelling
    from monitor.settings import quantities

    if not 0 < arguments.false_alarms_per_month < math.inf:
        raise commands.Unusable(
            f"--false-alarms-per-month {arguments.false_alarms_per_month:g}: expected a number above 0"
        )
    try:
        every = quantities.duration(arguments.every) if arguments.every else 0.0
    except ValueError as error:
        raise commands.Unusable(f"--every {arguments.every}: {error}") from error
    plan = pipeline.Plan(
        detection=detectors.DetectionPlan(false_alarms_per_month=arguments.false_alarms_per_month)
    )
    output = (
        listing.JsonLines(every=every, updates=arguments.updates)
        if arguments.json
        else listing.Text(sys.stdout)
    )
    progress = listing.progress(sys.stderr)
    excursions = calibration.Excursions()
    changes = retelling.Retelling(retelling.read(arguments.changes) if arguments.changes else [])
    try:
        state = replayed(plan, _batches(arguments, progress), output, excursions, changes)
    except sources.Unreadable as error:
        raise commands.Unusable(str(error)) from error
    output.end(plan, state, excursions)
    for name, target in state.targets.items():
        if target.dropped:
            limit = plan.limits.streams_per_target
            print(f"specmon: {name}: more than {limit} streams, the others were left out", file=sys.stderr)
    return commands.FINE


def _batches(
    arguments: argparse.Namespace, progress: Callable[[float], None] | None
) -> Iterator[list[Scrape]]:
    span = past.Span(arguments.start, arguments.end, arguments.step, arguments.config)
    return past.batches(arguments.source, span, progress)


def replayed(
    plan: Plan,
    batches: Iterator[list[Scrape]],
    output: Output,
    excursions: Excursions | None = None,
    changes: Retelling | None = None,
) -> State:
    """Return the state after all batches; `output` is told of each step, `excursions` see its scores.

    What was told of `changes` the state is told of in time.
    """
    from monitor.core import pipeline

    state = pipeline.begin(plan)
    for batch in batches:
        if changes is not None:
            changes.until(state, batch[-1].at)
        step = pipeline.step(plan, state, batch)
        if excursions is not None:
            for seen in step.observations:
                excursions.see(seen.counts, seen.findings)
        output.step(plan, state, batch[-1].at, step.events)
    return state


if TYPE_CHECKING:
    from typing import Protocol

    class Output(Protocol):
        """Where a replay's findings go."""

        def step(self, plan: Plan, state: State, now: float, events: tuple[Event, ...]) -> None:
            """Take the events of one step that ended at `now`."""
