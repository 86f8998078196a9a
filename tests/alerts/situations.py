"""What happens to simulated engines in each situation that an alert is about, told by the product itself.

A situation is some engines, what each of them does in each minute, and which alerts are open when. The engines'
pages go through the very pipeline and snapshot of the service; `recording.py` keeps the series that the rules
read. Nothing here is written by hand but what the engines do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from monitor.core import pipeline
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.core.streams import presence
from monitor.core.streams.worth import Told
from monitor.service import snapshot
from tests import made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from monitor.metrics.textformat import Family

START = 1_700_000_040.0  # a full minute
INTERVAL = 15.0
MODEL = made.MODEL_NAME
GOOD = (0.8, 0.76, 0.73, 0.7)
DEAD = (0.03, 0.0, 0.0, 0.0)
FALLEN = (0.74, 0.71, 0.68, 0.65)
TAIL = (0.8, 0.76, 0.4, 0.3)
DRAFTS = 5000.0
RESTART_MINUTE = 60
SITE = "https://specmon.example"

ACCEPTED = re.compile(rb"(vllm:spec_decode_num_accepted_tokens_total\{.*\} )(.*)")

# A step of so many requests, and how long it takes without speculation, where it gains and where it costs.
REQUESTS = 64.0
PLAIN_SECONDS, STEP_SECONDS = 0.010, {"gainful": 0.012, "costly": 0.050}

Doing = (
    Literal["idle", "silent", "off", "down", "html", "absent", "contradicting", "gainful", "costly", "unseen"]
    | tuple[float, ...]
)


@dataclass(frozen=True, slots=True)
class Situation:
    """`doing(engine, minute)` says what an engine does; `open` which alerts fire at which minute, of whom.

    Of an alert about replicas the engines are named, of one about a model "fleet", of one about a target its
    engine, of one about specmon "monitor". Whoever is not named there must not fire. Of an engine that is
    "unseen" no look arrives, though it is a target.
    """

    engines: int
    minutes: int
    doing: Callable[[int, int], Doing]
    open: Mapping[int, Mapping[str, Sequence[int | str]]]
    restarts: Callable[[int, int], bool] = field(default=lambda _engine, _minute: False)


def played(situation: Situation, seed: int = 3) -> Iterator[tuple[int, list[Family]]]:
    """Yield the families of the product's page after each minute."""
    plan = pipeline.Plan(told={"": Told(plain_step_seconds=PLAIN_SECONDS)})
    state = pipeline.begin(plan)
    names = [f"engine-{number}:8000" for number in range(situation.engines)]
    engines = [_Engine(name, number, seed) for number, name in enumerate(names)]
    facts = replace(made.parts(plan, state, {}, started_at=START), external_url=SITE)
    for minute in range(situation.minutes):
        doing = [situation.doing(number, minute) for number in range(situation.engines)]
        facts.urls = {name: name for name, what in zip(names, doing, strict=True) if what != "absent"}
        for tick in range(4):
            at = START + 60.0 * minute + INTERVAL * tick
            for number, engine in enumerate(engines):
                if tick == 0 and situation.restarts(number, minute):
                    engine.restart(at)
            looks = [engine.look(at, what) for engine, what in zip(engines, doing, strict=True)]
            pipeline.step(plan, state, [look for look in looks if look is not None])
        now = START + 60.0 * minute + 3.0 * INTERVAL
        presence.attend(state, plan.limits, facts.urls, now)
        yield minute, list(snapshot.Snapshot(facts, now).families())


