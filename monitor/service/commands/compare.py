"""`specmon compare`: does a second recording accept more or less than a first one, and how sure is that."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from monitor.service import commands

if TYPE_CHECKING:
    import argparse

    from monitor.core.streams.comparing import Compared, Recorded
    from monitor.core.streams.summaries import Record

NOT_ENOUGH = "not_enough"
_WORDS = {
    "better": "better",
    "worse": "worse",
    "no_difference": "no difference shown",
    NOT_ENOUGH: "not enough yet",
}
_SHOWN = (
    "drafts", "num_speculative_tokens", "mal", "mal_low", "mal_high",
    "tokens_per_step", "step_seconds", "implied_tpot_seconds",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two recordings, the model, and the form of the answer."""
    source = "a folder of pages, a JSONL or OpenMetrics file, or an engine's log"
    parser.add_argument("baseline", metavar="BASELINE", help=source)
    parser.add_argument("candidate", metavar="CANDIDATE", help="the same, of what is compared with it")
    parser.add_argument(
        "--model", metavar="NAME", default="", help="the model, where a recording has several"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Print the word; FOUND where the candidate is worse, FINE where it is better, alike or not known yet."""
    from monitor.core.streams import comparing

    baseline, before = _side(arguments.baseline, arguments.model)
    candidate, after = _side(arguments.candidate, arguments.model)
    record = _record(comparing.compared(baseline, candidate), before, after)
    line = json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n"
    sys.stdout.write(line if arguments.json else described(record))
    return commands.FOUND if record["verdict"] == "worse" else commands.FINE


def _side(source: str, model: str) -> tuple[Recorded, list[Record]]:
    """Return what a recording counted of the model and its streams' summaries. Raises Unusable."""
    from monitor import sources
    from monitor.core import pipeline
    from monitor.core.streams import comparing, summaries
    from monitor.sources import files

    plan = pipeline.Plan()
    state, side = pipeline.begin(plan), comparing.Recorded()
    try:
        for batch in files.replay(source):
            for seen in pipeline.step(plan, state, batch).observations:
                comparing.add(side, state, seen.counts, model)
    except sources.Unreadable as error:
        raise commands.Unusable(str(error)) from error
    records = [each for each in summaries.totals(plan, state) if each["stream"] is not None]
    names = sorted({str(each["model_name"] or "") for each in records})
    if model and model not in names:
        raise commands.Unusable(f"{source}: read no model {model!r}, expected one of {', '.join(names)}")
    if not model and len(names) > 1:
        raise commands.Unusable(
            f"{source}: read the models {', '.join(names)}, expected one; name it with --model"
        )
    if not records:
        raise commands.Unusable(f"{source}: read no stream, expected a recording with speculative decoding")
    return side, [each for each in records if not model or each["model_name"] == model]


def _record(found: Compared, before: list[Record], after: list[Record]) -> dict[str, object]:
    verdict = found.verdict
    return {
        "verdict": NOT_ENOUGH if verdict is None else verdict.outcome,
        "mal_difference": None if verdict is None else verdict.difference,
        "mal_difference_low": None if verdict is None else verdict.low,
        "mal_difference_high": None if verdict is None else verdict.high,
        "confidence": None if verdict is None else verdict.confidence,
        "positions": found.positions,
        "minutes": found.minutes,
        "same_time": found.same_time,
        "baseline": [_shown(each) for each in before],
        "candidate": [_shown(each) for each in after],
    }


def _shown(record: Record) -> dict[str, object]:
    return {name: record[name] for name in ("stream", *_SHOWN) if name in record}


def described(record: dict[str, object]) -> str:
    """Return the word as lines for people."""
    lines = [f"{_WORDS[str(record['verdict'])]}"]
    if record["mal_difference"] is not None:
        lines.append(
            f"  difference       {record['mal_difference']:+.3f} tokens per draft "
            f"[{record['mal_difference_low']:+.3f}, {record['mal_difference_high']:+.3f}], "
            f"over the {record['positions']} positions that both draft"
        )
    together = "of the same time" if record["same_time"] else "not of the same time: traffic may differ"
    lines.append(f"  rests on         {record['minutes']} minutes of each, {together}")
    for side in ("baseline", "candidate"):
        held = record[side]
        lines += [f"  {side:16} {_summary(each)}" for each in (held if isinstance(held, list) else [])]
    return "\n".join(lines) + "\n"


def _summary(shown: dict[str, object]) -> str:
    mal, tpot = shown.get("mal"), shown.get("implied_tpot_seconds")
    length = f"{mal:.3f} tokens per draft" if isinstance(mal, float) else "length unknown"
    speed = (
        f", {1.0 / tpot:.1f} tokens per second and request" if isinstance(tpot, float) and tpot > 0 else ""
    )
    return f"{shown['stream']}: {length}{speed}"
