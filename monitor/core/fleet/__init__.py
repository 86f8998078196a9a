"""Many streams of one model: who is the odd one out, and what moved everywhere.

Replicas of one model share rhythm and traffic. What they have in common is taken from each of them, and
what is left wanders so little that a drop on one replica shows sooner than it could alone (`odd`). The
common part is watched itself: a change of it is one event of the fleet (`shared`), and so are late positions
that fall on most replicas; the replicas' own alarms that it explains are held back (`words`).

Replicas are compared turn by turn (`turns`), so it does not matter how scrapes are batched as long as they
come in time order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import tables
from monitor.core.detectors import base, plunge, shape
from monitor.core.detectors.measures import evidence, noise, reference, scores
from monitor.core.fleet import decisions, groupwise, odd, shared, turns
from monitor.core.fleet.decisions import FleetAlarm, Present

if TYPE_CHECKING:
    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Alarm, Findings, Floats, Indices, Ints, State
    from monitor.core.detectors.measures.evidence import Trials

__all__ = ["LEAST_REPLICAS", "SKIPPED", "Fleet", "FleetAlarm", "Present", "Said", "allocate", "end", "step"]

LEAST_REPLICAS = decisions.LEAST_REPLICAS
PERIOD_SECONDS = turns.PERIOD_SECONDS
SKIPPED = turns.NOBODY
LEAST_DRAFTS = 16.0
"""Drafts that a replica needs in a turn to be compared: a few steps of one request."""

PLUNGING = 0.3
"""Share of `plunge`'s limit from which on a replica counts as plunging, too."""

TAILING = 0.3
"""Share of `shape`'s limit from which on a replica counts as one whose late positions fall, too."""

MERGED = 1.5
"""Turns that news may cover and still count as one look."""

_LATER = np.iinfo(np.int64).max

STREAM_DTYPE = np.dtype([*turns.STREAM_FIELDS, *decisions.STREAM_FIELDS, ("odd", odd.DTYPE)])
GROUP_DTYPE = np.dtype(
    [*turns.GROUP_FIELDS, *decisions.GROUP_FIELDS, ("learnt", odd.LEARNT_DTYPE), ("shared", shared.DTYPE)]
)


@dataclass(slots=True)
class Fleet:
    """The state of all streams (as many rows as the detectors have) and of all groups."""

    streams: State
    groups: State


@dataclass(frozen=True, slots=True)
class Said:
    """What is said after the replicas were compared.

    `findings` are those of the batch, without the alarms that a group explains; `named` are alarms about
    single replicas with their rows in the detectors' state, `common` those about whole groups. `present` is
    where groups with an open change stand now.
    """

    findings: Findings
    named: tuple[tuple[int, Alarm], ...]
    common: tuple[FleetAlarm, ...]
    present: tuple[Present, ...] = ()


@dataclass(frozen=True, slots=True)
class _News:
    """A batch: `group_of_row` [B] is the group of each row, `watch` the detectors' state after their step."""

    rows: Indices
    group_of_row: Ints
    at: Floats
    seconds: Floats
    trials: Trials
    watch: State
    raised: dict[int, list[Alarm]]


def allocate(num_streams: int, num_groups: int) -> Fleet:
    """Return the state of streams and groups that were never seen."""
    streams, groups = np.zeros(num_streams, STREAM_DTYPE), np.zeros(num_groups, GROUP_DTYPE)
    turns.allocate(streams, groups)
    streams["spread"] = noise.PRIOR_SPREAD
    odd.allocate(streams["odd"])
    odd.allocate_learnt(groups["learnt"])
    shared.allocate(groups["shared"])
    return Fleet(streams, groups)


def step(
    plan: base.DetectionPlan,
    fleet: Fleet,
    groups: Ints,
    counts: Counts,
    watch: State,
    everyone: State,
    findings: Findings,
) -> Said:
    """Compare the replicas whose turns end with a batch, and return what is to be said.

    groups [B]: which group each row of `counts` belongs to, `SKIPPED` for none; everyone: the detectors'
    state of all streams, changed in place where a replica is found to be the odd one out; watch: its rows
    that have news.
    """
    raised: dict[int, list[Alarm]] = {}
    for alarm in findings.alarms:
        raised.setdefault(alarm.index, []).append(alarm)
    trials = evidence.from_counts(counts, reference.depth(watch["baseline"]["sums"]))
    news = _News(counts.rows, groups, counts.at, counts.seconds, trials, watch, raised)
    fleet.streams["group"][counts.rows] = groups
    kept: list[Alarm] = []
    named: list[tuple[int, Alarm]] = []
    common: list[FleetAlarm] = []
    present: list[Present] = []
    said = decisions.Decided(plan, fleet.streams, fleet.groups, everyone, kept, named, common, present)
    left = np.flatnonzero(groups >= 0)
    while len(left):
        due = turns.due(fleet.groups, groups[left], news.at[left])
        first = np.full(len(fleet.groups), _LATER)
        np.minimum.at(first, groups[left[due]], left[due])
        before = left < first[groups[left]]
        _listen(said, news, left[before])
        left = left[~before]
        numbers = np.flatnonzero(first < _LATER)
        if len(numbers):
            when = news.at[first[numbers]]
            going_on = fleet.groups["over"][numbers] == 0
            _close(said, numbers[going_on], when[going_on])
            turns.begin(fleet.streams, fleet.groups, numbers, when)
    alone = [alarm for alarm in findings.alarms if groups[alarm.index] < 0]
    alarms = sorted((*alone, *kept), key=lambda alarm: alarm.index)
    return Said(replace(findings, alarms=tuple(alarms)), tuple(named), tuple(common), tuple(present))


