"""A stream that warms up says what is judged already, against what, and how long the rest takes; then it is ok."""

from __future__ import annotations

import numpy as np

from monitor.core import detectors
from monitor.core.detectors import Condition, duty, trend
from tests.detectors import simulated


def test_what_is_judged_grows_until_the_stream_is_ok() -> None:
    """Dead drafts at once, collapses after a minute, large falls after three, all within an hour; then `ok`."""
    watch = simulated.watched()
    found: list[tuple[int, int]] = []
    for number, counts in enumerate(simulated.intervals(simulated.Traffic(), 220)):
        watch.see([counts])
        assert watch.findings is not None
        now = duty.of_row(watch.state, 0, float(counts.at[0]))
        assert (watch.findings.condition[0] == Condition.OK) == (not now.missing)
        assert bool(duty.sentence(now)) == bool(now.missing)
        if not found or len(now.judged) != found[-1][1]:
            found.append((number, len(now.judged)))
    assert [judged for _, judged in found] == [1, 2, 3, 4, 5]
    minutes = [number * 15.0 / 60.0 for number, _ in found]
    assert minutes[1] <= 1.0
    assert minutes[2] <= 3.5
    assert 28.0 <= minutes[3] <= 31.0
    assert minutes[4] <= 60.0


def test_what_is_missing_says_how_long_it_takes() -> None:
    """Before anything was seen the sentence names four that are missing and when the last of them judges."""
    state = detectors.allocate(detectors.DetectionPlan(), 1)
    before = duty.of_row(state, 0, 0.0)
    assert before.judged == ("dead and silent drafts",)
    assert before.seconds > 60.0 * trend.START_BLOCKS
    assert "against nothing: it had no drafts yet" in duty.sentence(before)
    assert not duty.complete(state, np.zeros(1)).any()
