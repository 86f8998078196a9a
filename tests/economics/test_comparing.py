"""Two recordings are compared with the right word, size and exit code, whatever was recorded when."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.__main__ import main
from monitor.core.detectors import base
from monitor.core.streams import comparing
from monitor.service import commands
from tests import captures

if TYPE_CHECKING:
    from pathlib import Path

K, DRAFTS, START = 3, 3000, 1_700_000_000
PAGE = """\
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {drafts}
# TYPE vllm:spec_decode_num_draft_tokens counter
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {tokens}
# TYPE vllm:spec_decode_num_accepted_tokens counter
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}
# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter
"""
POSITION = 'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="m",position="{at}"}} {count}\n'


def recorded(folder: Path, logits: float, *, tokens: int = K, start: int = START, minutes: int = 20) -> str:
    """Write a page a minute of an engine whose positions are all accepted at `logits`; return the folder."""
    random = np.random.default_rng(tokens + start)
    folder.mkdir()
    rate = 1.0 / (1.0 + math.exp(-logits))
    kept = np.zeros(tokens, int)
    for minute in range(minutes + 1):
        drafts = DRAFTS * minute
        text = PAGE.format(drafts=drafts, tokens=drafts * tokens, accepted=kept.sum())
        text += "".join(POSITION.format(at=at, count=count) for at, count in enumerate(kept))
        (folder / f"{(start + 60 * minute) * 1000}.prom").write_text(text)
        left = DRAFTS
        for at in range(tokens):
            left = random.binomial(left, rate)
            kept[at] += left
    return str(folder)


@pytest.mark.parametrize(
    ("logits", "word", "code"),
    [(0.4, "worse", commands.FOUND), (1.0, "no_difference", commands.FINE), (1.6, "better", commands.FINE)],
)
def test_the_word_and_the_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], logits: float, word: str, code: int
) -> None:
    """Against an acceptance of 73 %, 60 % is worse, 83 % better, the same is neither; the interval holds the truth."""
    sides = recorded(tmp_path / "a", 1.0, minutes=60), recorded(tmp_path / "b", logits, minutes=60)
    assert main(["compare", "--json", *sides]) == code
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["positions"], said["same_time"]) == (word, K, True)
    rates = [1.0 / (1.0 + math.exp(-each)) for each in (1.0, logits)]
    truth = sum(rates[1] ** n - rates[0] ** n for n in range(1, K + 1))
    assert said["mal_difference_low"] <= truth <= said["mal_difference_high"]


def test_another_k_is_no_difference_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three tokens against five of one acceptance: only the three that both draft are compared."""
    sides = recorded(tmp_path / "a", 1.0, minutes=60), recorded(tmp_path / "b", 1.0, tokens=5, minutes=60)
    assert main(["compare", "--json", *sides]) == commands.FINE
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["positions"]) == ("no_difference", K)


def test_another_time_is_another_doubt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same difference, a day apart, has a wider interval than at the same time."""
    before, today = recorded(tmp_path / "a", 1.0), recorded(tmp_path / "b", 1.2)
    tomorrow = recorded(tmp_path / "c", 1.2, start=START + 86400)
    widths = []
    for after in (today, tomorrow):
        main(["compare", "--json", before, after])
        said = json.loads(capsys.readouterr().out)
        widths.append(said["mal_difference_high"] - said["mal_difference_low"])
    assert widths[1] > 1.5 * widths[0]


def test_means_alone_are_compared_in_tokens_per_draft() -> None:
    """Where no position is told, the difference is that of whole drafts, not of their first token."""
    random, sides = np.random.default_rng(1), []
    for rate in (0.75, 0.6):
        side = comparing.Recorded(single=True)
        for minute in range(20):
            tried, kept = DRAFTS, [0, 0, 0]
            for at in range(K):
                tried = kept[at] = random.binomial(tried, rate)
            sums = np.zeros(base.NUM_SUMS)
            sums[0], sums[base.POSITIONS] = DRAFTS + kept[0] + kept[1], sum(kept)
            sums[base.DRAFTS], sums[base.ACCEPTED], sums[base.TOKENS] = DRAFTS, sum(kept), K * DRAFTS
            side.minutes[minute] = sums
        sides.append(side)
    found = comparing.compared(sides[0], sides[1])
    assert found.verdict is not None
    truth = sum(0.6**n - 0.75**n for n in range(1, K + 1))
    assert (found.verdict.outcome, found.positions) == ("worse", K)
    assert found.verdict.low <= truth <= found.verdict.high
    assert found.verdict.difference == pytest.approx(truth, rel=0.1)


def test_nothing_counted_is_not_enough() -> None:
    """Sides without a minute have no word."""
    assert comparing.compared(comparing.Recorded(), comparing.Recorded()).verdict is None


def test_a_few_minutes_are_not_enough(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs of five minutes say so to people, and to a pipeline by an exit code of its own."""
    run = str(captures.folder(captures.THINNED, "ngram"))
    assert main(["compare", run, run]) == commands.UNDECIDED
    assert capsys.readouterr().out.startswith("not enough yet\n")


