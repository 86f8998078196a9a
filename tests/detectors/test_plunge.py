"""Falls far and at once: what a stream's own passing falls teach."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.detectors import plunge


@pytest.mark.parametrize(("passed", "number"), [(True, 1), (False, 0)], ids=["passed by itself", "lasted"])
def test_what_ends_is_counted_at_its_end(passed: bool, number: int) -> None:  # noqa: FBT001
    """A fall that passed is an excursion when it ends, whatever other streams come in the next batch; one that lasted is none."""
    state = np.zeros(1, plunge.DTYPE)
    state["sum"], state["peak"] = 20.0, 1.1
    plunge.restart(state, passed=passed)
    assert (state["excursions"][0], state["peak"][0], state["sum"][0]) == (number, 0.0, 0.0)
