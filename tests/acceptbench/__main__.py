"""Simulated scenarios of what happens to speculation: listed, written to files, or run through the product.

    python -m tests.acceptbench list
    python -m tests.acceptbench run [--only null,change,other,fleet,NAME…] [--reps N] [--seed N]
    python -m tests.acceptbench export NAME DIR [--reps N] [--seed N] [--format jsonl|openmetrics]

Fresh pods have scenarios and a command of their own: `python -m tests.acceptbench.newpods`.
"""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from tests.acceptbench import catalogue, counters, generate, replaying


def _list(_: argparse.Namespace) -> None:
    for scenario in catalogue.ALL.values():
        print(scenario)


def _run(asked: argparse.Namespace) -> None:
    quiet = []
    for scenario in catalogue.named(asked.only):
        figures = replaying.run(scenario, asked.seed, asked.reps, shlex.split(asked.command))
        print(figures, flush=True)
        if scenario.expect == "none":
            quiet.append(figures)
    if quiet:
        hours = sum(each.hours for each in quiet)
        alarms, pages = (
            720.0 * sum(getattr(each, name) for each in quiet) / hours for name in ("false_alarms", "pages")
        )
        print(
            f"nothing changed: {alarms:.2f} false alarms, {pages:.2f} pages a replica-month in {hours:.0f} h"
        )


def _export(asked: argparse.Namespace) -> None:
    folder = Path(asked.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for scenario in catalogue.named(asked.name):
        for rep in range(asked.reps or scenario.reps):
            stream = generate.simulate(scenario, rep, asked.seed)
            base = folder / f"{scenario.name}-{asked.seed}-{rep}"
            truth = json.dumps(counters.truth(scenario, stream, rep, asked.seed), indent=1)
            base.with_suffix(".truth.json").write_text(truth)
            model = f"{scenario.name}-{rep}"
            if asked.format == "openmetrics":
                counters.write_pages(stream, base, model)
            else:
                text = "".join(f"{line}\n" for _, line in counters.lines(stream, f"rep-{rep}", model))
                base.with_suffix(".jsonl").write_text(text)


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    listing = commands.add_parser("list")
    listing.set_defaults(does=_list)
    running = commands.add_parser("run")
    running.add_argument("--command", default=shlex.join(replaying.COMMAND))
    running.add_argument("--only", default="null,change,other,fleet")
    running.set_defaults(does=_run)
    exporting = commands.add_parser("export")
    exporting.add_argument("name")
    exporting.add_argument("folder")
    exporting.add_argument("--format", choices=("jsonl", "openmetrics"), default="jsonl")
    exporting.set_defaults(does=_export)
    for command in (running, exporting):
        command.add_argument("--reps", type=int)
        command.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    asked.does(asked)


if __name__ == "__main__":
    main()
