"""A release that is compared with the one before it becomes one event of the model, with the verdict.

The event opens with the first word, or after `FIRST_WORD_BLOCKS` minutes in which none is to be said. New
pods of which nothing says that they are another release are none: the model's reference judges them. Worse by
much is a drop or a collapse and stays open until the level is back or no pod of the release is left;
everything else closes when the comparison is over.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import events
from monitor.core.detectors import base
from monitor.core.detectors.measures import evidence, reference
from monitor.core.economics import verdicts
from monitor.core.streams import regimes, release_words, releases, told
from monitor.core.streams.releases import NEW, OLD, UNSEEN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors import DetectionPlan as Watch
    from monitor.core.detectors import Findings
    from monitor.core.detectors.base import Alarm, Indices
    from monitor.core.economics.verdicts import Difference, ReleaseVerdict
    from monitor.core.events import Event
    from monitor.core.streams import State
    from monitor.core.streams.regimes import Declared
    from monitor.core.streams.releases import Comparison

FIRST_WORD_BLOCKS = 10
HALFWAY, BACK_BLOCKS = 0.45, 10
OWN_FALLS = frozenset({"collapse", "drop", "tail_drop", "decay", "dead_draft"})
LEVEL_IS_BACK = "the level is back"
NOBODY_IS_LEFT = "no stream of the model is left: closed without recovery"


def judge(
    plan: Watch, declared: Mapping[str, Declared], state: State, counts: Counts, findings: Findings
) -> tuple[Findings, list[Event]]:
    """Return the findings without the falls that releases explain, and the events that comparing brings."""
    brought = _step(plan, declared, state, counts)
    explained = _explained(state)
    if not explained:
        return findings, brought
    return replace(findings, alarms=_unexplained(state, counts.rows, findings.alarms, explained)), brought


def _step(plan: Watch, declared: Mapping[str, Declared], state: State, counts: Counts) -> list[Event]:
    """Take in what streams counted; return the events that comparing releases brings."""
    groups, found = state.groups, state.groups.releases
    trials = evidence.from_counts(counts, reference.depth(state.watch["baseline"]["sums"][counts.rows]))
    blocks = np.floor(counts.at / releases.BLOCK_SECONDS).astype(np.int64)
    numbers = groups.group_of_row[counts.rows]
    brought: list[Event] = []
    for block in np.unique(blocks).tolist():
        now = blocks == block
        brought += _end_minutes(plan, declared, state, np.unique(numbers[now]), block)
        drafted = now & (trials.drafts > 0.0)
        for index in np.flatnonzero(drafted & _entering(state, counts)).tolist():
            brought += _enter(plan, declared, state, int(counts.rows[index]), float(counts.at[index]))
        rows = counts.rows[drafted]
        releases.count(found, rows, trials.sums[drafted], trials.single[drafted])
    return brought


def _entering(state: State, counts: Counts) -> npt.NDArray[np.bool_]:
    """Return which rows of a batch may be of another release than before."""
    new = state.groups.releases.streams["side"][counts.rows] == UNSEEN
    result: npt.NDArray[np.bool_] = new | counts.restarted | counts.new_regime
    return result


def _enter(plan: Watch, declared: Mapping[str, Declared], state: State, row: int, now: float) -> list[Event]:
    """Give a stream that is new, or began anew, its side."""
    found, number = state.groups.releases, int(state.groups.group_of_row[row])
    group, new = found.groups[number], found.streams["side"][row] == UNSEEN
    own = _signature(declared, state, row)
    rollout = told.released(state.told, state.identities[row].key, now)
    if math.isnan(group["began_at"]):
        group["began_at"] = now
    current = found.current.setdefault(number, {})
    comparison = found.comparisons.get(number)
    forming = now < group["began_at"] + releases.FORMING_SECONDS or math.isnan(group["local_at"])
    apart = _apart(current, own, rollout, comparison)
    if forming and (new or not apart):
        found.streams["side"][row] = OLD
        current |= {name: value for name, value in own.items() if name not in current}
        return []
    brought: list[Event] = []
    if comparison is not None and _another(comparison, apart):
        brought += _finish(plan, declared, state, number, now)
        comparison = None
        apart = _apart(found.current[number], own, rollout, None)
    alone = not new and (state.groups.group_of_row == number).sum() == 1
    if alone or not apart:
        found.streams["side"][row], found.streams["serial"][row] = OLD, 0
        return brought
    if comparison is None:
        comparison = releases.begin(found, number, now)
    comparison.changes = list(dict(comparison.changes + apart).items())
    releases.join(found, row, comparison)
    return brought


def _apart(
    current: Mapping[str, str],
    own: Mapping[str, str],
    rollout: Mapping[str, str],
    under_way: Comparison | None,
) -> list[tuple[str, str]]:
    """Return what differs of a stream from the old release: what is seen of it, and what was told then.

    Where other pods of the new release show what it is, one that shows nothing is no part of it.
    """
    seen = releases.differences(current, own)
    only_told = under_way is None or all(name in told.RELEASED for name, _ in under_way.changes)
    if not (seen or only_told):
        return []
    before = dict.fromkeys(told.RELEASED, "an earlier state") | dict(current)
    return seen + releases.differences(before, rollout)


def _another(comparison: Comparison, apart: list[tuple[str, str]]) -> bool:
    """Return whether a stream is of a third release, not of the one that is being compared."""
    known = dict(comparison.changes)
    shared = [(name, text) for name, text in apart if name in known]
    return bool(apart) and (not shared or any(known[name] != text for name, text in shared))


def _signature(declared: Mapping[str, Declared], state: State, row: int) -> dict[str, str]:
    identity = state.identities[row]
    said = declared.get(identity.key.target, regimes.NOTHING_DECLARED)
    return releases.signature(identity, said.labels)


def _end_minutes(
    plan: Watch, declared: Mapping[str, Declared], state: State, numbers: npt.NDArray[np.int64], block: int
) -> list[Event]:
    """End the minutes of the groups that have news of a later one, `block`."""
    found, of = state.groups.releases, state.groups.group_of_row
    since = found.groups["block"][numbers]
    found.groups["block"][numbers] = np.maximum(since, block)
    numbers = numbers[since < block]
    if not len(numbers):
        return []
    due = np.zeros(len(found.groups), bool)
    due[numbers] = True
    rows = np.flatnonzero(due[of] & (found.streams["sums"][:, base.DRAFTS] > 0.0))
    rows = rows[np.argsort(of[rows], kind="stable")]
    bounds = np.searchsorted(of[rows], np.stack((numbers, numbers + 1)))
    brought: list[Event] = []
    for number, low, high in zip(numbers.tolist(), *bounds.tolist(), strict=True):
        some = rows[low:high]
        if low < high:
            brought += _end_minute(plan, declared, state, number, some)
    return brought


def _end_minute(
    plan: Watch, declared: Mapping[str, Declared], state: State, number: int, rows: Indices
) -> list[Event]:
    found = state.groups.releases
    at = float(state.ledger["at"][rows].max())
    ids = [state.identities[row].id for row in rows.tolist()]
    held = found.held.get(number)
    brought = [] if held is None else _watch(state, number, held, rows, at)
    comparison = releases.minute(found, number, rows, ids, at)
    if comparison is not None:
        brought += _say(plan, state, number, comparison, at)
    comparison = found.comparisons.get(number)
    if comparison is not None and _over(comparison, at):
        brought += _finish(plan, declared, state, number, at)
    return brought


def _say(plan: Watch, state: State, number: int, comparison: Comparison, now: float) -> list[Event]:
    """Open or update the event of a comparison, if there is something new to say."""
    apart = releases.difference(comparison, verdicts.ALPHA)
    if apart is None:
        return []
    seen = comparison.beside.seen + comparison.edge.seen
    rate = np.array(comparison.rate)
    word = verdicts.judged(apart, rate, comparison.shared, single=comparison.single)
    if comparison.event is None:
        if word.outcome == "no_difference" and seen < FIRST_WORD_BLOCKS:
            return []
        comparison.event = release_words.opened(plan, state, number, comparison, (apart, word), now)
    else:
        grown = _grown(plan, state, number, comparison, (apart, word), now)
        if grown is None:
            return []
        comparison.event = grown
    comparison.told_blocks = seen
    return [comparison.event]


def _grown(
    plan: Watch,
    state: State,
    number: int,
    comparison: Comparison,
    judgement: tuple[Difference, ReleaseVerdict],
    now: float,
) -> Event | None:
    """Return the event as it stands now, None where there is nothing new of it."""
    event, (apart, word) = comparison.event, judgement
    if event is None or event.status == "closed":
        return None
    if event.kind in release_words.BAD and _back(comparison, apart.logits):
        return events.closed(event, now, LEVEL_IS_BACK)
    kind, severity = release_words.kind_of(plan, comparison, word)
    if event.kind in release_words.BAD and (kind not in release_words.BAD or event.kind == "collapse"):
        kind, severity = event.kind, event.severity  # what fell stays open until it is back
    before = event.verdict.outcome if event.verdict else None
    seen = comparison.beside.seen + comparison.edge.seen
    if kind == event.kind and word.outcome == before and seen < 2 * comparison.told_blocks:
        return None
    return replace(
        release_words.opened(plan, state, number, comparison, judgement, now),
        id=event.id,
        kind=kind,
        severity=severity,
        raised_at=event.raised_at,
        at_opening=event.at_opening,
        updates=event.updates + 1,
    )


def _over(comparison: Comparison, now: float) -> bool:
    """Return whether there is no more to learn: one side is gone for good, or the new one never drafted."""
    gone = now - comparison.old_at >= releases.GONE_SECONDS
    aged = now - max(comparison.old_at, comparison.began_at) >= releases.EDGE_SECONDS
    left = not math.isnan(comparison.new_at) and now - comparison.new_at >= releases.GONE_SECONDS
    never = math.isnan(comparison.new_at) and now - comparison.began_at >= releases.EDGE_SECONDS
    return (gone and aged) or left or never


def _finish(
    plan: Watch, declared: Mapping[str, Declared], state: State, number: int, now: float
) -> list[Event]:
    """End a comparison: its event closes, unless what fell must come back first."""
    del plan
    found = state.groups.releases
    comparison = found.comparisons[number]
    rows = np.flatnonzero((found.streams["side"] == NEW) & (state.groups.group_of_row == number))
    current = dict(found.current.get(number, {}))
    if comparison.new_at > comparison.old_at or not now - comparison.new_at >= releases.GONE_SECONDS:
        for row in rows.tolist():
            current |= _signature(declared, state, row)
            current |= told.released(state.told, state.identities[row].key, comparison.began_at)
        releases.promote(found, number, state.groups.group_of_row, current)
    else:
        found.comparisons.pop(number)
    event = comparison.event
    if event is None or event.status == "closed":
        return []
    brought: list[Event] = []
    if event.kind in release_words.BAD:
        before = found.held.pop(number, None)
        if before is not None and before.event is not None:
            brought.append(
                events.closed(before.event, now, "the release after it is worse, too: see its event")
            )
        found.held[number] = comparison
        return brought
    return [events.closed(event, now)]


def _watch(state: State, number: int, held: Comparison, rows: Indices, now: float) -> list[Event]:
    """Close the event of a release that fell when its level is back, or when none of its pods drafts."""
    found = state.groups.releases
    own = rows[found.streams["serial"][rows] == held.serial]
    if held.event is None:
        del found.held[number]
        return []
    fact = ""
    if len(own):
        sums = found.streams["sums"][own].sum(0)
        level, variance = verdicts.levels(sums[None], np.array(held.rate), held.shared)
        shift = _shift(held)
        if math.isfinite(variance[0]):
            held.lately += (float(level[0]) - held.lately) / 10.0
            held.new_at = now
            fact = LEVEL_IS_BACK if _back(held, shift) else ""
    elif now - held.new_at >= releases.GONE_SECONDS:
        fact = "no pod of the release drafts any more"
    if not fact:
        return []
    del found.held[number]
    return [events.closed(held.event, now, fact)]


def deserted(state: State, away: npt.NDArray[np.bool_], now: float) -> list[Event]:
    """Return the open events of releases whose model no stream serves any more, closed at `now`.

    away: which rows are of targets that left, or are on no page any more.
    """
    groups, found = state.groups, state.groups.releases
    there = np.bincount(groups.group_of_row[~away], minlength=len(groups.numbers))
    brought = []
    for told_of in (found.comparisons, found.held):
        for number in [number for number in sorted(told_of) if not there[number]]:
            event = told_of.pop(number).event
            if event is not None and event.status == "open":
                brought.append(events.closed(event, now, NOBODY_IS_LEFT))
    return brought


def _back(comparison: Comparison, shift: float) -> bool:
    """Return whether the last minutes are nearer to the old level than to the fallen one, for long enough."""
    comparison.back = comparison.back + 1 if comparison.lately > HALFWAY * shift else 0
    return comparison.back >= BACK_BLOCKS


def _shift(held: Comparison) -> float:
    found = releases.difference(held, verdicts.ALPHA)
    return found.logits if found is not None else 0.0


def _explained(state: State) -> frozenset[int]:
    """Return the rows of releases of which it is said that they fell."""
    found = state.groups.releases
    every: Iterable[Comparison] = (*found.comparisons.values(), *found.held.values())
    serials = [
        each.serial for each in every if each.event is not None and each.event.kind in release_words.BAD
    ]
    if not serials:
        return frozenset()
    return frozenset(np.flatnonzero(np.isin(found.streams["serial"], serials)).tolist())


def _unexplained(
    state: State, rows: Indices, alarms: tuple[Alarm, ...], explained: frozenset[int]
) -> tuple[Alarm, ...]:
    """Return the alarms of a batch (`rows` by index) but for falls that the event of a release tells.

    What was told of a stream before goes on.
    """
    kept = []
    for alarm in alarms:
        row = int(rows[alarm.index])
        untold = state.identities[row].event is None
        held = row in explained and alarm.kind in OWN_FALLS
        if not (untold and (held or alarm.action == "close")):
            kept.append(alarm)
    return tuple(kept)
