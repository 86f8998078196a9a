"""`specmon inspect`: what a page says, what happened between several of an engine, or what its log tells."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

from monitor.core.vocabulary import STATES
from monitor.service import commands

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from monitor.core.pages.scrapes import Scrape
    from monitor.core.streams.summaries import Record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The pages and the form of the answer."""
    from monitor.service.commands import looking

    looking.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line: a summary per stream")
    parser.add_argument(
        "--fail-on",
        metavar="STATES",
        default="",
        help="exit with 1 where a stream is in one of these states, such as collapsed,off,unsupported",
    )
    parser.add_argument(
        "--expect",
        metavar="MAL",
        type=float,
        help="exit with 1 where the mean acceptance length is below this or unknown: a check for CI",
    )
    parser.add_argument(
        "--tolerance",
        metavar="SHARE",
        type=float,
        default=0.0,
        help="how much of MAL - 1 may be missing of --expect, such as 0.05 (default: 0)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print what the pages say; FOUND where a stream is in a state of --fail-on or below --expect."""
    from monitor.core.streams import summaries
    from monitor.service.commands import looking

    failing = frozenset(arguments.fail_on.split(",")) if arguments.fail_on else frozenset()
    unknown = failing - frozenset(STATES)
    if unknown:
        raise commands.Unusable(
            f"--fail-on: read {', '.join(sorted(unknown))}, expected some of {', '.join(STATES)}"
        )
    least = _least(arguments)
    pages = looking.pages(arguments)
    plan, state = looking.stepped(pages)
    records = summaries.totals(plan, state)
    bad_lines = _unreadable_lines(pages)
    for record in records:
        if bad_lines:
            record["unreadable_lines"] = bad_lines
        if least is not None:
            record["expected"] = _held_against(record, least)
        sys.stdout.write(
            json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n"
            if arguments.json
            else described(record)
        )
    missed = [record for record in records if least is not None and not _as_expected(record)]
    failed = any(record["state"] in failing for record in records)
    return commands.FOUND if failed or missed else commands.FINE


def _least(arguments: argparse.Namespace) -> float | None:
    """Return the length that must be reached, None where none is expected. Raises Unusable."""
    expected, tolerance = arguments.expect, arguments.tolerance
    if expected is None:
        return None
    if not 1.0 <= expected < math.inf:
        raise commands.Unusable(f"--expect: read {expected}, expected a number of tokens from 1 on")
    if not 0.0 <= tolerance < 1.0:
        raise commands.Unusable(f"--tolerance: read {tolerance}, expected a share such as 0.05")
    return 1.0 + float((expected - 1.0) * (1.0 - tolerance))


def _held_against(record: Record, least: float) -> Record:
    """Return what a stream shows of the length it must reach: below is said with proof only."""
    mal, high = record.get("mal"), record.get("mal_high")
    if not isinstance(mal, float) or not isinstance(high, float):
        return {"mal": least, "outcome": "unknown", "sentence": f"{least:.2f}: no draft tells the length"}
    if high < least:
        return {"mal": least, "outcome": "below", "sentence": f"{least:.2f}: {mal:.2f} is below it"}
    words = "reached" if mal >= least else "the evidence does not show that it is missed"
    return {"mal": least, "outcome": "reached", "sentence": f"{least:.2f}: {words}"}


def _as_expected(record: Record) -> bool:
    held = record["expected"]
    return isinstance(held, dict) and held["outcome"] == "reached"


def _unreadable_lines(pages: Sequence[Scrape]) -> list[str]:
    from monitor.core.pages import exposition

    return [
        f"line {problem.line_number}: {problem.expected}, read {problem.line!r}"
        for page in pages
        for problem in exposition.unreadable(page.body or b"")
    ]


def described(record: Record) -> str:
    """Return a summary as lines for people."""
    name = f"{record['target']}  {record['model_name'] or ''}  replica {record['replica']}"
    if record["stream"] is None:
        return f"{record['target']}\n  state                    {record['state']}: {record['reason']}\n"
    lines = [name, f"  engine                   {record['engine']} {record['engine_version'] or ''}".rstrip()]
    why = f": {record['reason']}" if record["reason"] else ""
    lines.append(f"  state                    {record['state']}{why}")
    for label, field, form in _LINES:
        value = record[field]
        lines.append(f"  {label:24} {'unknown' if value is None else form.format(value)}")
        if field == "mal" and value is not None:
            lines.append(f"  {'  95 % interval':24} {record['mal_low']:.3f} … {record['mal_high']:.3f}")
    for label, field in (
        ("accepted per position", "accepted"),
        ("marginal acceptance", "marginal"),
        ("conditional acceptance", "conditional"),
    ):
        values = record[field]
        if isinstance(values, list) and values:
            lines.append(f"  {label:24} {'  '.join(_cell(value) for value in values)}")
    lines.append(f"  {'does it pay?':24} {_verdict(record)}")
    if isinstance(held := record.get("expected"), dict):
        lines.append(f"  {'expected at least':24} {held['sentence']}")
    lines += [f"  unreadable               {line}" for line in record.get("unreadable_lines", [])]  # type: ignore[attr-defined]
    return "\n".join(lines) + "\n"


def _verdict(record: Record) -> str:
    payoff = record["payoff"]
    return str(payoff["sentence"]) if isinstance(payoff, dict) else "unknown"


def _cell(value: object) -> str:
    return "–" if value is None else f"{value}" if isinstance(value, int) else f"{value:.3f}"


_LINES = (
    ("drafts", "drafts", "{}"),
    ("draft tokens", "draft_tokens", "{}"),
    ("accepted tokens", "accepted_tokens", "{}"),
    ("mean acceptance length", "mal", "{:.3f} tokens per draft, the bonus token included"),
    ("alpha (model value)", "alpha", "{:.3f}"),
    ("accepted ÷ draft tokens", "draft_token_acceptance_ratio", "{:.3f}"),
    ("coverage", "coverage", "{:.3f} of the decode steps carried a draft"),
    ("tokens per step", "tokens_per_step", "{:.3f}"),
    ("step time", "step_seconds", "{:.6f} s"),
    ("implied TPOT", "implied_tpot_seconds", "{:.6f} s per token"),
    ("observed TPOT", "observed_tpot_seconds", "{:.6f} s per token, of finished requests"),
    ("batch size", "batch_size", "{:.2f}"),
)
