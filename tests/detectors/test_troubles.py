"""Each kind of trouble: how it opens, what it is called, and when it is over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import Condition
from tests.detectors import simulated
from tests.detectors.simulated import Traffic, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Floats

BUSY = Traffic()
HOUR = 240


def between(first: int, last: int, changed: Callable[[Floats], Floats]) -> Callable[[int, Floats], Floats]:
    """Return a change that holds from one interval to another."""
    return lambda step, rate: changed(rate.copy()) if first <= step < last else rate


def blank(share: float) -> Callable[[Floats], Floats]:
    """Return a change by which a share of the drafts carries nothing: position 0 fails, the rest is as before."""

    def changed(rate: Floats) -> Floats:
        rate[:, 0] *= 1.0 - share
        return rate

    return changed


def test_a_collapse_closes_when_acceptance_is_back() -> None:
    """A collapse stays open as long as it lasts, an hour here, and closes within two minutes of its end."""
    change = between(300, 540, lambda rate: rate * 0.1)
    watch = simulated.watched().see(simulated.intervals(BUSY, 600, change=change))
    (opened,), (closed,) = watch.opened(), watch.closed()
    assert opened.kind == closed.kind == "collapse"
    assert simulated.START + 15 * 540 < closed.raised_at <= simulated.START + 15 * 550
    assert opened.change_point_at == closed.change_point_at
    assert watch.findings is not None
    assert watch.findings.condition[0] == Condition.OK


def test_the_baseline_does_not_follow_a_fall() -> None:
    """Eight hours into a partial drop the baseline is still what it was, and the drop still open."""
    change = between(480, 10_000, lambda rate: shifted(rate, -0.6))
    watch = simulated.watched()
    watch.see(simulated.intervals(BUSY, 480))
    assert watch.findings is not None
    before = float(watch.findings.baseline_mal[0])
    watch = simulated.watched().see(simulated.intervals(BUSY, 480 + 8 * HOUR, change=change))
    assert watch.findings is not None
    assert watch.findings.baseline_mal[0] == pytest.approx(before, rel=0.03)
    assert [alarm.kind for alarm in watch.opened()] == ["drop"]
    assert watch.closed() == []
    assert watch.findings.condition[0] == Condition.DRIFTING


def test_a_passing_drop_closes_by_itself() -> None:
    """A drop that goes away is one warning, closed within a quarter of an hour of its end."""
    change = between(480, 660, lambda rate: shifted(rate, -0.6))
    watch = simulated.watched().see(simulated.intervals(BUSY, 800, change=change))
    (opened,), (closed,) = watch.opened(), watch.closed()
    assert opened.kind == "drop"
    assert simulated.START + 15 * 660 < closed.raised_at <= simulated.START + 15 * 720


def test_a_fall_of_late_positions_is_named() -> None:
    """Positions 3 and 4 alone falling is a tail_drop that names them."""
    change = between(480, 10_000, lambda rate: shifted(rate, -0.85, slice(3, None)))
    watch = simulated.watched().see(simulated.intervals(BUSY, 500, change=change))
    (alarm,) = watch.opened()
    assert (alarm.kind, alarm.severity, alarm.positions) == ("tail_drop", "warning", (3, 4))


@pytest.mark.parametrize("share", [0.5, 0.15], ids=["half blank", "some blank"])
def test_blank_drafts_are_a_fall_of_position_0(share: float) -> None:
    """Drafts that carry nothing make later positions look better: a fall all the same, of position 0."""
    watch = simulated.watched().see(simulated.intervals(BUSY, 520, change=between(480, 10_000, blank(share))))
    (alarm,) = watch.opened()
    assert alarm.kind in ("drop", "collapse")
    assert alarm.detector == "level" or alarm.positions == (0,)


def test_a_drop_that_grows_is_the_same_trouble() -> None:
    """A drop that becomes a collapse is updated, not opened again."""
    drop = between(480, 520, lambda rate: shifted(rate, -0.6))

    def change(step: int, rate: Floats) -> Floats:
        return rate * 0.1 if step >= 520 else drop(step, rate)

    watch = simulated.watched().see(simulated.intervals(BUSY, 560, change=change))
    assert [(alarm.action, alarm.kind) for alarm in watch.alarms] == [
        ("open", "drop"),
        ("update", "collapse"),
    ]


def test_a_collapse_after_a_drop_has_a_date_of_its_own() -> None:
    """A collapse an hour after a drop closes the drop and is a trouble of its own, dated to its own begin."""

    def change(step: int, rate: Floats) -> Floats:
        if step < 480:
            return rate
        return shifted(rate.copy(), -0.6) if step < 720 else rate * 0.1

    watch = simulated.watched().see(simulated.intervals(BUSY, 760, change=change))
    drop, collapse = watch.opened()
    assert (drop.kind, collapse.kind) == ("drop", "collapse")
    assert [alarm.kind for alarm in watch.closed()] == ["drop"]
    assert abs(collapse.change_point_at - (simulated.START + 15 * 720)) <= 15
    assert collapse.raised_at - (simulated.START + 15 * 720) <= 120


def test_positions_of_a_larger_k_are_judged_after_an_hour() -> None:
    """The first requests are no baseline of the positions that a larger k brings, but those it kept are watched."""
    three = replace(BUSY, conditional=(0.80, 0.76, 0.73))
    first = list(simulated.intervals(three, 400))
    hard = between(0, 20, lambda rate: np.concatenate([rate[:, :3], shifted(rate[:, 3:], 1.5)], 1))
    later = list(simulated.intervals(BUSY, 480, change=hard))
    moved = [
        replace(each, at=each.at + 15.0 * 400, new_regime=each.new_regime | (number == 0))
        for number, each in enumerate(later)
    ]
    watch = simulated.watched().see(iter([*first, *moved]))
    assert [alarm.kind for alarm in watch.alarms] == ["regime_change"]


def test_a_decay_is_found() -> None:
    """Acceptance that slides away over hours is one warning, and the baseline is of the time before."""
    day = 24 * HOUR

    def change(step: int, rate: Floats) -> Floats:
        return shifted(rate, -0.8 * min(max(step - day, 0) / (4 * HOUR), 1.0))

    watch = simulated.watched().see(simulated.intervals(BUSY, day + 4 * HOUR, change=change))
    (alarm,) = watch.opened()
    assert alarm.kind in ("decay", "drop")
    assert alarm.severity == "warning"


def test_an_improvement_is_news_only() -> None:
    """Better acceptance is said once, as info, and closes when it is gone again."""
    change = between(480, 660, lambda rate: shifted(rate, 0.6))
    watch = simulated.watched().see(simulated.intervals(BUSY, 760, change=change))
    (opened,), (closed,) = watch.opened(), watch.closed()
    assert (opened.kind, opened.severity) == ("improvement", "info")
    assert closed.raised_at > simulated.START + 15 * 660


def test_an_improvement_that_lasts_becomes_the_baseline() -> None:
    """After half a day a better level is the usual one, the news closes and says so, and a fall back is a drop."""
    better, back = 4 * HOUR, 18 * HOUR
    change = between(better, back, lambda rate: shifted(rate, 0.5))
    watch = simulated.watched().see(simulated.intervals(BUSY, back + HOUR, change=change))
    told = [(alarm.action, alarm.kind) for alarm in watch.alarms]
    assert told == [("open", "improvement"), ("close", "improvement"), ("open", "drop")]
    _, adopted, fall = watch.alarms
    assert adopted.fact == "the improvement lasted and is the new baseline"
    assert adopted.raised_at == pytest.approx(simulated.START + 15 * better + 12 * 3600, abs=300)
    assert fall.before.mal == pytest.approx(adopted.after.mal, rel=0.03)
    assert 0 < fall.raised_at - simulated.START - 15 * back < 600


def test_a_fall_is_never_the_baseline() -> None:
    """A drop that lasts longer than an improvement must is open still, and the baseline what it was."""
    change = between(4 * HOUR, 30 * HOUR, lambda rate: shifted(rate, -0.6))
    watch = simulated.watched().see(simulated.intervals(BUSY, 20 * HOUR, change=change))
    assert [(alarm.action, alarm.kind) for alarm in watch.alarms] == [("open", "drop")]
    assert watch.findings is not None
    assert watch.findings.baseline_mal[0] == pytest.approx(watch.alarms[0].before.mal, rel=0.03)


def test_another_k_is_a_regime_and_no_collapse() -> None:
    """With k from 5 to 3 the MAL falls by construction: a note, no alarm, and the baseline of three positions."""
    watch = simulated.watched().see(simulated.intervals(BUSY, 480))
    short = replace_regime(simulated.intervals(Traffic(conditional=BUSY.conditional[:3]), 400), 480)
    watch.see(short)
    assert [(alarm.action, alarm.kind, alarm.severity) for alarm in watch.alarms] == [
        ("note", "regime_change", "info")
    ]
    assert watch.findings is not None
    assert np.isnan(watch.findings.baseline_conditional[0, 3:]).all()
    assert watch.findings.baseline_mal[0] == pytest.approx(
        1.0 + 0.8 + 0.8 * 0.76 + 0.8 * 0.76 * 0.73, rel=0.03
    )


def test_a_collapse_in_another_k_is_found() -> None:
    """A draft that dies with the change of k is a collapse beside the note."""
    watch = simulated.watched().see(simulated.intervals(BUSY, 480))
    dead = simulated.intervals(
        Traffic(conditional=BUSY.conditional[:3]), 40, change=lambda _, rate: rate * 0.1
    )
    watch.see(replace_regime(dead, 480))
    assert [alarm.kind for alarm in watch.alarms] == ["regime_change", "collapse"]


def test_an_engine_that_adapts_k_has_not_collapsed() -> None:
    """Where positions 2 and on are no longer drafted, their zeros are no failures (draft tokens ÷ drafts tells)."""
    watch = simulated.watched().see(simulated.intervals(BUSY, 480))
    for each in simulated.intervals(BUSY, 200):
        accepted = each.accepted.copy()
        accepted[:, 2:] = 0.0
        drafts = each.values[:, 0]
        at = float(each.at[0]) + 480 * 15.0
        watch.see([simulated.counts(at, 15.0, drafts, accepted, draft_tokens=2.0 * drafts)])
    assert watch.opened() == []


def test_without_positions_the_mean_is_watched() -> None:
    """Engines that count accepted tokens but not where: a collapse of the mean is found, steadiness is left alone."""
    news = []
    for each in simulated.intervals(BUSY, 340, change=between(300, 340, lambda rate: rate * 0.1)):
        drafts = each.values[:, 0]
        news.append(simulated.counts(float(each.at[0]), 15.0, drafts, each.accepted, by_position=False))
    watch = simulated.watched().see(news)
    assert [alarm.kind for alarm in watch.opened()] == ["collapse"]
    assert watch.alarms[0].raised_at > simulated.START + 15 * 300
    assert watch.alarms[0].before.mal == pytest.approx(3.4, abs=0.2)


def test_a_new_engine_version_is_compared_with_the_last() -> None:
    """A regime with the same k gets a note once enough was seen of it, with the level before and after."""
    watch = simulated.watched().see(simulated.intervals(BUSY, 480))
    watch.see(replace_regime(simulated.intervals(BUSY, 60, seed=2), 480))
    (note,) = watch.alarms
    assert (note.action, note.kind, note.severity) == ("note", "regime_change", "info")
    assert note.before.mal == pytest.approx(note.after.mal, rel=0.1)
    assert note.change_point_at < note.raised_at


def replace_regime(news: Iterator[Counts], after: int) -> list[Counts]:
    """Return counts moved behind the first `after` intervals, the first of them of a new regime."""
    moved = []
    for number, each in enumerate(news):
        at = each.at + after * 15.0
        moved.append(replace(each, at=at, new_regime=np.full(len(at), number == 0)))
    return moved
