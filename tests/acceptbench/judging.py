"""What was said of streams, against what was put into them: false alarms, the share found, how soon."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.acceptbench.scenarios import Scenario, Stream

Severity = Literal["critical", "warning", "info"]
ALARMING = ("critical", "warning")


@dataclass(frozen=True, slots=True)
class Said:
    """An event as it was when it opened: times in unix seconds, `direction` None where it has none.

    `target` is None of a fleet's event; `lasts`: it opened, and is no note; `rose`: acceptance did.
    """

    target: str | None
    model_name: str
    at: float
    direction: Literal["down", "up"] | None
    severity: Severity
    since: float | None
    kind: str
    detector: str
    lasts: bool
    rose: bool


@dataclass(slots=True)
class Figures:
    """What is measured of one scenario.

    false_alarms, pages: warnings and criticals, and criticals alone, before the change (or ever) in `hours`
    stream-hours. `delays` are minutes of those found, `errors` how far off the told change time was (minutes).
    `groups` is how many could be found: streams, or fleets where all of one changed. `repeats`: further alarms
    about the same change; `wrong_way`: in the other direction; `others`: alarms about replicas of a fleet that
    did not change. `by` counts the findings by detector, severity and kind.
    """

    scenario: str
    hours: float = 0.0
    false_alarms: int = 0
    pages: int = 0
    groups: int = 0
    delays: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    repeats: int = 0
    wrong_way: int = 0
    others: int = 0
    by: Counter[str] = field(default_factory=Counter)

    @property
    def found(self) -> float:
        """The share that was found, NaN where nothing changed."""
        return len(self.delays) / self.groups if self.groups else math.nan

    def minutes(self, share: float) -> float:
        """Return after how many minutes this share was found; infinite where it never was."""
        delays = np.array(self.delays + [math.inf] * (self.groups - len(self.delays)))
        return float(np.quantile(delays, share, method="higher")) if len(delays) else math.nan

    def a_month(self, count: int) -> float:
        """Return a count of false alarms as so many a stream and 30 days."""
        return count * 720.0 / self.hours

    def __str__(self) -> str:
        text = f"{self.scenario:20s} false alarms {self.false_alarms:3d} ({self.pages} pages) in {self.hours:6.0f} h"
        if self.groups:
            error = float(np.median(np.abs(self.errors))) if self.errors else math.nan
            text += f"  found {self.found:4.0%}  median {self.minutes(0.5):7.2f} min  p95 {self.minutes(0.95):7.2f}"
            text += f"  change time off by {error:6.2f}  repeats {self.repeats}  wrong way {self.wrong_way}"
            text += f"  others blamed {self.others}"
        return text + "".join(f"  {name} {times}" for name, times in self.by.most_common())


def begins(scenario: Scenario, stream: Stream) -> float:
    """Return from when the change can be seen: nothing is seen before traffic comes. Unix seconds."""
    at = stream.change_at or math.inf
    live = np.flatnonzero((stream.t > at) & (stream.drafts > 0))
    waited = float(stream.t[live[0]]) - scenario.profile.dt if len(live) else at
    return max(at, waited)


def of_streams(scenario: Scenario, runs: Sequence[tuple[Stream, Sequence[Said]]]) -> Figures:
    """Return the figures of streams and of what was said of each."""
    figures = Figures(scenario.name)
    for stream, said in runs:
        _false_alarms(figures, stream, said)
        if stream.change_at is not None:
            figures.groups += 1
            _found(figures, scenario, begins(scenario, stream), said)
    return figures


def of_fleets(
    scenario: Scenario, runs: Sequence[tuple[Sequence[Stream], Sequence[Said], Sequence[Said]]]
) -> Figures:
    """Return the figures of fleets that change as a whole: (streams, said of replicas, said of the fleet)."""
    figures = Figures(scenario.name)
    for streams, own, common in runs:
        figures.groups += 1
        for stream in streams:
            _false_alarms(figures, stream, ())
        at = begins(scenario, streams[0])
        before = [said for said in (*own, *common) if said.at <= at and said.severity in ALARMING]
        figures.false_alarms += len(before)
        figures.pages += sum(said.severity == "critical" for said in before)
        _found(figures, scenario, at, common)
        figures.others += sum(said.severity in ALARMING for said in own)
    return figures


def _false_alarms(figures: Figures, stream: Stream, said: Sequence[Said]) -> None:
    end = float(stream.t[-1]) if stream.change_at is None else stream.change_at
    early = [each for each in said if each.at <= end and each.severity in ALARMING]
    figures.hours += (end - float(stream.t[0])) / 3600.0
    figures.false_alarms += len(early)
    figures.pages += sum(each.severity == "critical" for each in early)
    if stream.change_at is None:
        figures.by.update(_name(each) for each in early)


def _found(figures: Figures, scenario: Scenario, at: float, said: Sequence[Said]) -> None:
    """Note what was found of a change that began `at`, within the horizon."""
    after = [each for each in said if at < each.at <= at + scenario.horizon_h * 3600.0]
    if scenario.expect in ("regime", "nuisance"):
        hits = [each for each in after if each.severity in ALARMING]
    else:
        severe = [each for each in after if each.severity in ALARMING or scenario.expect == "up"]
        hits = [each for each in severe if each.direction in (scenario.expect, None)]
        figures.wrong_way += sum(
            each.severity in ALARMING and each.direction not in (scenario.expect, None) for each in after
        )
    if hits:
        first = hits[0]
        figures.delays.append((first.at - at) / 60.0)
        figures.repeats += len(hits) - 1
        figures.by[_name(first)] += 1
        if first.since is not None:
            figures.errors.append((first.since - at) / 60.0)


def _name(said: Said) -> str:
    return f"{said.detector}:{said.severity}:{said.kind}"
