"""Troubles that open, get worse and close, as the alarms that say so.

Several detectors that see one change make one trouble: the surest word is taken, and a stream with an open
trouble opens no other. It only gets worse, or is over.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base, floor, level, plunge, shape, trend, troubles
from monitor.core.detectors.measures import reference, rhythm, traffic
from monitor.core.detectors.troubles import diagnosis, swings
from monitor.core.detectors.troubles.diagnosis import Case
from monitor.core.vocabulary import SEVERITY_OF, TROUBLES

if TYPE_CHECKING:
    from monitor.core.detectors.base import Action, Alarm, Floats, Level, State
    from monitor.core.detectors.measures.evidence import Trials
    from monitor.core.detectors.sightings import Sightings
    from monitor.core.detectors.troubles.diagnosis import Diagnosis

DETECTORS = (floor, plunge, level, shape, trend)
"""Every detector, in the order of their codes."""

SEERS = ("regime", *(module.NAME for module in DETECTORS), "fleet")
"""Who may have seen a trouble; a place is the code in `trouble["detector"]`."""

LEAST_SHIFT = 0.15
"""Logits that any trouble is taken to have moved by: less could not be told from being back."""

LONG_AGO = 10.0
"""Intervals since a change began from which on what came after is taken from the last buckets, which are
about as many (`troubles.RECENT_KEPT`), not from the last interval alone."""

GROWN = 1.1
"""Times the first size from which on a trouble is looked at anew."""

ANOTHER_SECONDS = 600.0
"""Seconds after which a far fall within a trouble has a date of its own."""

PASSING_SECONDS = 900.0
"""Seconds that a far fall may last and still be one request's affair."""

GROWING = tuple(troubles.CODE[kind] for kind in ("drop", "decay", "tail_drop"))
LEAST_EXPLAINED = 0.03
"""Logits that traffic must explain for an event to say so."""

FALLS = frozenset({"collapse", "drop", "tail_drop", "decay"})
FOLLOWED = ("last", "scatter", "back", "buckets", "lasted", "muted")
ADOPTED = "the improvement lasted and is the new baseline"


def settle(plan: base.DetectionPlan, state: State, trials: Trials, seen: Sightings) -> list[Alarm]:
    """Open, update and close troubles by what was seen and return the alarms; `state` is changed in place."""
    trouble = state["trouble"]
    kind = trouble["kind"]
    news = np.maximum(np.maximum(seen.falls(), seen.rises()), seen.silent) >= 1.0
    if kind.any():
        grown = seen.full & (np.abs(trouble["shift"][:, 0]) > GROWN * np.abs(trouble["first_shift"][:, 0]))
        settled = swings.loud(state["swings"], trouble)
        settled |= troubles.lasting(trouble, trouble["detector"] == SEERS.index(trend.NAME))
        news |= (kind > 0) & (seen.over | grown | settled | (kind >= troubles.DEAD))
    alarms: list[Alarm] = []
    for row in np.flatnonzero(news).tolist():
        case = Case(plan, state, trials, seen, row)
        alarms += _go_on(case) if kind[row] else _begin(case)
    return alarms


def _go_on(case: Case) -> list[Alarm]:
    """Close the open trouble or make it worse, if there is reason to."""
    trouble, seen, row = case.state["trouble"], case.seen, case.row
    kind = int(trouble["kind"][row])
    if trouble["muted"][row] > 0.0:
        return _go_on_muted(case)
    if seen.over[row]:
        return _passed(case)
    awake = kind == troubles.SILENT and case.trials.proposed[row] > 0.0
    if awake or (kind == troubles.DEAD and seen.alive[row] >= 1.0):
        return [closed(case)]
    fell = seen.plunge[row] >= 1.0
    if fell and _another(case):
        alarm = said(case, "close")
        trouble["kind"][row] = 0
        return [alarm, *_begin(case)]
    one = trouble[row : row + 1]
    if troubles.lasting(one, one["detector"] == SEERS.index(trend.NAME))[0]:
        return [_adopt(case)]
    return [_worsen(case)] if kind in GROWING and _is_worse(case, fell=fell) else []


