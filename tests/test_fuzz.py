"""A second of `make fuzz`: nearly right input of every kind ends nothing."""

from __future__ import annotations

import pytest

from tests import fuzz


@pytest.mark.parametrize("name", fuzz.READERS)
def test_hostile_input_ends_nothing(name: str) -> None:
    """Each reader of foreign data takes or refuses what is nearly right, with its own exception alone."""
    fuzz.run(name, examples=15, seed=1)
