"""New pods: the replicas of a model leave, others under new names take over; what is said of those.

Group after group of replicas is simulated as elsewhere. Until a moment T a replica is the target
`g<group>-old-<i>`, from T + 60 s on `g<group>-new-<i>`, whose counters begin at zero (all at once, or one after
another where `rolling_s` is given). The change, if any, comes with the new pods. `alone`: nothing was there
before (the first stream of an unknown model), and the change comes `after_s` seconds into its life.

    python -m tests.acceptbench.newpods [--command "specmon replay --json -"] [--seed N] [--only NAME…]
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tests.acceptbench import catalogue, counters, generate, replaying
from tests.acceptbench.scenarios import Change, Profile, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.acceptbench.counters import Counters, Line
    from tests.acceptbench.judging import Said
    from tests.acceptbench.scenarios import Stream

SETTLING_SECONDS = 60.0  # between the old pod's last page and the new one's first
NEWS = ("improvement", "regime_change", "release")  # kinds that count though they are only information


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked: the share found and the median minutes, or at most so many events a stream and 30 days."""

    found: float = math.nan
    minutes: float = math.nan
    a_month: float = math.nan


@dataclass(frozen=True, slots=True)
class NewPods:
    """A scenario: `shift` in logits, or `level` after a collapse; both 0: as good as before.

    `old_h` hours of the old pods, `new_h` of the new ones; `rolling_s` seconds between one replica's turn and
    the next; `positions`: False where the page has totals only.
    """

    name: str
    profile: Profile
    goal: Goal
    shift: float = 0.0
    level: float = 0.0
    fleet: int = 4
    groups: int = 6
    old_h: float = 24.0
    new_h: float = 4.0
    rolling_s: float = 0.0
    alone: bool = False
    after_s: float = 240.0
    ramp_h: float = 0.0
    positions: bool = True