def end(fleet: Fleet, number: int) -> None:
    """Forget what was said of a group, and the change behind it."""
    fleet.groups["said"][number] = decisions.NOTHING
    shared.end(fleet.groups["shared"][number : number + 1])


def _listen(decided: decisions.Decided, news: _News, some: Indices) -> None:
    """Take in the news `some` of a batch, none of which is of another period than its group's turn."""
    if not len(some):
        return
    group_of_row = news.group_of_row[some]
    complete, last = turns.arrive(decided.streams, decided.groups, news.rows[some], group_of_row)
    ends = np.full(len(decided.groups), _LATER)
    ends[complete] = last
    place = np.arange(len(some))
    _add(decided, news, some[place <= ends[group_of_row]])
    _judge(decided, news, some[place < ends[group_of_row]])
    if len(complete):
        _close(decided, complete, news.at[some[last]])
        _add(decided, news, some[place > ends[group_of_row]])
        _judge(decided, news, some[place >= ends[group_of_row]])


def _add(decided: decisions.Decided, news: _News, some: Indices) -> None:
    """Add intervals to the turn, and note what the detectors know of their streams for its end."""
    rows, watch = (
        news.rows[some],
        news.watch if len(some) == len(news.rows) else tables.keep(news.watch, some),
    )
    streams, trials, baseline = decided.streams, news.trials, watch["baseline"]
    turns.add(streams, rows, trials.sums[some], trials.began_at[some], news.seconds[some])
    streams["drafted"][rows], streams["single"][rows] = trials.drafted[some], trials.single[some]
    streams["rate"][rows] = baseline["rate"]
    streams["known"][rows] = reference.known(baseline)
    streams["spread"][rows] = watch["noise"]["spread"][:, 0]
    limit = base.nats(decided.plan) + plunge.EXTRA_NATS
    streams["plunging"][rows] = watch["plunge"]["sum"] > PLUNGING * limit
    falls = watch["shape"]["sums"][:, :, 0].max(2) / shape.limits(decided.plan, watch["shape"])[:, :, 0]
    streams["tailing"][rows] = falls.max(1) > TAILING


def _judge(decided: decisions.Decided, news: _News, some: Indices) -> None:
    """Hold back the alarms of the news `some` that their groups explain, and note who has a trouble."""
    for index in some.tolist():
        for alarm in news.raised.get(index, ()):
            shift = float(news.watch["trouble"]["shift"][index, 0])
            decided.judge(int(news.rows[index]), alarm, shift)
    rows = news.rows[some]
    kind = decided.everyone["trouble"]["kind"][rows]
    decided.streams["held"][rows] *= kind > 0
    decided.streams["troubled"][rows] = (kind > 0) & (decided.streams["held"][rows] == 0.0)


def _close(decided: decisions.Decided, numbers: Ints, times: Floats) -> None:
    """Compare the replicas of groups whose turns end at `times` [G], and say what there is to say of them."""
    if not len(numbers):
        return
    streams, groups = decided.streams, decided.groups
    rows = turns.taking_part(streams, groups, numbers)
    groups["members"][numbers] = 0.0
    if len(rows):
        which = np.searchsorted(numbers, streams["group"][rows])
        first = groupwise.starts(which)
        for name in ("plunging", "tailing"):
            groups[name][numbers[which[first]]] = groupwise.share(streams[name][rows] > 0.0, first)
        usable = (streams["sums"][rows, base.DRAFTS] >= LEAST_DRAFTS) & (streams["known"][rows, 0] > 0.0)
        members = np.bincount(which[usable], minlength=len(numbers))
        groups["members"][numbers] = members
        compared = usable & (members >= LEAST_REPLICAS)[which]
        if compared.any():
            enough = members >= LEAST_REPLICAS
            _compare(decided, numbers[enough], rows[compared], times[enough])
    turns.end(streams, groups, numbers)


def _compare(decided: decisions.Decided, numbers: Ints, rows: Indices, times: Floats) -> None:
    """Compare replicas (`rows`, group after group) within their groups `numbers`."""
    part, group = tables.keep(decided.streams, rows), tables.take(decided.groups, numbers)
    group_of_row = np.searchsorted(numbers, part["group"])
    first = groupwise.starts(group_of_row)
    seen = scores.against(part["sums"], part["rate"], part["known"] > 0.0)
    # what was merged over a gap is one look: its requests are few, however many their drafts
    looks = np.maximum(part["covered"] / (MERGED * group["seconds"][group_of_row]), 1.0)
    variance = part["spread"] * looks / np.maximum(seen.information[:, 0], 1.0) + noise.FLOORS[1]
    healthy = part["troubled"] == 0.0
    found = shared.parts(seen.shift[:, 0], variance, group_of_row, healthy)
    seen_apart = odd.Apart(found.apart, found.apart_variance, part["began_at"], healthy)
    odd.step(decided.plan, part["odd"], group["learnt"], group_of_row, seen_apart)
    began = np.minimum.reduceat(part["began_at"], first)
    news = shared.step(decided.plan, group["shared"], found.common, found.common_variance, began, times)
    group["held"] = groupwise.share(part["held"] > 0.0, first)
    tables.put(decided.streams, rows, part)
    tables.put(decided.groups, numbers, group)
    for index in np.flatnonzero((group["said"] > 0.0) | (group["shared"]["open"] > 0.0)).tolist():
        decided.of_group(int(numbers[index]), rows[group_of_row == index], float(times[index]), news[index])
    own = (part["odd"]["score"] >= decisions.SUPPORTED) | (part["odd"]["named"] < 0.0)
    for index in np.flatnonzero(own | (part["held"] > 0.0)).tolist():
        decided.of_replica(int(rows[index]), float(times[group_of_row[index]]))