def _is_worse(case: Case, *, fell: bool) -> bool:
    """Return whether an open trouble has become a collapse; `fell`: far and at once."""
    trouble, row = case.state["trouble"], case.row
    lasting = trouble["buckets"][row] > 1.0 / troubles.FOLLOW
    sunk = lasting and diagnosis.collapsed(
        case, diagnosis.missing_after(case, float(trouble["shift"][row, 0]))
    )
    waiting = fell and _later(case) and diagnosis.further_now(case)
    # what fell already swings: a moment of it is no collapse
    fell = fell and diagnosis.collapsed(case, diagnosis.missing_lately(case))
    return bool((fell or sunk) and not waiting)


def _passed(case: Case) -> list[Alarm]:
    """Close what is over, and say so if the stream is now known to fall and come back by itself."""
    trouble, row, at = case.state["trouble"], case.row, float(case.trials.at[case.row])
    muted = trouble["muted"][row] > 0.0
    trend.passed(case.part("trend"), case.part("traffic"))
    alarm = said(case, "close")
    first = False
    by_itself = case.state["baseline"]["life_began_at"][row] < alarm.change_point_at
    if by_itself and alarm.kind == "collapse" and alarm.after.mal > case.plan.floor_mal:
        lasted = at - alarm.change_point_at if not muted else float(trouble["lasted"][row])
        first = swings.passed(case.state["swings"], row, at, diagnosis.fell_by(case), lasted)
    _close(case)
    return [] if muted else [alarm, _second_level(case, alarm)] if first else [alarm]


def _second_level(case: Case, alarm: Alarm) -> Alarm:
    """Return the note that the stream falls and comes back again and again."""
    longest = float(case.state["swings"]["longest"][case.row])
    fact = (
        f"acceptance fell to a MAL of {alarm.after.mal:.2f} and came back {swings.TOLD} times within hours, "
        f"for at most {longest / 60.0:.0f} min each: a second level of the stream, of which no more is said "
        f"unless it stays for {swings.patience(longest) / 60.0:.0f} min or acceptance falls further"
    )
    # two levels of one regime are no verdict on it
    before, after = (
        base.Level(each.mal, math.nan, math.nan, (), 0.0) for each in (alarm.before, alarm.after)
    )
    return replace(
        alarm,
        kind="regime_change",
        severity="info",
        action="note",
        positions=(),
        before=before,
        after=after,
        detector=swings.NAME,
        fact=fact,
    )


def _go_on_muted(case: Case) -> list[Alarm]:
    """Close a fall to the second level in silence, or open it aloud once it stays or falls further."""
    state, row = case.state, case.row
    trouble, own = state["trouble"], state["swings"][row : row + 1]
    if case.seen.over[row]:
        return _passed(case)
    further = bool(swings.lower(own)[0]) or case.seen.dead[row] >= 1.0
    if not (further or swings.stays(own, trouble[row : row + 1])[0]):
        return []
    trouble["muted"][row] = 0.0
    if further:
        since = float(own["lower_since"][0]) if own["lower"][0] > 0.0 else float(case.trials.began_at[row])
        trouble["change_at"][row], trouble["change_low"][row] = since, since
        trouble["change_high"][row] = case.trials.at[row]
        trouble["after"][row] = trouble["recent"][row]
        own["lower"] = 0.0
    if diagnosis.collapsed(case, diagnosis.missing_lately(case)):
        _worsen(case)
    return [said(case, "open")]


def _another(case: Case) -> bool:
    """Return whether a fall far and at once is no part of the open trouble: it has a date of its own."""
    kind = int(case.state["trouble"]["kind"][case.row])
    if kind == troubles.IMPROVEMENT:
        return diagnosis.collapsed(case, diagnosis.missing_now(case))
    return kind in GROWING and _later(case) and diagnosis.further_lately(case)


