"""`specmon advise`: which num_speculative_tokens, and from what batch size speculation stops paying."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING

from monitor.service import commands

if TYPE_CHECKING:
    import argparse

    from monitor.core.streams.worth import Told

MOST_OPTIONS = 9  # k = 0 … 8 are shown to people, all of them with --json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The pages, and what the operator knows of the plain step."""
    from monitor.service.commands import looking

    looking.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line: the advice per stream")
    parser.add_argument(
        "--plain-step-seconds",
        metavar="SECONDS",
        type=float,
        default=math.nan,
        help="time of a decode step without speculation at this batch size, as you measured it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the advice for each stream; FOUND where another k is advised."""
    from monitor.core.streams import advising
    from monitor.service.commands import looking

    plan, state = looking.stepped(looking.pages(arguments), _told(arguments.plain_step_seconds))
    records = advising.over_life(plan, state)
    if not records:
        raise commands.Unusable(looking.why_no_stream(state))
    for record in records:
        line = json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n"
        sys.stdout.write(line if arguments.json else described(record))
    changed = any(record["best"] not in {None, record["num_speculative_tokens"]} for record in records)
    return commands.FOUND if changed else commands.FINE


def _told(plain_step_seconds: float) -> dict[str, Told]:
    from monitor.core.streams.worth import Told

    if math.isnan(plain_step_seconds):
        return {}
    if plain_step_seconds <= 0:
        raise commands.Unusable(
            f"--plain-step-seconds: read {plain_step_seconds:g}, expected seconds above 0"
        )
    return {"": Told(plain_step_seconds=plain_step_seconds)}


def described(record: dict[str, object]) -> str:
    """Return one stream's advice as lines for people."""
    lines = [str(record["stream"]), f"  {record['sentence']}"]
    if record["flag"] and record["best"] != record["num_speculative_tokens"]:
        lines.append(f"  set it with      {record['flag']}")
    options = record["options"]
    if isinstance(options, list) and options:
        lines.append("   k    MAL   speed-up   the last token adds")
        lines += [_option(option) for option in options[:MOST_OPTIONS]]
    if record.get("schedule_flag"):
        lines.append(f"  by batch size    {record['schedule_flag']}")
    if record.get("stops_paying_at"):
        lines.append(f"  stops paying     from a batch of {record['stops_paying_at']}")
    wasted = record.get("wasted_ratio")
    if isinstance(wasted, float):
        lines.append(f"  wasted           {100 * wasted:.0f} % of the draft tokens are rejected")
    if record.get("dead_tail_from") is not None:
        lines.append(f"  dead tail        from position {record['dead_tail_from']} on")
    notes = record["notes"]
    lines += [f"  note             {note}" for note in (notes if isinstance(notes, list) else [])]
    return "\n".join(lines) + "\n"


def _option(option: dict[str, float]) -> str:
    mark = "*" if option["extrapolated"] else " "
    tokens, speedup = option["num_speculative_tokens"], option["speedup"]
    return f"  {tokens:2d}{mark} {option['mal']:6.3f}   {speedup:6.2f}×   {option['gain']:.3f}"
