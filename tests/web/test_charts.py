"""The SVG writer: scales, gaps, sizes, and text that cannot break out."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.web import axes, bars, charts
from monitor.web.charts import Chart, Marker, Point

HOUR = 3600.0


def points(values: list[float | None], seconds: float = 60.0) -> list[Point]:
    """Return points of equal length that follow each other."""
    return [
        Point(index * seconds, (index + 1) * seconds, value, reference=3.0, state="ok")
        for index, value in enumerate(values)
    ]


def chart(made: list[Point], markers: tuple[Marker, ...] = ()) -> ET.Element:
    """Return the parsed chart of some points."""
    end = made[-1].end if made else HOUR
    return ET.fromstring(charts.history(Chart("c", "title", "about", 0, end, 1, made, markers)))  # noqa: S314


def lines(svg: ET.Element) -> list[str]:
    """Return the paths of the line itself."""
    return [path.attrib["d"] for path in svg.iter("path") if path.attrib["class"] == "line"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 4.5, [1, 2, 3, 4, 5]),
        (1, 1.04, [1, 1.01, 1.02, 1.03, 1.04]),
        (0, 16.1, [0, 5, 10, 15, 20]),
        (1, 2, [1, 1.25, 1.5, 1.75, 2]),
        (1, 1, [1, 1.00000000025]),
    ],
)
def test_value_ticks(low: float, high: float, expected: list[float]) -> None:
    """Ticks are round numbers that enclose the values."""
    assert axes.value_ticks(low, high) == pytest.approx(expected, abs=1e-8)


@given(st.floats(0, 1e6), st.floats(1e-3, 1e6))
def test_value_ticks_enclose(low: float, span: float) -> None:
    """Whatever the values, the ticks enclose them, rise, and are few."""
    ticks = axes.value_ticks(low, low + span)
    assert ticks[0] <= low + 1e-6 * span
    assert ticks[-1] >= low + span - 1e-6 * span
    assert ticks == sorted(set(ticks))
    assert len(ticks) <= 7


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(
            0,
            60,
            ["Jan 01", "00:00:10", "00:00:20", "00:00:30", "00:00:40", "00:00:50", "00:01:00"],
            id="minute",
        ),
        pytest.param(
            HOUR, 7 * HOUR, ["01:00", "02:00", "03:00", "04:00", "05:00", "06:00", "07:00"], id="hours"
        ),
        pytest.param(22 * HOUR, 26 * HOUR, ["22:00", "23:00", "Jan 02", "01:00", "02:00"], id="midnight"),
        pytest.param(
            0,
            30 * 24 * HOUR,
            ["Jan 01", "Jan 06", "Jan 11", "Jan 16", "Jan 21", "Jan 26", "Jan 31"],
            id="month",
        ),
    ],
)
def test_time_ticks(start: float, end: float, expected: list[str]) -> None:
    """Times on the axis are round, in UTC, and a midnight is named by its day."""
    assert [label for _, label in axes.time_ticks(start, end)] == expected


@given(st.integers(0, 4_000_000_000), st.integers(0, 100_000_000))
def test_time_ticks_are_few_and_inside(start: int, span: int) -> None:
    """Whatever the range, there are at most eight ticks, all inside it."""
    ticks = axes.time_ticks(start, start + span)
    assert len(ticks) <= 8
    assert all(start <= at <= start + span for at, _ in ticks)


def test_unknown_is_a_gap() -> None:
    """An unknown value, and a time without buckets, break the line; neither is drawn as zero."""
    made = points([3.0, 3.0, None, 3.0, 3.0])
    late = [Point(point.start + HOUR, point.end + HOUR, 3.0) for point in points([3.0, 3.0])]
    drawn = lines(chart([*made, *late]))
    assert len(drawn) == 3
    assert all("V" not in path for path in drawn)


def test_no_data_says_so() -> None:
    """A chart without a known value has no line and says that there is no data."""
    svg = chart(points([None, None]))
    assert lines(svg) == []
    assert "no data in this time" in ["".join(text.itertext()) for text in svg.iter("text")]
    assert chart([]) is not None


def test_interval_is_a_closed_band() -> None:
    """The interval is drawn between its ends."""
    made = [Point(0, 60, 3.0, 2.5, 3.5), Point(60, 120, 3.0, 2.5, 3.5)]
    (band,) = (path.attrib["d"] for path in chart(made).iter("path") if path.attrib["class"] == "band")
    heights = {float(pair.split()[1]) for pair in re.findall(r"[ML]([\d. ]+)", band)}
    assert len(heights) == 2
    assert band.endswith("Z")


def test_marker_links_to_its_event() -> None:
    """An event is a line at its change point, a shade until it closed, and a number that links to it."""
    marker = Marker(120, 60, 180, 240, "7", "<what>", "/report/events/x", "critical")
    svg = chart(points([3.0] * 10), (marker,))
    (link,) = svg.iter("a")
    assert link.attrib["href"] == "/report/events/x"
    assert "".join(link.itertext()) == "<what>7"
    (span,) = (rect for rect in svg.iter("rect") if rect.attrib["class"] == "span critical")
    plot = charts.TALL.end - charts.TALL.left
    assert float(span.attrib["x"]) == pytest.approx(charts.TALL.left + plot * 0.2, abs=0.1)
    assert float(span.attrib["width"]) == pytest.approx(plot * 0.2, abs=0.1)


def test_everything_stays_inside() -> None:
    """An event that began before the chart, and one still open, are cut at its edges."""
    marker = Marker(-HOUR, -2 * HOUR, -HOUR, None, "1", "t", "/x", "warning")
    svg = chart(points([3.0] * 10), (marker,))
    for rect in svg.iter("rect"):
        left = float(rect.attrib["x"])
        assert left >= charts.TALL.left
        assert left + float(rect.attrib["width"]) <= charts.TALL.end + 0.2


def test_states_are_runs() -> None:
    """Neighbours of one state are one piece of the strip, named for those who cannot see its colour."""
    made = [
        *points([3.0] * 5),
        Point(300, 360, 1.1, state="collapsed"),
        Point(360, 420, 1.1, state="collapsed"),
    ]
    strips = [rect for rect in chart(made).iter("rect") if rect.attrib["class"].startswith("strip")]
    assert ["".join(strip.itertext()) for strip in strips] == ["ok", "collapsed"]


def test_accessible_and_safe() -> None:
    """A chart has a title and a description, escaped, and neither style nor script."""
    svg = charts.history(Chart("c", "<b>", '"&', 0, 60, 1, points([2.0])))
    root = ET.fromstring(svg)  # noqa: S314
    assert root.attrib["role"] == "group"
    assert [root.findtext("title"), root.findtext("desc")] == ["<b>", '"&']
    assert "style=" not in svg
    assert "<script" not in svg


def test_sparkline_is_small() -> None:
    """A sparkline of an hour of minutes is at most 2 KB, breaks at gaps and names itself."""
    values: list[float | None] = [3 + (index % 7) / 10 for index in range(60)]
    values[20:25] = [None] * 5
    svg = charts.sparkline(points(values), 'now "3.1"', "ok")
    assert len(svg) < 2048
    root = ET.fromstring(svg)  # noqa: S314
    assert root.attrib["aria-label"] == 'now "3.1"'
    assert lines(root)[0].count("M") == 2


def test_sparkline_of_nothing_is_nothing() -> None:
    """Without a known value there is no picture, so the page can say that it is not known."""
    assert charts.sparkline([], "x", "ok") == ""
    assert charts.sparkline([Point(0, 1, None, reference=3.0)], "x", "ok") == ""


def test_bar_is_bounded() -> None:
    """A ratio out of its range stays inside the bar."""
    root = ET.fromstring(bars.bar(1.7, None, "x"))  # noqa: S314
    (fill,) = (rect for rect in root.iter("rect") if rect.attrib["class"] == "fill")
    assert fill.attrib["width"] == "120"
