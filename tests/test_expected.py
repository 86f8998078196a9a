"""`specmon inspect --expect` is a check for CI: exit code 1 where less is proven, or nothing can be told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor import __main__ as command_line

PAGES = Path(__file__).parent / "fixtures" / "vllm"
MEASURED = PAGES / "dp2_end.prom"  # two replicas: 2.044 [1.986, 2.102] and 2.044 [2.010, 2.078]


@pytest.mark.parametrize(
    ("arguments", "outcome", "code"),
    [
        (["--expect", "2.0"], "reached", 0),
        (["--expect", "2.06"], "reached", 0),
        (["--expect", "2.2"], "below", 1),
        (["--expect", "2.15", "--tolerance", "0.1"], "reached", 0),
    ],
    ids=["reached", "within the interval", "below", "within the tolerance"],
)
def test_what_is_expected_is_held_against_the_interval(
    arguments: list[str], outcome: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below is said where the whole interval is below; the tolerance is a share of MAL - 1."""
    assert command_line.main(["inspect", str(MEASURED), "--json", *arguments]) == code
    told = [json.loads(line)["expected"]["outcome"] for line in capsys.readouterr().out.splitlines()]
    assert told == [outcome, outcome]


def test_a_page_without_drafts_fails_the_check(capsys: pytest.CaptureFixture[str]) -> None:
    """A benchmark that drafted nothing is no pass."""
    assert command_line.main(["inspect", str(PAGES / "dp2_start.prom"), "--expect", "1.5"]) == 1
    assert "no draft tells the length" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["--expect", "0.5"], ["--expect", "2", "--tolerance", "1.5"]], ids=["mal", "tolerance"]
)
def test_a_check_that_makes_no_sense_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A length below 1 or a tolerance of all is a mistake of the caller: exit code 2, one line."""
    assert command_line.main(["inspect", str(MEASURED), *arguments]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