def test_a_model_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--model` of no stream is one line and exit code 2."""
    run = recorded(tmp_path / "a", 1.0, minutes=2)
    assert main(["compare", "--model", "x", run, run]) == commands.UNUSABLE
    assert "read no model 'x', expected one of m" in capsys.readouterr().err


def test_a_loss_that_is_not_excluded_is_not_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty minutes show no difference, and exclude a loss of a half but none of a hundredth."""
    sides = recorded(tmp_path / "a", 1.0), recorded(tmp_path / "b", 1.0)
    assert main(["compare", "--margin", "0.5", *sides]) == commands.FINE
    assert main(["compare", "--margin", "0.01", *sides]) == commands.UNDECIDED
    assert main(["compare", "--margin", "0", *sides]) == commands.UNUSABLE
    assert "--margin 0: expected a share between 0 and 1" in capsys.readouterr().err


def side_of(
    speed: float, tokens: int, *, first: int = 0, minutes: int = 60, replicas: int = 1
) -> comparing.Recorded:
    """A side that delivers `speed` tokens per second and request, its positions all accepted alike."""
    side = comparing.Recorded()
    random = np.random.default_rng(tokens + first)
    for minute in range(first, first + minutes):
        sums, tried = np.zeros(base.NUM_SUMS), DRAFTS
        for at in range(tokens):
            kept = random.binomial(tried, 0.7)
            sums[at], sums[base.POSITIONS + at], tried = tried, kept, kept
        accepted = sums[base.SUCCESSES].sum()
        sums[base.DRAFTS], sums[base.ACCEPTED], sums[base.TOKENS] = DRAFTS, accepted, tokens * DRAFTS
        side.minutes[minute] = sums
        decoded = DRAFTS + accepted
        side.decoding[minute] = np.array([decoded, decoded / speed * random.normal(1.0, 0.02)])
        for replica in range(replicas):
            side.replicas.setdefault(f"{replica}", np.zeros(base.NUM_SUMS))[:] += sums / replicas
    return side


@pytest.mark.parametrize(
    ("tokens", "speed", "word", "by"),
    [
        (5, 40.0, "worse", "tokens_per_second"),
        (5, 60.0, "better", "tokens_per_second"),
        (5, 50.0, "no_difference", "tokens_per_second"),
        (3, 40.0, "no_difference", "acceptance"),
    ],
)
def test_another_k_is_told_by_speed(tokens: int, speed: float, word: str, by: str) -> None:
    """Where k differs the word is that of tokens per second, whose interval holds the truth; else of acceptance."""
    found = comparing.compared(side_of(50.0, 3), side_of(speed, tokens))
    assert (found.word, found.by, found.positions) == (word, by, 3)
    assert found.speed is not None
    assert found.speed.low <= speed / 50.0 <= found.speed.high
    assert found.speed.ratio == pytest.approx(speed / 50.0, rel=0.02)


def test_speed_of_another_time_says_nothing() -> None:
    """The speed of another hour is that of another load, so that another k is told by acceptance."""
    found = comparing.compared(side_of(50.0, 3), side_of(40.0, 5, first=60))
    assert (found.speed, found.by, found.same_time) == (None, "acceptance", False)


def test_more_replicas_are_surer() -> None:
    """Replicas differ for good: four of a side leave less doubt than one."""
    widths = []
    for replicas in (1, 4):
        sides = [side_of(50.0, 3, replicas=replicas) for _ in range(2)]
        found = comparing.compared(sides[0], sides[1]).verdict
        assert found is not None
        widths.append(found.high - found.low)
    assert widths[1] < 0.8 * widths[0]


def test_the_minutes_nearest_to_each_other_are_compared() -> None:
    """Of a baseline that ran before and fell in its last hour, that hour is what the candidate is held against."""
    baseline = side_of(50.0, 3, minutes=60)
    for minute, sums in side_of(50.0, 3, first=60, minutes=30).minutes.items():
        sums[base.SUCCESSES] *= 0.5
        baseline.minutes[minute] = sums
    found = comparing.compared(baseline, side_of(50.0, 3, first=90, minutes=30))
    assert (found.word, found.minutes, found.same_time) == ("better", 30, False)