class _Engine:
    """One vLLM with four draft tokens, whose counters grow as it is told."""

    def __init__(self, name: str, number: int, seed: int) -> None:
        self.name = name
        self._random = np.random.default_rng((seed, number))
        self.restart(START - 3600.0)

    def restart(self, at: float) -> None:
        """Begin with counters at zero."""
        self._drafts, self._tokens, self._accepted, self._began = 0.0, 0.0, np.zeros(4), at
        self._steps: dict[str, float] = {}

    def look(self, at: float, doing: Doing) -> Scrape | None:
        """Return a look at the engine's page `INTERVAL` after the last one."""
        if doing in ("absent", "unseen"):
            return None
        if doing == "down":
            return Scrape(self.name, at, failure=Failure("connection", "refused"))
        if doing == "html":
            return Scrape(self.name, at, body=b"<html><body>hello</body></html>")
        if isinstance(doing, tuple):
            self._work(doing)
        elif doing in STEP_SECONDS:
            self._work(GOOD, STEP_SECONDS[doing])
        elif doing in ("silent", "off"):
            self._tokens += DRAFTS
        more = {"generation_tokens_total": self._tokens, **self._steps}
        if doing == "off":
            return Scrape(self.name, at, body=made.page(more=more, started_at=self._began))
        if doing == "contradicting":
            self._work(GOOD)
        accepted = self._accepted.tolist()
        body = made.page(accepted, drafts=self._drafts, more=more, started_at=self._began)
        if doing == "contradicting":
            total = f"{accepted_total(body) * 1.2:.0f}"
            body = ACCEPTED.sub(rb"\g<1>" + total.encode(), body)
        return Scrape(self.name, at, body=body)

    def _work(self, acceptance: Sequence[float], step_seconds: float | None = None) -> None:
        drafts = kept = int(self._random.integers(int(0.8 * DRAFTS), int(1.2 * DRAFTS)))
        mood = float(np.exp(0.02 * self._random.normal()))
        for position, rate in enumerate(acceptance):
            kept = int(self._random.binomial(kept, min(rate * mood, 1.0)))
            self._accepted[position] += kept
            self._tokens += kept
        self._drafts += drafts
        self._tokens += drafts
        if step_seconds is not None:
            grown = {
                "iteration_tokens_total_count": drafts / REQUESTS,
                "inter_token_latency_seconds_count": drafts,
                "inter_token_latency_seconds_sum": drafts * step_seconds,
            }
            self._steps = {name: self._steps.get(name, 0.0) + value for name, value in grown.items()}


def accepted_total(body: bytes) -> float:
    """Return the accepted tokens on a page."""
    found = ACCEPTED.search(body)
    assert found is not None
    return float(found[2])


def _one(what: Doing, since: int, until: int = 10_000, who: int = 2) -> Callable[[int, int], Doing]:
    return lambda engine, minute: what if engine == who and since <= minute < until else GOOD


def _all(what: Doing, since: int, until: int = 10_000) -> Callable[[int, int], Doing]:
    return lambda _engine, minute: what if since <= minute < until else GOOD


def _sinking(_engine: int, minute: int) -> Doing:
    """Sink by half a logit an hour for four hours, after two good ones."""
    logits = np.log(np.array(GOOD) / (1.0 - np.array(GOOD))) - 0.35 * min(max(minute - 240, 0) / 60.0, 6.0)
    return tuple((1.0 / (1.0 + np.exp(-logits))).tolist())


