"""Drafts whose length varies: what is judged, what is told, and what the baseline beside a MAL is comparable with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import Condition
from tests.detectors import simulated
from tests.detectors.simulated import CONDITIONAL, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from monitor.core.counts.deltas import Counts
    from monitor.core.detectors.base import Floats

HOUR = 240
CHANGE = HOUR
FOUR, TWO, THREE = {4: 1.0}, {2: 1.0}, {3: 1.0}
ABOUT_FOUR = {3: 0.3, 4: 0.4, 5: 0.3}
ABOUT_TWO = {1: 0.4, 2: 0.3, 3: 0.2, 4: 0.1}
JUST_TWO = {1: 0.25, 2: 0.54, 3: 0.21}
ABOUT_THREE = {1: 0.2, 2: 0.15, 3: 0.2, 4: 0.35, 5: 0.1}


def adapting(
    lengths: Callable[[int], Mapping[int, float]],
    steps: int,
    seed: int = 1,
    change: Callable[[int, Floats], Floats] = lambda _step, rate: rate,
    drafts: float = 3000.0,
) -> Iterator[Counts]:
    """Yield intervals in which each share of the drafts has another length, each position as good as ever."""
    rng = np.random.default_rng(seed)
    base = np.log(np.array(CONDITIONAL)) - np.log1p(-np.array(CONDITIONAL))
    mood = rng.normal()
    for step in range(steps):
        mood = 0.6 * mood + 0.8 * rng.normal()
        rate = change(step, 1.0 / (1.0 + np.exp(-(base + 0.1 * mood)))[None])[0]
        number = rng.poisson(drafts)
        mixture = lengths(step)
        of_length = rng.multinomial(number, list(mixture.values()))
        accepted = np.zeros(len(base))
        for length, left in zip(mixture, of_length.tolist(), strict=True):
            for position in range(length):
                left = rng.binomial(left, rate[position])  # noqa: PLW2901
                accepted[position] += left
        tokens = sum(length * count for length, count in zip(mixture, of_length.tolist(), strict=True))
        at = simulated.START + 15.0 * (step + 1)
        yield simulated.counts(
            at,
            15.0,
            np.array([float(number)]),
            accepted[None],
            draft_tokens=np.array([float(tokens)]),
        )


def turning(first: Mapping[int, float], then: Mapping[int, float]) -> Callable[[int], Mapping[int, float]]:
    """Return lengths that are others from the change on."""
    return lambda step: first if step < CHANGE else then


def mal_of(mixture: Mapping[int, float]) -> float:
    """Return the MAL that drafts of such lengths have."""
    reach = np.cumprod(CONDITIONAL)
    return 1.0 + sum(share * float(reach[:length].sum()) for length, share in mixture.items())


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (FOUR, TWO),
        (TWO, FOUR),
        (ABOUT_FOUR, ABOUT_TWO),
        (ABOUT_TWO, ABOUT_FOUR),
        (FOUR, JUST_TWO),
        (FOUR, ABOUT_THREE),
        ({5: 1.0}, ABOUT_TWO),
        ({5: 1.0}, {5: 0.9, 4: 0.1}),
        ({5: 1.0}, ABOUT_THREE),
        (ABOUT_THREE, ABOUT_FOUR),
        (THREE, ABOUT_THREE),
    ],
    ids=str,
)
def test_another_length_is_no_fall(first: Mapping[int, float], then: Mapping[int, float]) -> None:
    """Shorter or longer drafts whose positions are as good as before raise nothing but a note."""
    watch = simulated.watched().see(adapting(turning(first, then), CHANGE + HOUR))
    assert watch.opened() == []
    assert watch.findings is not None
    assert watch.findings.condition[0] == Condition.OK


@pytest.mark.parametrize(("first", "then"), [(FOUR, TWO), (TWO, FOUR), (ABOUT_FOUR, ABOUT_TWO)], ids=str)
def test_another_length_is_told_once(first: Mapping[int, float], then: Mapping[int, float]) -> None:
    """A change of length is one note, dated to its begin, that says both lengths."""
    watch = simulated.watched().see(adapting(turning(first, then), CHANGE + HOUR))
    (note,) = watch.alarms
    assert (note.kind, note.severity, note.action) == ("regime_change", "info", "note")
    assert abs(note.change_point_at - (simulated.START + 15 * CHANGE)) <= 180
    lengths = [sum(length * share for length, share in mixture.items()) for mixture in (first, then)]
    assert [float(word) for word in note.fact.split()[3:6:2]] == pytest.approx(lengths, abs=0.1)
    assert np.isnan(note.before.mal) or note.before.mal == pytest.approx(note.after.mal, rel=0.03)


def test_lengths_that_come_and_go_are_told_once() -> None:
    """An engine that drafts 4 and 2 tokens in turn, for 20 minutes each, is told of once."""
    watch = simulated.watched()
    watch.see(adapting(lambda step: FOUR if step // 80 % 2 == 0 else TWO, 480))
    assert [alarm.kind for alarm in watch.alarms] == ["regime_change"]


@pytest.mark.parametrize(("first", "then"), [(FOUR, TWO), (TWO, FOUR), (ABOUT_FOUR, ABOUT_TWO)], ids=str)
def test_the_baseline_is_of_the_same_length(first: Mapping[int, float], then: Mapping[int, float]) -> None:
    """From the first bucket on, the baseline shown is what drafts of the present length have, or unknown."""
    watch = simulated.watched()
    for step, news in enumerate(adapting(turning(first, then), CHANGE + 120), 1):
        watch.see([news])
        assert watch.findings is not None
        shown = float(watch.findings.baseline_mal[0])
        if step == CHANGE:
            assert shown == pytest.approx(mal_of(first), rel=0.03)
        if step > CHANGE:
            assert shown == pytest.approx(mal_of(then), rel=0.05)


def test_longer_mixed_drafts_have_no_baseline_before_they_were_seen() -> None:
    """What shorter drafts had tells nothing of longer ones of mixed lengths; within the hour they have their own."""
    lengths = turning(ABOUT_TWO, ABOUT_FOUR)
    soon = simulated.watched().see(adapting(lengths, CHANGE + 4))
    late = simulated.watched().see(adapting(lengths, CHANGE + HOUR))
    assert soon.findings is not None
    assert late.findings is not None
    assert np.isnan(soon.findings.baseline_mal[0])
    assert late.findings.baseline_mal[0] == pytest.approx(mal_of(ABOUT_FOUR), rel=0.05)


@pytest.mark.parametrize(("first", "then"), [(ABOUT_TWO, ABOUT_FOUR), (TWO, FOUR)], ids=str)
def test_a_fall_beside_longer_drafts_is_a_fall(first: Mapping[int, float], then: Mapping[int, float]) -> None:
    """Drafts that get longer and worse at once are a fall from what their length promises, after below before."""

    def change(step: int, rate: Floats) -> Floats:
        return shifted(rate.copy(), -1.2) if step >= CHANGE else rate

    watch = simulated.watched().see(adapting(turning(first, then), CHANGE + 40, change=change))
    (opened,) = watch.opened()
    assert opened.kind in ("collapse", "drop")
    assert opened.after.mal < opened.before.mal
    assert opened.raised_at - (simulated.START + 15 * CHANGE) <= 120


def test_a_collapse_of_mixed_lengths_is_found() -> None:
    """Where only position 0 can be judged, a collapse is found there within a minute."""
    watch = simulated.watched()
    watch.see(adapting(lambda _: ABOUT_THREE, CHANGE + 8, change=lambda s, r: r * 0.1 if s >= CHANGE else r))
    (opened,) = watch.opened()
    assert (opened.kind, opened.positions) == ("collapse", (0,))
    assert opened.raised_at - (simulated.START + 15 * CHANGE) <= 60
