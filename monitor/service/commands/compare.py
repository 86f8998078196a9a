"""`specmon compare`: does a second recording accept more or less than a first one, and how sure is that.

Exit codes: 0 better, or no difference while a loss of the margin is excluded; 1 worse; 2 unreadable; 3 not
enough to say so yet.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from monitor.service import commands
from monitor.service.commands import past

if TYPE_CHECKING:
    import argparse

    from monitor.core.streams.comparing import Compared, Recorded
    from monitor.core.streams.summaries import Record

_WORDS = {
    "better": "better",
    "worse": "worse",
    "no_difference": "no difference shown",
    "not_enough": "not enough yet",
}
_SHOWN = (
    "drafts", "num_speculative_tokens", "mal", "mal_low", "mal_high",
    "tokens_per_step", "step_seconds", "implied_tpot_seconds",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The two recordings, the model, and the form of the answer."""
    source = "a folder of pages, a JSONL or OpenMetrics file, an engine's log, or the URL of a Prometheus"
    parser.add_argument("baseline", metavar="BASELINE", help=source)
    parser.add_argument("candidate", metavar="CANDIDATE", help="the same, of what is compared with it")
    parser.add_argument(
        "--model", metavar="NAME", default="", help="the model, where a recording has several"
    )
    parser.add_argument(
        "--margin",
        type=float,
        default=0.1,
        metavar="SHARE",
        help="of the mean acceptance length whose loss must be excluded to say no difference (default: 0.1)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    past.add_arguments(parser)
    _add_sides(parser)


def _add_sides(parser: argparse.ArgumentParser) -> None:
    sides = parser.add_argument_group("a URL: what is another of the two sides")
    selector = 'label matchers such as release="v2" (default: those of --config)'
    sides.add_argument("--baseline-selector", metavar="MATCHERS", default="", help=selector)
    sides.add_argument("--candidate-selector", metavar="MATCHERS", default="", help=selector)
    for name in ("start", "end"):
        sides.add_argument(
            f"--candidate-{name}", metavar="TIME", default="", help=f"of the candidate (default: --{name})"
        )


def run(arguments: argparse.Namespace) -> int:
    """Print the word; FOUND where the candidate is worse, UNDECIDED where too little was seen."""
    from monitor.core.streams import comparing

    if not 0.0 < arguments.margin < 1.0:
        raise commands.Unusable(f"--margin {arguments.margin:g}: expected a share between 0 and 1")
    spans = _spans(arguments)
    baseline, before = _side(arguments.baseline, spans[0], arguments.model)
    candidate, after = _side(arguments.candidate, spans[1], arguments.model)
    record = _record(comparing.compared(baseline, candidate, arguments.margin), before, after)
    line = json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n"
    sys.stdout.write(line if arguments.json else described(record))
    return {"worse": commands.FOUND, "not_enough": commands.UNDECIDED}.get(
        str(record["verdict"]), commands.FINE
    )


def _spans(arguments: argparse.Namespace) -> tuple[past.Span, past.Span]:
    """Return what is asked of each side that is a URL; a side that is a file needs none."""
    step, config = arguments.step, arguments.config
    before = past.Span(arguments.start, arguments.end, step, config, arguments.baseline_selector)
    start, end = arguments.candidate_start or arguments.start, arguments.candidate_end or arguments.end
    after = past.Span(start, end, step, config, arguments.candidate_selector)
    queried = [past.is_url(source) for source in (arguments.baseline, arguments.candidate)]
    if not any(queried):
        return before, after
    return (before if queried[0] else past.Span(), after if queried[1] else past.Span())


def _side(source: str, span: past.Span, model: str) -> tuple[Recorded, list[Record]]:
    """Return what a recording counted of the model and its streams' summaries. Raises Unusable."""
    from monitor import sources
    from monitor.core import pipeline
    from monitor.core.streams import comparing, summaries

    plan = pipeline.Plan()
    state, side = pipeline.begin(plan), comparing.Recorded()
    try:
        for batch in past.batches(source, span):
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
    from monitor.service import rollouts

    return {
        **rollouts.as_record(found),
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
    if record["tokens_per_second_ratio"] is not None:
        lines.append(
            f"  speed            ×{record['tokens_per_second_ratio']:.3f} tokens per second and request "
            f"[{record['tokens_per_second_ratio_low']:.3f}, {record['tokens_per_second_ratio_high']:.3f}]"
        )
    if record["by"] == "tokens_per_second":
        lines.append("  told by          speed, for drafts of another length")
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
