"""A simulated stream as an engine would show it: cumulative counters, as `specmon replay`'s lines or as pages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.acceptbench.scenarios import Scenario, Stream

Line = tuple[float, str]
"""When it was read (unix seconds), and a line of the counters format."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What a page shows at `at` (unix seconds): counts since `began_at`, when the process started."""

    at: float
    drafts: int
    draft_tokens: int
    accepted: tuple[int, ...]
    began_at: float


def cumulative(stream: Stream) -> Iterator[Counters]:
    """Yield the counters of each scrape; they begin anew where the stream says so."""
    drafts = tokens = 0
    accepted = np.zeros(stream.accepted.shape[1], np.int64)
    began_at = float(stream.t[0]) - 60.0
    for row in range(len(stream)):
        at, k = float(stream.t[row]), int(stream.k[row])
        if stream.reset[row]:
            drafts = tokens = 0
            accepted[:] = 0
            began_at = at - 1.0
        drafts += int(stream.drafts[row])
        tokens += int(stream.drafts[row]) * k
        accepted += stream.accepted[row]
        yield Counters(at, drafts, tokens, tuple(accepted[:k].tolist()), began_at)


def lines(stream: Stream, target: str, model_name: str) -> Iterator[Line]:
    """Yield the stream in the counters format, in time order."""
    for seen in cumulative(stream):
        yield seen.at, line(seen, target, model_name)


def line(seen: Counters, target: str, model_name: str) -> str:
    """Return one line of the counters format."""
    fields = {
        "at": seen.at,
        "target": target,
        "model_name": model_name,
        "replica": "0",
        "drafts": seen.drafts,
        "draft_tokens": seen.draft_tokens,
        "accepted": list(seen.accepted),
        "started_at": seen.began_at,
    }
    return json.dumps(fields)


def write_pages(stream: Stream, folder: Path, model_name: str) -> None:
    """Write a page per scrape with vLLM's names, the file called by unix milliseconds."""
    folder.mkdir(parents=True, exist_ok=True)
    for seen in cumulative(stream):
        (folder / f"{round(seen.at * 1000)}.prom").write_text(_page(seen, model_name))


def _page(seen: Counters, model_name: str) -> str:
    labels = f'engine="0",model_name="{model_name}"'
    written = []
    for name, value in (
        ("num_drafts", seen.drafts),
        ("num_draft_tokens", seen.draft_tokens),
        ("num_accepted_tokens", sum(seen.accepted)),
    ):
        family = f"vllm:spec_decode_{name}"
        written += [f"# HELP {family}_total {name}", f"# TYPE {family}_total counter"]
        written += [f"{family}_total{{{labels}}} {float(value)}", f"# TYPE {family}_created gauge"]
        written += [f"{family}_created{{{labels}}} {seen.began_at}"]
    family = "vllm:spec_decode_num_accepted_tokens_per_pos"
    written += [f"# HELP {family}_total per position", f"# TYPE {family}_total counter"]
    for position, value in enumerate(seen.accepted):
        written.append(f'{family}_total{{{labels},position="{position}"}} {float(value)}')
    return "\n".join(written) + "\n"


def truth(scenario: Scenario, stream: Stream, rep: int, seed: int) -> dict[str, object]:
    """Return what was put into a stream, for JSON."""
    change = scenario.change
    return {
        "scenario": scenario.name,
        "rep": rep,
        "seed": seed,
        "dt": scenario.profile.dt,
        "k": scenario.profile.k,
        "expect": scenario.expect,
        "change_t": stream.change_at,
        "kind": change.kind,
        "shift_logit": change.shift,
        "new_k": change.new_k or None,
        "ramp_h": change.ramp_h,
        "frac": change.frac,
        "transient_h": change.hours,
        "horizon_h": scenario.horizon_h,
        "scrapes": len(stream),
        "first_t": float(stream.t[0]),
        "last_t": float(stream.t[-1]),
    }
