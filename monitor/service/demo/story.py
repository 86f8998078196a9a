"""What happens in the demo: each engine's simulated day, and the ten minutes that repeat live."""

from __future__ import annotations

import math
from dataclasses import replace

from monitor.service.demo.engine import WARM_UP_SECONDS, Phase, Scenario

HOUR_SECONDS = 3600.0
DAY_SECONDS = 24 * HOUR_SECONDS
NEXT_VERSION = "0.33.0+simulated"  # of the rollout that collapses

GOOD = (0.80, 0.77, 0.75, 0.72)  # mean acceptance length 3.2
WORSE = (0.58, 0.55, 0.53, 0.50)  # 2.1: one replica with another draft than its neighbours
BROKEN = (0.06, 0.10, 0.10, 0.10)  # 1.07: a draft that no longer fits its target model
CODE = (0.72, 0.68, 0.66, 0.64)  # 2.7
LONG_PROMPT_TOKENS = 6000.0
PROMPT_TOKENS = (300.0, 900.0, 2000.0, 500.0, 1400.0, 300.0)  # in turn, of the coder's day
PROMPTS_HOURS = 0.5  # so long each
LOGITS_PER_FOLD = -0.18  # of conditional acceptance, for prompts e times as long
LLAMAS, QWENS = 8, 2

ROLLOUT_SECONDS = 25.0
BAD_REPLICA_SECONDS = 35.0
SHIFT_SECONDS = 40.0
SILENT_SECONDS = 30.0
IMPOSSIBLE_SECONDS = 50.0
RECOVERY_SECONDS = 360.0  # all is well again until the ten minutes begin anew

NIGHT_SLOTS, DAY_SLOTS = 10, 24
DECAY_HOURS, DECAY_STEPS = 10.0, 10
DECAYED = 0.80  # of the first day's conditional acceptances is left at the end


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


def with_prompts(good: Phase, tokens: float) -> Phase:
    """Return the phase with prompts of another length, and with what that does to acceptance."""
    shift = LOGITS_PER_FOLD * math.log(tokens / good.prompt_tokens)
    odds = [each / (1 - each) * math.exp(shift) for each in good.conditional]
    return replace(good, prompt_tokens=tokens, conditional=tuple(each / (1 + each) for each in odds))


def changing_prompts(good: Phase) -> tuple[Phase, ...]:
    """Return a day whose prompts change in length again and again: the monitor learns what that does."""
    return tuple(
        replace(
            with_prompts(good, PROMPT_TOKENS[number % len(PROMPT_TOKENS)]),
            start=-DAY_SECONDS + number * PROMPTS_HOURS * HOUR_SECONDS,
        )
        for number in range(round(24 / PROMPTS_HOURS))
    )


def episode(good: Phase, bad: Phase, hours_ago: float, hours: float) -> tuple[Phase, Phase]:
    """Return what was bad for so many hours of the day, and what followed."""
    return (
        replace(bad, start=-hours_ago * HOUR_SECONDS),
        replace(good, start=-(hours_ago - hours) * HOUR_SECONDS),
    )


def decayed(steps: int) -> tuple[float, ...]:
    """Return the conditional acceptances after so many steps of the slow fall."""
    return tuple(each * (1 - (1 - DECAYED) * steps / DECAY_STEPS) for each in GOOD)


def decaying() -> tuple[Phase, ...]:
    """Return a slow fall over the day's last hours."""
    return tuple(
        Phase(
            -DECAY_HOURS * HOUR_SECONDS * (1 - step / DECAY_STEPS),
            decayed(step + 1),
        )
        for step in range(DECAY_STEPS)
    )


_GOOD = Phase(-WARM_UP_SECONDS, GOOD, slots=DAY_SLOTS)
_CODE = Phase(-WARM_UP_SECONDS, CODE, slots=DAY_SLOTS)
_ROLLOUT = replace(_GOOD, conditional=BROKEN, version=NEXT_VERSION)
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
        live(_CODE, SHIFT_SECONDS, with_prompts(_CODE, LONG_PROMPT_TOKENS)),
        changing_prompts(_CODE),
    ),
    Scenario(
        "mistral-0",
        "simulated/mistral-24b",
        (
            replace(_GOOD, conditional=tuple(DECAYED * each for each in GOOD)),
            replace(_GOOD, start=RECOVERY_SECONDS),
        ),
        day(_GOOD, *decaying()),
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