def _later(case: Case) -> bool:
    """Return whether a fall far and at once began well after the open trouble was seen."""
    apart = case.state["plunge"]["since"][case.row] - case.state["trouble"]["opened_at"][case.row]
    return bool(apart > ANOTHER_SECONDS)


def _worsen(case: Case) -> Alarm:
    """Make the open trouble a collapse, in which all positions and the level must come back."""
    trouble, row = case.state["trouble"], case.row
    far = float(diagnosis.now(case)[0] - trouble["origin"][row, 0])
    trouble["kind"][row] = troubles.COLLAPSE
    trouble["positions"][row] = diagnosis.EVERY_POSITION
    trouble["channel"][row] = 0
    trouble["origin"][row, 1] = trouble["origin"][row, 0]
    trouble["shift"][row] = trouble["first_shift"][row] = min(
        far, float(trouble["shift"][row, 0]), -LEAST_SHIFT
    )
    trouble["score"][row] = max(float(trouble["score"][row]), float(case.seen.falls()[row]))
    for name in ("last", "scatter", "back", "buckets"):
        trouble[name][row] = 0.0
    trouble["weight"][row] = 1.0
    level.restart(case.part("level"))
    return said(case, "update")


def _begin(case: Case) -> list[Alarm]:
    """Open a trouble if a detector is over its limit."""
    found = diagnosis.of(case)
    if found is None or (found.kind in FALLS and not diagnosis.fallen(case, _lately(case, found))):
        return []
    alarm = opened(case, found)
    if found.kind in FALLS and case.seen.dead[case.row] < 1.0 and _as_ever(case):
        case.state["trouble"]["muted"][case.row] = 1.0
        case.state["swings"]["lower"][case.row] = 0.0
        return []
    return [alarm]


def _as_ever(case: Case) -> bool:
    """Return whether a fall that opens is one to the second level that the stream is known to have.

    One that came with a restart is not.
    """
    own, row, trouble = case.state["swings"], case.row, case.state["trouble"]
    shift = float(trouble["shift"][row, 0])
    if trouble["change_at"][row] - case.state["baseline"]["life_began_at"][row] < ANOTHER_SECONDS:
        return False
    return swings.known(own, row, float(case.trials.at[row])) and swings.as_ever(own, row, shift)


def _lately(case: Case, diagnosed: Diagnosis) -> Floats:
    """Return the sums [19] of what came since a change that was found: of minutes, or of this interval."""
    at = case.trials.at[case.row]
    long_ago = at - diagnosed.since > LONG_AGO * max(at - case.trials.began_at[case.row], base.SCRAPE_SECONDS)
    sums: Floats = case.state["trouble"]["recent"][case.row] if long_ago else case.trials.sums[case.row]
    return sums


def opened(case: Case, diagnosed: Diagnosis) -> Alarm:
    """Open the trouble that was `diagnosed` and return the alarm that says so."""
    trouble, row, at = case.state["trouble"], case.row, float(case.trials.at[case.row])
    origin = diagnosis.origin(case)
    far = diagnosis.now(case) - origin
    origin[0] = _unexplained_origin(case, diagnosed, origin)
    shift = np.array([far[0] if math.isnan(diagnosed.shift) else diagnosed.shift, far[diagnosed.channel]])
    sign = 1.0 if diagnosed.kind == "improvement" else -1.0
    if diagnosed.channel == 0:
        shift[:] = sign * max(sign * shift[0], LEAST_SHIFT)
    elif diagnosed.kind == "tail_drop" or sign * shift[0] < LEAST_SHIFT:
        shift[0] = 0.0  # the level did not move with it: only the contrast must come back
    interval = max(at - float(case.trials.began_at[row]), 1.0)
    since = min(diagnosed.since, at)
    low, high = diagnosed.between or (since, since)
    values = {
        "kind": troubles.CODE[diagnosed.kind],
        "opened_at": at,
        "change_at": since,
        "change_low": min(low, since) - interval,
        "change_high": min(max(high, since) + interval, at),
        "score": diagnosed.score,
        "detector": SEERS.index(diagnosed.detector),
        "positions": diagnosed.positions,
        "channel": diagnosed.channel,
        "origin": (origin[0], origin[diagnosed.channel]),
        "shift": shift,
        "first_shift": shift,
        "rhythm": rhythm.at_time(case.part("trend")["rhythm"], case.trials.at[case.one])[0],
        "weight": 1.0 if math.isnan(diagnosed.shift) else troubles.EARLY_BUCKETS,
        **dict.fromkeys(FOLLOWED, 0.0),
        "after": _lately(case, diagnosed),
    }
    for name, value in values.items():
        trouble[name][row] = value
    level.restart(case.part("level"))
    return said(case, "open")


