"""What happens in the demo: each engine's simulated day, and the twenty minutes that repeat live."""

from __future__ import annotations

import math
from dataclasses import replace

from monitor.service.demo.engine import WARM_UP_SECONDS, Phase, Scenario

HOUR_SECONDS = 3600.0
DAY_SECONDS = 24 * HOUR_SECONDS
NEXT_VERSION = "0.33.0+simulated"  # of the rollout that collapses

GOOD = (0.80, 0.77, 0.75, 0.72)  # mean acceptance length 3.2
WORSE = (0.40, 0.40, 0.36, 0.33)  # 1.6: one replica with another draft than its neighbours
BROKEN = (0.06, 0.10, 0.10, 0.10)  # 1.07: a draft that no longer fits its target model
CODE = (0.72, 0.68, 0.66, 0.64)  # 2.7
LONG_PROMPT_TOKENS, SHORT_ANSWER_TOKENS = 6000.0, 60.0  # documents are summed up, nobody chats
SUMMARY_LOGITS = 0.7  # by which the draft agrees less with its target model on these
LLAMAS, QWENS = 8, 3

SILENT_SECONDS = 2.0  # an engine that makes no drafts is told of after two minutes
SHIFT_SECONDS = 15.0
BAD_REPLICA_SECONDS = 20.0
ROLLOUT_SECONDS = 25.0
IMPOSSIBLE_SECONDS = 50.0
RECOVERY_SECONDS = 360.0  # all is well again until the twenty minutes begin anew

NIGHT_SLOTS, DAY_SLOTS = 10, 24
SLIDE_HOURS, SLIDE_LOGITS = 16.0, 0.9


def live(good: Phase, bad_from: float, bad: Phase) -> tuple[Phase, ...]:
    """Return live phases: good, bad from `bad_from` seconds on, good again."""
    return (
        replace(good, start=-WARM_UP_SECONDS),
        replace(bad, start=bad_from),
        replace(good, start=RECOVERY_SECONDS),
    )


def day(good: Phase, *other: Phase) -> tuple[Phase, ...]:
    """Return a day of `good` with little traffic in its first third, and `other` phases within it."""
    night = replace(good, start=-DAY_SECONDS, slots=min(good.slots, NIGHT_SLOTS))
    return tuple(
        sorted(
            (night, replace(good, start=-16 * HOUR_SECONDS), *other),
            key=lambda phase: phase.start,
        )
    )


def harder(good: Phase, logits: float) -> Phase:
    """Return the phase with a conditional acceptance that is lower by so much at each position."""
    odds = [each / (1 - each) * math.exp(-logits) for each in good.conditional]
    return replace(good, conditional=tuple(each / (1 + each) for each in odds))


def episode(good: Phase, bad: Phase, hours_ago: float, hours: float) -> tuple[Phase, Phase]:
    """Return what was bad for so many hours of the day, and what followed."""
    return (
        replace(bad, start=-hours_ago * HOUR_SECONDS),
        replace(good, start=-(hours_ago - hours) * HOUR_SECONDS),
    )


def sliding(good: Phase, bad: Phase) -> tuple[Phase, Phase]:
    """Return a slow fall over the day's last hours, which ends as bad as `bad`."""
    return replace(good, start=-SLIDE_HOURS * HOUR_SECONDS, slides=True), replace(bad, start=0.0)


_GOOD = Phase(-WARM_UP_SECONDS, GOOD, slots=DAY_SLOTS)
_CODE = Phase(-WARM_UP_SECONDS, CODE, slots=DAY_SLOTS)
_ROLLOUT = replace(_GOOD, conditional=BROKEN, version=NEXT_VERSION)
_SUMMARIES = replace(
    harder(_CODE, SUMMARY_LOGITS), prompt_tokens=LONG_PROMPT_TOKENS, answer_tokens=SHORT_ANSWER_TOKENS
)
_FALLEN = harder(_GOOD, SLIDE_LOGITS)
_STEADY = (_GOOD,)


def _llamas() -> list[Scenario]:
    bad = replace(_GOOD, conditional=WORSE)
    return [
        Scenario(
            f"llama-{index}",
            "simulated/llama-70b",
            live(_GOOD, BAD_REPLICA_SECONDS, bad) if index == LLAMAS - 3 else _STEADY,
            day(_GOOD),
        )
        for index in range(LLAMAS)
    ]


def _qwens() -> list[Scenario]:
    """Return replicas that all lose their draft with a new version, and get the old one back."""
    return [
        Scenario(
            f"qwen-{index}",
            "simulated/qwen-32b",
            live(_GOOD, ROLLOUT_SECONDS, _ROLLOUT),
            day(_GOOD, *episode(_GOOD, _ROLLOUT, 7.0, 0.75)),
        )
        for index in range(QWENS)
    ]


SCENARIOS = (
    *_llamas(),
    *_qwens(),
    Scenario(
        "coder-0",
        "simulated/coder-32b",
        live(_CODE, SHIFT_SECONDS, _SUMMARIES),
        day(_CODE),
    ),
    Scenario(
        "mistral-0",
        "simulated/mistral-24b",
        (_FALLEN, replace(_GOOD, start=RECOVERY_SECONDS)),
        day(_GOOD, *sliding(_GOOD, _FALLEN)),
    ),
    Scenario(
        "gemma-0",
        "simulated/gemma-27b",
        live(_CODE, SILENT_SECONDS, replace(_CODE, drafting=False)),
        day(_CODE),
    ),
    Scenario(
        "phi-0",
        "simulated/phi-14b",
        live(_GOOD, IMPOSSIBLE_SECONDS, replace(_GOOD, possible=False)),
        day(_GOOD),
    ),
)
