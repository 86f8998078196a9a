"""One open trouble, bucket by bucket: how it is followed, and the proof that it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.detectors import base, troubles
from monitor.core.detectors.base import Condition
from tests.heart.made_trials import START

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bucket, State

VARIANCE = 0.01


def opened(shift: float = -0.8, kind: str = "drop", channel: int = 0) -> State:
    """Return a stream with an open trouble that moved level and contrast by `shift` logits."""
    state = np.zeros(1, troubles.DTYPE)
    state["kind"] = [code for name, code in troubles.CODE.items() if name == kind]
    state["shift"] = state["first_shift"] = shift
    state["channel"], state["weight"] = channel, 1.0
    return state


def known(state: State) -> State:
    """Return a trouble whose size has been learnt."""
    state["weight"] = 20.0
    return state


def bucket(number: int, level: float, contrast: float | None = None, *, variance: float = VARIANCE) -> Bucket:
    """Return one full bucket of 15 s with its level, and contrast 3."""
    score = np.zeros((1, base.POSITIONS))
    score[0, 0], score[0, 3] = level, level if contrast is None else contrast
    at, flat = np.array([START + 15.0 * number]), np.full((1, base.POSITIONS), variance)
    return base.Bucket(
        at, at - 15.0, np.array([1e6]), score, 1.0 / flat, flat, np.ones((1, base.POSITIONS), bool)
    )


def over(state: State, levels: list[float], *, rhythm: float = 0.0, variance: float = VARIANCE) -> list[bool]:
    """Return after which buckets the trouble is proven over."""
    return [
        bool(troubles.recovered(state, bucket(number, level, variance=variance), np.array([rhythm]))[0])
        for number, level in enumerate(levels)
    ]


def test_the_nats_of_a_return() -> None:
    """APART · shift · (MIDWAY · shift - moved) ÷ variance, of one bucket at most four either way."""
    for shift, moved in ((-0.5, -0.5), (-0.5, -0.3), (-0.5, -0.2), (-0.5, 0.0), (0.4, 0.1), (0.4, 0.3)):
        found = troubles.nats_of_return(np.array([shift]), np.array([moved]), np.array([0.1]))[0]
        assert found == pytest.approx(min(max(0.8 * shift * (0.45 * shift - moved) / 0.1, -4.0), 4.0))


def test_two_buckets_prove_a_return() -> None:
    """A drop that lasts is not over; two buckets back where it came from prove it, one does not."""
    state = opened()
    assert not any(over(state, [-0.8] * 8))
    assert over(state, [0.0] * 4) == [False, True, True, True]


def test_a_half_return_proves_nothing() -> None:
    """What stays nearer to where it fell than to where it came from is never over."""
    assert not any(over(opened(), [-0.8] * 8 + [-0.5] * 30))


def test_noisy_buckets_take_longer() -> None:
    """With ten times the variance a return needs more buckets."""
    assert over(opened(), [-0.8] * 8 + [0.0] * 30, variance=0.1).index(True) > 9 + 2


def test_an_unsteady_stream_takes_longer() -> None:
    """What swings since the trouble began proves less: its own scatter counts where it is larger than the model's."""
    swinging = over(opened(), [-1.4, -0.2] * 8 + [0.0] * 200)
    steady = over(opened(), [-0.8] * 16 + [0.0] * 200)
    assert swinging.index(True) > steady.index(True) >= 17


def test_the_hour_of_the_day_is_taken_off() -> None:
    """A level that the rhythm expects to be 0.8 logits lower now is back when it is that low."""
    assert not any(over(opened(), [0.0] * 3, rhythm=0.8))
    assert over(known(opened()), [-0.8] * 2, rhythm=-0.8) == [False, True]


def test_level_and_contrast_must_both_come_back() -> None:
    """A fall of late positions is over when the contrast and the level are where they came from."""
    state = opened(kind="tail_drop", channel=3)
    told = [bool(troubles.recovered(state, bucket(number, 0.0, -0.8), np.zeros(1))[0]) for number in range(6)]
    assert not any(told)
    told = [bool(troubles.recovered(state, bucket(number, 0.0, 0.0), np.zeros(1))[0]) for number in range(4)]
    assert told[-1]


