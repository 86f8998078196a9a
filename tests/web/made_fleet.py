"""A service of many streams: models of all sizes, some whose replicas collapsed, drift, are silent or idle."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import cycle, islice
from typing import TYPE_CHECKING

from tests.web.fleet_of_five import COLLAPSE, COLLAPSED_AT, NOW, Service, buckets, estimate, stream, stream_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.web.view import StreamView

SIZES = (40, 8, 42, 1, 12, 3, 24, 1, 16, 6)
NAMES = (
    "meta-llama/Llama-3.3-70B-Instruct",
    "Qwen/Qwen3-32B",
    "deepseek-ai/DeepSeek-V3.1",
    "openai/gpt-oss-120b",
)
AFTER = {"drifting": 2.4, "collapsed": 1.2, "silent": None}


@cache
def service(count: int) -> Service:
    """Return `count` streams; the first model collapsed as one, of the third one replica did alone."""
    shown: list[StreamView] = []
    kept: list[Mapping[str, object]] = []
    for number, most in enumerate(cycle(SIZES)):
        size = min(most, count - len(shown))
        name = f"{NAMES[number % len(NAMES)]}{'' if number < len(NAMES) else f'-v{number // len(NAMES)}'}"
        shown += [_stream(name, number, replica) for replica in range(size)]
        if len(shown) == count:
            break
    whole = [each for each in shown if each.model_name == NAMES[0]]
    if len(whole) > 2:
        kept.append(_of_fleet(whole))
    kept += [each.open_event for each in shown if each.open_event and each.model_name != NAMES[0]][:200]
    drawn = {collapsed: buckets(collapsed=collapsed) for collapsed in (False, True)}
    past = {each.id: drawn[each.state == "collapsed"] for each in islice(shown, 120)}
    return Service(shown=shown, kept=kept, past=past, scraped=())


def _stream(name: str, number: int, replica: int) -> StreamView:
    target = f"{name.split('/')[1].lower()[:18]}-{number}-{replica:03d}:8000"
    healthy = replace(
        stream(target, model_name=name, id=stream_id(target, name)),
        labels={"cluster": "ab"[replica % 2], "team": "chat"},
        engine=("vllm", "sglang")[number % 2],
    )
    state = _state(number, replica)
    if state == "ok":
        return healthy
    if state in {"idle", "warming", "stale"}:
        return replace(healthy, state=state, state_since=NOW - 5400)  # type: ignore[arg-type]
    after = AFTER[state]
    event = {
        **COLLAPSE,
        "id": f"e{number}-{replica}",
        "stream": healthy.id,
        "target": target,
        "model_name": name,
    }
    if state == "drifting":
        event |= {
            "kind": "drop",
            "severity": "warning",
            "cost": {"tpot_ratio": 1.37, "benefit_lost_ratio": 0.39},
        }
    return replace(
        healthy,
        state=state,  # type: ignore[arg-type]
        state_since=COLLAPSED_AT + 45,
        estimate=estimate(after, (0.2, 0.15, 0.12, 0.1)) if after else {"drafts": 0, "mal": None},
        open_event=event,
        benefit_lost_ratio=0.9 if after else None,
    )


def _state(number: int, replica: int) -> str:
    if number == 0:
        return "collapsed"
    if replica == 3 and number % 10 == 2:
        return "collapsed"
    if number % 10 == 4 and replica < 5:
        return "drifting"
    return {3: "silent", 7: "idle", 9: "warming"}.get(number % 10, "ok")


def _of_fleet(whole: list[StreamView]) -> dict[str, object]:
    return {
        **COLLAPSE,
        "id": "fleet-1",
        "scope": "fleet",
        "stream": None,
        "target": None,
        "replica": None,
        "model_name": whole[0].model_name,
        "streams": [each.id for each in whole],
    }
