"""Durations and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.settings import quantities


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("0.5s", 0.5),
        ("500ms", 0.5),
        ("1h30m", 5400.0),
        ("1d", 86_400.0),
        ("2w", 1_209_600.0),
        ("1y", 31_536_000.0),
        ("1d2h3m4s5ms", 93_784.005),
        ("0s", 0.0),
        ("15", 15.0),
        ("0.25", 0.25),
        (15, 15.0),
        (0.1, 0.1),
    ],
)
def test_durations_are_read_as_prometheus_writes_them(text: object, seconds: float) -> None:
    """A duration is units in falling order, or a number of seconds."""
    assert quantities.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "s",
        "15 s",
        "-5s",
        "30m1h",
        "5s5s",
        "15sec",
        "5S",
        "1M",
        "1e3",
        "nan",
        "٣s",
        "²",
        -1,
        True,
        None,
        float("inf"),
    ],
    ids=repr,
)
def test_what_is_no_duration_is_refused(text: object) -> None:
    """Anything else is refused with what was expected."""
    with pytest.raises(ValueError, match=r"^expected a duration such as 15s, "):
        quantities.duration(text)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_reads_back(milliseconds: int) -> None:
    """What is written of a duration reads back as the same duration."""
    text = quantities.duration_text(milliseconds / 1000)
    assert quantities.duration(text) == pytest.approx(milliseconds / 1000)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("1024", 1024),
        (7, 7),
        ("1B", 1),
        ("1KiB", 1024),
        ("10MiB", 10_485_760),
        ("1.5GiB", 1_610_612_736),
    ],
)
def test_sizes_are_binary(text: object, count: int) -> None:
    """A size is a number of bytes or has a unit that is a power of two."""
    assert quantities.size(text) == count


@pytest.mark.parametrize("text", ["", "1MB", "1M", "-1", "1 MiB", "x", True, None, 1.5, -3, "²"], ids=repr)
def test_what_is_no_size_is_refused(text: object) -> None:
    """Anything else is refused with what was expected, MB too: it means two things."""
    with pytest.raises(ValueError, match=r"^expected a size such as 512KiB, "):
        quantities.size(text)


@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_size_reads_back(count: int) -> None:
    """What is written of a size reads back as the same size."""
    assert quantities.size(quantities.size_text(count)) == count
