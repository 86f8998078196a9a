"""`specmon replay`: history through the very pipeline of the live service."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from monitor import commands

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from monitor.events import Event
    from monitor.pipeline import Plan
    from monitor.scrapes import Scrape
    from monitor.streams import State


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The source and the form of the output."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="a folder of pages, a JSONL or OpenMetrics file, or - for standard input",
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
    from monitor import detectors, pipeline, quantities, sources
    from monitor.commands import listing
    from monitor.sources import files

    if arguments.false_alarms_per_month <= 0:
        raise commands.Unusable(
            f"--false-alarms-per-month {arguments.false_alarms_per_month:g}: expected a number above 0"
        )
    try:
        every = quantities.duration(arguments.every) if arguments.every else 0.0
    except ValueError as error:
        raise commands.Unusable(f"--every: {error}") from error
    plan = pipeline.Plan(detection=detectors.Plan(false_alarms_per_month=arguments.false_alarms_per_month))
    output = (
        listing.JsonLines(every=every, updates=arguments.updates)
        if arguments.json
        else listing.Text(sys.stdout)
    )
    progress = listing.progress(sys.stderr)
    try:
        state = replayed(plan, files.replay(arguments.source, progress), output)
    except sources.Unreadable as error:
        raise commands.Unusable(str(error)) from error
    output.end(plan, state)
    return commands.FINE


def replayed(plan: Plan, batches: Iterator[list[Scrape]], output: Output) -> State:
    """Return the state after all batches; `output` is told of each step."""
    from monitor import pipeline

    state = pipeline.begin(plan)
    for batch in batches:
        step = pipeline.step(plan, state, batch)
        output.step(plan, state, batch[-1].at, step.events)
    return state


if TYPE_CHECKING:
    from typing import Protocol

    class Output(Protocol):
        """Where a replay's findings go."""

        def step(self, plan: Plan, state: State, now: float, events: tuple[Event, ...]) -> None:
            """Take the events of one step that ended at `now`."""

        def end(self, plan: Plan, state: State) -> None:
            """Take the state after the last step."""
