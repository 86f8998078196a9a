"""What the operator tells of a model's step time and prices reaches the pipeline, per model."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from monitor import settings
from monitor.core.economics import side_by_side
from monitor.core.streams import worth
from monitor.service import assembly
from tests.economics import test_side_by_side

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, text: str) -> str:
    """A configuration file with this text."""
    file = folder / "specmon.yaml"
    file.write_text(text)
    return str(file)


def test_each_model_has_its_own_numbers(tmp_path: Path) -> None:
    """Prices of one model are its own, the rest comes from what holds for all."""
    text = """
economics:
  gpu_hour_cost: 2.5
  models:
    - {model: big, gpus_per_replica: 8, plain_step_seconds: 0.03}
"""
    told = assembly.plan(settings.load({}, {}, written(tmp_path, text))).told
    big, other = worth.told_of(told, "big"), worth.told_of(told, "small")
    assert (big.prices.gpus_per_replica, big.prices.gpu_hour_cost, big.plain_step_seconds) == (8, 2.5, 0.03)
    assert (other.prices.gpus_per_replica, other.prices.gpu_hour_cost) == (1, 2.5)
    assert math.isnan(other.plain_step_seconds)


def test_a_calibration_file_is_read(tmp_path: Path) -> None:
    """What `specmon calibrate --json` wrote gives the model its plain step times per concurrency."""
    file = tmp_path / "m.json"
    made = side_by_side.of(test_side_by_side.made(2.0), "m", 5.0, sampled=False)
    file.write_text(json.dumps(side_by_side.as_json(made)))
    told = assembly.plan(settings.load({"economics.calibrations": str(file)}, {})).told
    ((size, seconds, error),) = worth.told_of(told, "m").calibrated
    assert size == 2.0
    assert seconds == pytest.approx(0.02, rel=0.1)
    assert 0.0 < error < 0.002


def test_another_file_is_refused_by_its_name(tmp_path: Path) -> None:
    """A file that is no calibration ends the start with the file and what was expected."""
    file = tmp_path / "other.json"
    file.write_text("{}")
    with pytest.raises(
        assembly.MissingError, match=r"other\.json: read type None.*expected type 'calibration'"
    ):
        assembly.plan(settings.load({"economics.calibrations": str(file)}, {}))
