"""References in the settings: what they come to, and that nonsense is refused with its path and what was read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor import settings
from monitor.service import assembly

if TYPE_CHECKING:
    from pathlib import Path


def loaded(tmp_path: Path, *references: str) -> settings.Settings:
    """The settings of a file with these references, each written as a mapping of YAML in one line."""
    path = tmp_path / "specmon.yaml"
    path.write_text("references:\n" + "".join(f"  - {{{each}}}\n" for each in references))
    return settings.load({}, {}, str(path))


def test_a_mal_or_positions_become_what_streams_are_held_against(tmp_path: Path) -> None:
    """MAL, tolerance, source and k arrive in the plan by model; positions add up to the MAL."""
    found = assembly.plan(
        loaded(
            tmp_path,
            "model: m, mal: 3.51, source: release 1.4",
            "model: m, num_speculative_tokens: 3, marginal: [0.8, 0.64, 0.448], tolerance: 0.05",
        )
    ).pinned
    any_k, three = found["m"]
    assert (any_k.mal, any_k.tolerance, any_k.source, any_k.num_speculative_tokens) == (
        3.51,
        0.1,
        "release 1.4",
        0,
    )
    assert three.mal == pytest.approx(2.888)
    assert (three.tolerance, three.num_speculative_tokens) == (0.05, 3)
    assert three.marginal == (0.8, 0.64, 0.448)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("model: m", "references[0]: expected mal or marginal, read neither"),
        ("model: m, mal: 3, marginal: [0.8]", "references[0]: expected mal or marginal, read both"),
        ("model: m, mal: 0.9", "references[0].mal: read 0.9"),
        ("model: m, mal: .nan", "references[0].mal"),
        ("model: m, mal: 3, tolerance: 1", "references[0].tolerance: read 1"),
        ("model: m, marginal: [0.8, 1.2]", "from 0 to 1, read 0.8, 1.2"),
        ("model: m, marginal: [0.8, 0.9]", "none above the one before it, read 0.8, 0.9"),
        ("model: m, marginal: [0]", "from 0 to 1, read 0"),
        ("mal: 3", "references[0].model: missing"),
        ("model: m, mal: 3, golden: 4", "references[0].golden: no such setting"),
    ],
)
def test_nonsense_is_refused(tmp_path: Path, written: str, told: str) -> None:
    """One line says which reference, what was read and what is expected."""
    with pytest.raises(settings.Invalid) as refused:
        loaded(tmp_path, written)
    (line,) = str(refused.value).splitlines()
    assert told in line


def test_two_of_one_kind_are_refused(tmp_path: Path) -> None:
    """A model and k have one reference: which of two would hold could not be said."""
    with pytest.raises(settings.Invalid, match="read two of 'm'"):
        loaded(tmp_path, "model: m, mal: 3", "model: m, mal: 2.5")