def test_what_did_not_move_needs_no_proof() -> None:
    """A contrast that moved by nothing is proven from the first bucket on."""
    state = known(opened())
    state["first_shift"][:, 1] = state["shift"][:, 1] = 0.0
    assert over(state, [0.0] * 3) == [False, True, True]


def test_a_dead_draft_is_not_followed() -> None:
    """Dead and silent are over by other proof; closed streams are not followed."""
    for state in (opened(kind="dead_draft"), opened(kind="speculation_silent"), np.zeros(1, troubles.DTYPE)):
        assert not any(over(state, [0.0] * 5))
        assert (state["buckets"][0], state["lasted"][0]) == (0.0, 0.0)


def test_the_size_is_learnt_from_the_first_buckets() -> None:
    """The shift is the mean of what opened it and the first seven buckets, at least half of the first; then it is kept."""
    state = opened(-0.4)
    over(state, [-0.8] * 6)
    assert state["shift"][0, 0] == pytest.approx((-0.4 + 6 * -0.8) / 7)
    assert state["first_shift"][0, 0] == pytest.approx(-0.4)
    over(state, [-0.8])
    assert state["first_shift"][0, 0] == pytest.approx((-0.4 + 7 * -0.8) / 8)
    over(state, [-1.2])
    assert state["shift"][0, 0] == pytest.approx(-0.75 + 0.01 * (-1.2 + 0.75))
    small = opened(-0.4)
    over(small, [-0.05] * 3)
    assert small["shift"][0, 0] == pytest.approx(-0.2)
    late = opened(-0.4)
    late["weight"], late["buckets"] = 20.0, 20.0
    over(late, [-0.01] * 400)
    assert late["shift"][0, 0] == pytest.approx(-0.28)


def test_a_rise_is_followed_upwards() -> None:
    """Of an improvement everything holds with the other sign."""
    state = opened(0.8, "improvement")
    assert over(state, [0.9] * 6 + [0.0] * 3) == [False] * 7 + [True, True]


def test_how_long_it_lasts_counts_time_with_traffic() -> None:
    """Each bucket adds its length; an improvement lasts for half a day, a slow one for more than a day."""
    state = opened(0.4, "improvement")
    over(state, [0.4] * 4)
    assert state["lasted"][0] == 60.0
    for hours, quick, slow in (
        (11.9, False, False),
        (12.0, True, False),
        (25.9, True, False),
        (26.0, True, True),
    ):
        state["lasted"] = hours * 3600
        assert troubles.lasting(state, np.array([False]))[0] == quick
        assert troubles.lasting(state, np.array([True]))[0] == slow
    state["kind"] = troubles.CODE["drop"]
    assert not troubles.lasting(state, np.array([False]))[0]


def test_what_is_gathered() -> None:
    """The last buckets always; those since the trouble opened while nothing speaks for its end."""
    state, sums = np.zeros(1, troubles.DTYPE), np.ones((1, base.NUM_SUMS))
    troubles.gather(state, sums)
    troubles.gather(state, sums)
    assert state["recent"][0, 0] == pytest.approx(1.9)
    assert state["after"][0, 0] == 0.0
    state["kind"] = 1
    troubles.gather(state, sums)
    troubles.gather(state, sums)
    assert state["after"][0, 0] == pytest.approx(1.995)
    state["back"][0, 1] = 0.1
    troubles.gather(state, sums)
    assert state["after"][0, 0] == pytest.approx(1.995)


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        ("collapse", Condition.COLLAPSED),
        ("dead_draft", Condition.COLLAPSED),
        ("improvement", Condition.IMPROVED),
        ("drop", Condition.DRIFTING),
        ("tail_drop", Condition.DRIFTING),
        ("decay", Condition.DRIFTING),
        ("speculation_silent", Condition.DRIFTING),
    ],
)
def test_the_condition_is_that_of_the_trouble(kind: str, condition: Condition) -> None:
    """Whatever is open says how the stream stands, warm or not."""
    assert troubles.conditions(opened(kind=kind), np.array([False])).tolist() == [condition]


def test_without_a_trouble_it_is_warming_or_ok() -> None:
    """A stream without a trouble is ok once it is warm."""
    state = np.zeros(2, troubles.DTYPE)
    assert troubles.conditions(state, np.array([False, True])).tolist() == [Condition.WARMING, Condition.OK]