def _unexplained_origin(case: Case, diagnosed: Diagnosis, origin: Floats) -> float:
    """Return where the level stood, less what traffic explained of it in the hour before."""
    if diagnosed.detector == trend.NAME:
        return float(case.seen.trend_origin[case.row])
    local, usual = case.part("level")["local"], case.part("traffic")["usual"]
    return float(traffic.left(origin[:1], usual, local)[0])


def closed(case: Case) -> Alarm:
    """Close the open trouble and return the alarm that says so."""
    alarm = said(case, "close")
    _close(case)
    return alarm


def _close(case: Case) -> None:
    """Forget the trouble, and what the detectors gathered while it was open."""
    for name in ("kind", "weight", *FOLLOWED):
        case.state["trouble"][name][case.row] = 0
    level.restart(case.part("level"))
    shape.restart(case.part("shape"))
    lasted = float(case.trials.at[case.row]) - float(case.state["trouble"]["change_at"][case.row])
    plunge.restart(case.part("plunge"), passed=lasted < PASSING_SECONDS)
    trend.restart(case.part("trend"))
    floor.restart(case.part("floor"))


def _adopt(case: Case) -> Alarm:
    """Close an improvement that lasted and make what was seen since the baseline."""
    alarm = replace(said(case, "close"), fact=ADOPTED)
    trend.rebase(case.state["trend"], case.row)
    reference.adopt(case.part("baseline"), case.part("trouble")["after"])
    level.rebase(case.part("level"))
    _close(case)
    return alarm


def standing(state: State, row: int) -> tuple[Level, float, float]:
    """Return how an open trouble stands: the level since it began, what traffic explains of it, the rest."""
    trouble = state["trouble"]
    detector = SEERS[int(trouble["detector"][row])]
    explained, unexplained = float(state["traffic"]["explained"][row]), float(trouble["shift"][row, 0])
    if (
        detector not in (level.NAME, trend.NAME)
        or explained * unexplained <= 0.0
        or abs(explained) < LEAST_EXPLAINED
    ):
        explained = 0.0
    return diagnosis.measured(state, trouble["after"][row], row), explained, unexplained


def said(case: Case, action: Action) -> Alarm:
    """Return the alarm that says how the open trouble stands."""
    trouble, row = case.state["trouble"], case.row
    kind = TROUBLES[int(trouble["kind"][row]) - 1]
    detector = SEERS[int(trouble["detector"][row])]
    after, explained, unexplained = standing(case.state, row)
    drafted = 1.0 if case.trials.single[row] else min(case.trials.drafted[row], base.POSITIONS)
    mask = int(trouble["positions"][row])
    return base.Alarm(
        index=row,
        kind=kind,
        severity=SEVERITY_OF[kind],
        action=action,
        change_point_at=float(trouble["change_at"][row]),
        change_point_low=float(trouble["change_low"][row]),
        change_point_high=float(trouble["change_high"][row]),
        raised_at=float(case.trials.at[row]),
        positions=tuple(j for j in range(int(drafted)) if mask >> j & 1),
        before=diagnosis.before(case, trouble["after"][row]),
        after=after,
        score=float(trouble["score"][row]),
        detector=detector,
        explained=explained,
        unexplained=unexplained,
    )