SITUATIONS: Mapping[str, Situation] = {
    "all_is_well": Situation(4, 70, _all(GOOD, 0), {30: {}, 69: {}}),
    "one_collapses": Situation(
        4,
        120,
        _one(DEAD, 60, 90),
        {
            59: {},
            64: {"SpecmonAcceptanceCollapsed": [2], "SpecmonCollapseSlowsDecoding": [2]},
            89: {"SpecmonAcceptanceCollapsed": [2], "SpecmonCollapseSlowsDecoding": [2]},
            119: {},
        },
    ),
    "all_collapse": Situation(
        8,
        120,
        _all(DEAD, 60, 90),
        {
            59: {},
            63: {
                "SpecmonFleetAcceptanceCollapsed": ["fleet"],
                "SpecmonFleetCollapseSlowsDecoding": ["fleet"],
            },
            119: {},
        },
    ),
    "new_pod_with_a_dead_draft": Situation(
        4,
        75,
        lambda engine, minute: ("absent" if minute < 60 else DEAD) if engine == 3 else GOOD,
        # It is held against what its kind always did: a collapse from its first minute on.
        {59: {}, 64: {"SpecmonAcceptanceCollapsed": [3], "SpecmonCollapseSlowsDecoding": [3]}},
    ),
    "collapse_in_the_first_hour": Situation(
        1,
        40,
        _one(DEAD, 20, who=0),
        {
            19: {},
            26: {"SpecmonAcceptanceCollapsed": [0], "SpecmonCollapseSlowsDecoding": [0]},
        },
    ),
    "two_of_five_collapse_in_the_first_hour": Situation(
        5,
        30,
        lambda engine, minute: DEAD if engine < 2 and minute >= 20 else GOOD,
        {19: {}, 26: {"SpecmonAcceptanceCollapsed": [0, 1], "SpecmonCollapseSlowsDecoding": [0, 1]}},
    ),
    "dead_from_the_first_minute": Situation(
        1, 20, _all(DEAD, 0), {6: {"SpecmonDeadDraft": [0], "SpecmonCollapseSlowsDecoding": [0]}}
    ),
    "collapsed_and_then_idle": Situation(
        1,
        90,
        lambda _engine, minute: GOOD if minute < 50 else DEAD if minute < 65 else "idle",
        {
            64: {"SpecmonAcceptanceCollapsed": [0], "SpecmonCollapseSlowsDecoding": [0]},
            89: {"SpecmonAcceptanceCollapsed": [0]},
        },
    ),
    "idle": Situation(2, 70, _all("idle", 40), {50: {}, 69: {}}),
    "one_falls_silent": Situation(4, 80, _one("silent", 60), {59: {}, 72: {"SpecmonSpeculationSilent": [2]}}),
    "all_fall_silent": Situation(
        4,
        80,
        _all("silent", 60),
        # Alertmanager holds the replicas' alerts back while the model's fires.
        {59: {}, 72: {"SpecmonFleetSpeculationSilent": ["fleet"], "SpecmonSpeculationSilent": [0, 1, 2, 3]}},
    ),
    "one_is_switched_off": Situation(4, 80, _one("off", 60), {59: {}, 75: {"SpecmonSpeculationOff": [2]}}),
    "an_engine_restarts": Situation(
        4, 80, _all(GOOD, 0), {62: {}, 79: {}}, restarts=lambda engine, minute: (engine, minute) == (2, 60)
    ),
    "one_drops": Situation(4, 80, _one(FALLEN, 60), {59: {}, 75: {"SpecmonAcceptanceDropped": [2]}}),
    "all_drop": Situation(
        8, 80, _all(FALLEN, 60), {59: {}, 75: {"SpecmonFleetAcceptanceDropped": ["fleet"]}}
    ),
    "late_positions_drop": Situation(
        1, 150, _one(TAIL, 120, who=0), {119: {}, 145: {"SpecmonTailDropped": [0]}}
    ),
    "it_sinks_slowly": Situation(1, 420, _sinking, {239: {}, 419: {"SpecmonAcceptanceDecaying": [0]}}),
    "speculation_costs_more_than_it_gains": Situation(
        2,
        100,
        lambda engine, minute: "costly" if engine == 1 and 20 <= minute < 50 else "gainful",
        {19: {}, 48: {"SpecmonNetLoss": [1]}, 99: {}},
    ),
    "two_of_two_collapse": Situation(
        2,
        75,
        _all(DEAD, 60),
        # Two are too few to be compared: each has its event, and the rules count them.
        {
            59: {},
            66: {
                "SpecmonAcceptanceCollapsed": [0, 1],
                "SpecmonCollapseSlowsDecoding": [0, 1],
                "SpecmonFleetAcceptanceCollapsed": ["fleet"],
                "SpecmonFleetCollapseSlowsDecoding": ["fleet"],
            },
        },
    ),
    "two_of_five_collapse": Situation(
        5,
        75,
        lambda engine, minute: DEAD if engine < 2 and minute >= 60 else GOOD,
        {59: {}, 66: {"SpecmonAcceptanceCollapsed": [0, 1], "SpecmonCollapseSlowsDecoding": [0, 1]}},
    ),
    "counters_contradict_each_other": Situation(
        2, 100, _one("contradicting", 30, who=1), {29: {}, 95: {"SpecmonDataQuality": [1]}}
    ),
    "a_target_goes_down": Situation(2, 60, _one("down", 20, who=1), {19: {}, 45: {"SpecmonTargetDown": [1]}}),
    "a_target_never_answers": Situation(
        2, 60, _one("down", 0, who=1), {15: {}, 50: {"SpecmonNoGoodScrape": [1]}}
    ),
    "a_page_is_html": Situation(2, 60, _one("html", 20, who=1), {19: {}, 50: {"SpecmonUnknownPage": [1]}}),
    "nothing_is_judged_any_more": Situation(
        1, 100, _all("unseen", 15), {75: {}, 99: {"SpecmonStuck": ["monitor"]}}
    ),
}
