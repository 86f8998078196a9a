"""The metrics page as text: escapes, unknown values, both formats, agreement with the client library."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from monitor.metrics import textformat
from monitor.metrics.textformat import Column, Family


def sample(value: float, kind: textformat.FamilyKind = "gauge") -> str:
    """Return the last line of a page that holds one sample."""
    page = textformat.render([textformat.single("specmon_x", kind, "x", value)]).decode()
    return page.splitlines()[-1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0.0, "0", id="zero"),
        pytest.param(3.3616, "3.3616", id="shortest"),
        pytest.param(12345678.0, "12345678", id="whole-numbers-keep-every-digit"),
        pytest.param(1777637700.1234, "1777637700.12", id="timestamp"),
        pytest.param(2.0**60, "1.152921504606847e+18", id="past-exact-integers"),
        pytest.param(math.inf, "+Inf", id="infinite"),
        pytest.param(-math.inf, "-Inf", id="negative-infinite"),
    ],
)
def test_values(value: float, text: str) -> None:
    """Whole numbers keep every digit, others twelve."""
    assert sample(value) == f"specmon_x {text}"


def test_unknown_values_are_absent() -> None:
    """NaN is no sample, and a family without a known value is not on the page at all."""
    column = Column(['a="1"', 'a="2"', 'a="3"'], [1.0, math.nan, math.inf])
    page = textformat.render(
        [Family("specmon_x", "gauge", "x", (column,)), textformat.single("specmon_y", "gauge", "y", math.nan)]
    )
    assert page == b'# HELP specmon_x x\n# TYPE specmon_x gauge\nspecmon_x{a="1"} 1\nspecmon_x{a="3"} +Inf\n'


def test_labels_and_help_are_escaped() -> None:
    """Quotes, backslashes and line feeds of names that users choose cannot break out of their place."""
    block = textformat.labels({"model_name": 'a"b\\c\nd}'})
    page = textformat.render([Family("specmon_x", "gauge", "one\ntwo \\", (Column((block,), (1,)),))])
    assert page.decode() == (
        '# HELP specmon_x one\\ntwo \\\\\n# TYPE specmon_x gauge\nspecmon_x{model_name="a\\"b\\\\c\\nd}"} 1\n'
    )


def test_lone_surrogate_costs_one_character() -> None:
    """A name that is not valid Unicode does not lose the page."""
    block = textformat.labels({"model_name": "a\ud800b"})
    page = textformat.render([Family("specmon_x", "gauge", "x", (Column((block,), (1,)),))])
    assert b'specmon_x{model_name="a?b"} 1\n' in page


@pytest.mark.parametrize(
    ("kind", "plain", "openmetrics"),
    [
        pytest.param("counter", "# TYPE specmon_x_total counter", "# TYPE specmon_x counter", id="counter"),
        pytest.param("info", "# TYPE specmon_x_info gauge", "# TYPE specmon_x info", id="info"),
        pytest.param("gauge", "# TYPE specmon_x gauge", "# TYPE specmon_x gauge", id="gauge"),
    ],
)
def test_type_lines(kind: textformat.FamilyKind, plain: str, openmetrics: str) -> None:
    """Each format names a family's type in its own way."""
    family = textformat.single("specmon_x", kind, "x", 1)
    assert plain in textformat.render([family]).decode().splitlines()
    assert openmetrics in textformat.render([family], openmetrics=True).decode().splitlines()


def test_openmetrics_ends_and_has_units() -> None:
    """OpenMetrics gets its unit line and its end marker, after what was appended."""
    page = textformat.render(
        [textformat.single("specmon_step_seconds", "gauge", "x", 1)],
        openmetrics=True,
        appended=b"process_x 1\n",
    )
    assert b"# UNIT specmon_step_seconds seconds\n" in page
    assert page.endswith(b"process_x 1\n# EOF\n")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("specmon_x_total", "counter"), ("specmon_x_info", "info"), ("specmon:x", "gauge"), ("1x", "gauge")],
)
def test_refused_names(name: str, kind: textformat.FamilyKind) -> None:
    """A name that no scraper would take, or with its suffix written already, is refused where it is made."""
    with pytest.raises(ValueError, match=f"metric family '{name}': expected"):
        textformat.single(name, kind, "x", 1)


# Carriage returns are left out: the client library's text parser splits lines at them, the format does not.
names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
)
numbers = st.floats(allow_nan=False)


@given(st.lists(st.tuples(names, numbers), min_size=1, unique_by=lambda pair: pair[0]))
def test_what_is_written_reads_back(rows: list[tuple[str, float]]) -> None:
    """Both parsers of the client library read every label back exactly and every value to its digits, whatever the names."""
    blocks = [textformat.labels({"model_name": name}) for name, _ in rows]
    family = Family("specmon_x", "gauge", "x", (Column(blocks, [value for _, value in rows]),))
    plain = textformat.render([family]).decode()
    openmetrics = textformat.render([family], openmetrics=True).decode()
    for read in (
        parser.text_string_to_metric_families(plain),
        openmetrics_parser.text_string_to_metric_families(openmetrics),  # type: ignore[no-untyped-call]
    ):
        (back,) = read
        assert [each.labels["model_name"] for each in back.samples] == [name for name, _ in rows]
        values = [value for _, value in rows]
        assert [each.value for each in back.samples] == pytest.approx(values, rel=1e-11, abs=0)
