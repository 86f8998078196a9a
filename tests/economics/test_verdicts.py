"""The release verdict says the right word, keeps quiet while nothing differs, and its interval holds the truth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core.economics import verdicts

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

K = 4
APART = 2.0 * verdicts.REPLICA_SD**2
RATE = (0.80, 0.76, 0.73, 0.70)


def counted(blocks: int, shift: float, seed: int, drafts: int = 4000, spread: float = 0.05) -> Floats:
    """Return what a side counted [blocks, 18]; each block's traffic has its own difficulty (sd in logits)."""
    random = np.random.default_rng(seed)
    sums = np.zeros((blocks, 18))
    for row in range(blocks):
        left, offset = drafts, shift + spread * random.normal()
        for position, rate in enumerate(RATE):
            kept = random.binomial(left, 1.0 / (1.0 + math.exp(-math.log(rate / (1.0 - rate)) - offset)))
            sums[row, position], sums[row, 8 + position] = left, kept
            left = kept
        sums[row, 16], sums[row, 17] = drafts, sums[row, 8:16].sum()
    return sums


@pytest.mark.parametrize(
    ("shift", "word"), [(-0.3, "worse"), (0.3, "better"), (0.0, "no_difference")], ids=["down", "up", "same"]
)
def test_the_word_and_its_size_are_right(shift: float, word: str) -> None:
    """A third of a logit is worse or better within half an hour, and the interval holds the true difference."""
    found = verdicts.of_blocks(counted(30, 0.0, 1), counted(30, shift, 2), K, apart=APART)
    assert found is not None
    assert found.outcome == word
    rate = np.array([*RATE, 0.5, 0.5, 0.5, 0.5])
    levels = [verdicts.promised(rate, each, K, single=False) for each in (0.0, shift)]
    assert found.low < levels[1] - levels[0] < found.high
    assert (found.confidence > 0.95) is (word != "no_difference")


def test_too_few_blocks_have_no_verdict() -> None:
    """Nine minutes of both are not enough to say anything; ten are."""
    few = verdicts.LEAST_BLOCKS - 1
    assert verdicts.of_blocks(counted(few, 0.0, 1), counted(few, -1.0, 2), K, apart=APART) is None
    assert verdicts.of_blocks(counted(few + 1, 0.0, 1), counted(few + 1, -1.0, 2), K, apart=APART) is not None


def first_word(random: np.random.Generator, apart: float, blocks: int, alike: float = 0.5) -> int | None:
    """Return after how many blocks a word was said, looked at after each, None where none was.

    Neighbouring blocks are `alike`, and scatter one and a half times as much as was assumed.
    """
    evidence, noise, sd = verdicts.Blocks(), random.normal() * 0.06, 0.06
    for block in range(blocks):
        noise = alike * noise + math.sqrt(1.0 - alike * alike) * sd * random.normal()
        evidence = verdicts.taken(evidence, apart + noise, 0.04**2)
        if block % 32 == 0 or block < 60:
            found = verdicts.difference(evidence, 2.0 * verdicts.REPLICA_SD**2)
            if found is not None and (found.low > 0.0 or found.high < 0.0):
                return block + 1
    return None


def test_looking_at_every_block_says_a_wrong_word_in_at_most_one_of_twenty() -> None:
    """Two replicas of one release, apart for good as replicas are: over a day of looks, 2 of 40 at most."""
    random = np.random.default_rng(7)
    said = [first_word(random, verdicts.REPLICA_SD * random.normal() * 1.4, 1440) for _ in range(40)]
    assert sum(each is not None for each in said) <= 2


def test_a_difference_of_a_tenth_is_told_within_an_hour() -> None:
    """A quarter of a logit (MAL 3.4 -> 3.1 at k = 5) between two replicas is said within an hour in most cases."""
    random = np.random.default_rng(8)
    said = [first_word(random, -0.25, 60) for _ in range(20)]
    assert sum(each is not None for each in said) >= 16


def test_merged_blocks_weigh_as_much_as_they_did() -> None:
    """However many blocks are merged, the sums of weights and of weighted differences stay."""
    random, evidence, weight, pull = np.random.default_rng(3), verdicts.Blocks(), 0.0, 0.0
    for _ in range(1000):
        logits, variance = random.normal(), random.uniform(0.1, 2.0)
        weight, pull = weight + 1.0 / variance, pull + logits / variance
        evidence = verdicts.taken(evidence, logits, variance)
    assert len(evidence.blocks) <= verdicts.MOST_BLOCKS + 1
    assert np.array(evidence.blocks).sum(0) == pytest.approx([weight, pull])
    assert evidence.seen == 1000


def test_replicas_far_apart_widen_the_interval() -> None:
    """What replicas of one release show of how far they are apart is taken into account."""
    close = verdicts.between_replicas([verdicts.Replica(1e4, 1e4 * each) for each in (0.01, -0.01)])
    far = verdicts.between_replicas([verdicts.Replica(1e4, 1e4 * each) for each in (0.3, -0.3)])
    assert close < 2.0 * verdicts.REPLICA_SD**2
    assert far > 10.0 * close