HIGH, MED, LOW = catalogue.HIGH, catalogue.MED, catalogue.LOW
HEAVY_FALL = -0.62  # 3.2 → 2.45, a third of the benefit
_QUIET = Goal(a_month=1.0)
_FALL = NewPods("alone-fall-4min", HIGH, Goal(0.95, 10.0), shift=HEAVY_FALL, alone=True, fleet=1, groups=24)
_SLIDE = NewPods(
    "alone-slide-1h",
    HIGH,
    Goal(0.95, 60.0),
    shift=-0.9,
    alone=True,
    after_s=3600.0,
    ramp_h=1.0,
    fleet=1,
    groups=12,
)
SCENARIOS = (
    NewPods("pods-same-high", HIGH, _QUIET, groups=12),
    NewPods("pods-same-medium", MED, _QUIET, groups=12),
    NewPods("pods-same-low", LOW, _QUIET, groups=12),
    NewPods("pods-collapse-high", HIGH, Goal(1.0, 0.5), level=0.09),
    NewPods("pods-collapse-medium", MED, Goal(1.0, 0.75), level=0.09),
    NewPods("pods-partial-high", HIGH, Goal(0.95, 4.0), shift=-0.38),
    NewPods("pods-partial-medium", MED, Goal(0.85, 30.0), shift=-0.38),
    NewPods("pods-rolling-small", HIGH, Goal(0.9, 35.0), shift=-0.22, fleet=8, groups=3, rolling_s=300.0),
    NewPods("pods-better", HIGH, Goal(0.9, 15.0), shift=+0.38),
    _FALL,
    replace(_FALL, name="alone-fall-20min-medium", profile=MED, after_s=1200.0, goal=Goal(0.9, 30.0)),
    _SLIDE,
    replace(_SLIDE, name="alone-slide-1h-totals", positions=False),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What was found: minutes to the first right finding of each group (infinite: never) and events of new pods.

    `before` counts what was said before anything changed, `a_month` is `events` a stream and 30 days.
    """

    minutes: tuple[float, ...]
    events: int
    before: int
    a_month: float

    @property
    def share(self) -> float:
        """The share of the groups in which the change was found."""
        return sum(map(math.isfinite, self.minutes)) / len(self.minutes)

    @property
    def median(self) -> float:
        """The median of the minutes."""
        return float(np.median(self.minutes))


def scenario(pods: NewPods) -> Scenario:
    """Return the scenario that simulates the replicas, under one name each."""
    at = pods.after_s / 3600.0 if pods.alone else pods.old_h
    change = Change("none", at_h=(at, at + 1e-9), shift=pods.shift, ramp_h=pods.ramp_h)
    if pods.level:
        change = replace(change, kind="collapse", level=pods.level)
    elif pods.ramp_h or pods.shift:
        change = replace(change, kind="ramp" if pods.ramp_h else "shift")
    return Scenario(
        pods.name,
        pods.profile,
        change,
        hours=at + pods.new_h + pods.ramp_h,
        reps=pods.fleet * pods.groups,
        fleet=0 if pods.alone else pods.fleet,
        hit=pods.fleet,
    )


def lines(pods: NewPods, stream: Stream, group: int, index: int, changed_at: float) -> Iterator[Line]:
    """Yield the lines of one replica under its two names."""
    turn, model = changed_at + index * pods.rolling_s, f"{pods.name}-{group}"
    left: Counters | None = None
    for seen in counters.cumulative(stream):
        name = f"g{group}-{'only' if pods.alone else 'old'}-{index}"
        if not pods.alone and seen.at >= turn:
            if left is None or seen.at < turn + SETTLING_SECONDS:
                left = seen
            if seen.at < turn + SETTLING_SECONDS:
                continue
            name, seen = f"g{group}-new-{index}", _since(left, seen, turn + 45.0)  # noqa: PLW2901 — as its page shows it
        yield (
            seen.at,
            counters.line(seen, name, model) if pods.positions else _totals(pods, seen, name, model),
        )


def _since(left: Counters, seen: Counters, began_at: float) -> Counters:
    """Return counters that began at zero where the old pod's stood."""
    accepted = tuple(now - then for now, then in zip(seen.accepted, left.accepted, strict=True))
    return counters.Counters(
        seen.at, seen.drafts - left.drafts, seen.draft_tokens - left.draft_tokens, accepted, began_at
    )


def _totals(pods: NewPods, seen: Counters, target: str, model_name: str) -> str:
    """Return a line with a page of SGLang's, which counts no positions."""
    labels = f'{{engine_type="unified",model_name="{model_name}"}}'
    tokens = seen.drafts + sum(seen.accepted)
    families = (
        ("spec_verify_calls_total", "counter", seen.drafts),
        ("generation_tokens_total", "counter", tokens),
        ("num_requests_total", "counter", tokens // 400),
        ("spec_num_steps", "gauge", len(seen.accepted)),
        ("spec_num_draft_tokens", "gauge", len(seen.accepted) + 1),
        ("num_running_reqs", "gauge", pods.profile.slots // 2),
    )
    body = "".join(
        f"# TYPE sglang:{name} {kind}\nsglang:{name}{labels} {float(value)!r}\n"
        for name, kind, value in families
    )
    return json.dumps({"at": seen.at, "target": target, "body": body})


def run(pods: NewPods, seed: int, command: Sequence[str] = replaying.COMMAND) -> Found:
    """Return what the product says of a scenario."""
    simulated = scenario(pods)
    written, changed = [], dict[str, float]()
    for rep in range(simulated.reps):
        group, index = divmod(rep, pods.fleet)
        stream = generate.simulate(simulated, rep, seed)
        turn = float(stream.t[0]) + (pods.after_s if pods.alone else pods.old_h * 3600.0)
        changed[f"{pods.name}-{group}"] = turn
        written.append(lines(pods, stream, group, index, turn))
    return judged(pods, changed, replaying.listen(written, command))


def judged(pods: NewPods, changed: dict[str, float], heard: Sequence[Said]) -> Found:
    """Return what of `heard` was found, by the model of each group and when its pods `changed` (unix seconds)."""
    first = dict.fromkeys(changed, math.inf)
    before = events = 0
    for said in heard:
        model = said.model_name
        if not said.lasts or (said.severity == "info" and said.kind not in NEWS):
            continue
        if said.at < changed[model]:
            before += 1
            continue
        events += said.severity != "info"
        if (pods.shift > 0) == said.rose:
            first[model] = min(first[model], said.at - changed[model])
    waited = 0.0 if pods.alone else SETTLING_SECONDS
    minutes = tuple((seconds - waited) / 60.0 for seconds in first.values())
    days = pods.groups * pods.fleet * pods.new_h / 24.0
    return Found(minutes, events, before, events / days * 30.0)


def line(pods: NewPods, found: Found) -> str:
    """Return one line about what was found, and what was asked."""
    if math.isnan(pods.goal.found):
        events = f"{found.events} events on new pods, {found.a_month:.1f} a month of stream time"
        return f"{pods.name:26} {events} (goal {pods.goal.a_month})  before: {found.before}"
    goal = f"(goal {pods.goal.found:.0%} in {pods.goal.minutes})"
    return f"{pods.name:26} found {found.share:4.0%}  median {found.median:6.1f} min  {goal}  before: {found.before}"


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--command", default=shlex.join(replaying.COMMAND))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    asked = parser.parse_args()
    for pods in SCENARIOS:
        if not asked.only or pods.name in asked.only:
            print(line(pods, run(pods, asked.seed, shlex.split(asked.command))), flush=True)


if __name__ == "__main__":
    main()
