"""What README and docstrings say of how soon and how sure is what was measured, and kept beside the simulator."""

from __future__ import annotations

import re

import pytest

from tests.acceptbench import catalogue, figures, judging


def test_docstrings_quote_what_was_measured() -> None:
    """Every figure that a docstring quotes of a scenario is the kept one; `make bench-detection ARGS=--write` writes both."""
    old = [path.name for path in figures.quoting() if figures.quoted(path.read_text()) != path.read_text()]
    assert old == []


@pytest.mark.parametrize("name", ["plunge", "level", "shape", "trend", "odd", "shared"])
def test_what_detects_quotes_a_scenario(name: str) -> None:
    """Each detector that the scenarios measure quotes at least one of them."""
    (path,) = [each for each in figures.quoting() if each.stem == name]
    assert re.findall(r"`([a-z0-9]+-[a-z0-9-]+)`\s\d+ % in", path.read_text())


def test_everything_was_measured_at_one_seed() -> None:
    """The kept figures have every scenario of the catalogue."""
    assert list(figures.kept()) == list(catalogue.ALL)


def test_what_was_never_found_has_no_minutes() -> None:
    """A median that half of the streams did not reach is kept as unknown and written as never."""
    found = judging.Figures("x", hours=10.0, groups=4, delays=[1.25])
    kept = figures.kept_of(found)
    assert (kept.found, kept.median, kept.p95) == (0.25, None, None)
    assert kept.quote == "25 % in never"


@pytest.mark.parametrize(
    ("value", "text"), [(0.34, "0.3 min"), (18.2, "18 min"), (282.4, "4.7 h"), (None, "never")]
)
def test_minutes_are_for_people(value: float | None, text: str) -> None:
    """Minutes with a digit below ten, hours from two on."""
    assert figures.minutes(value) == text
