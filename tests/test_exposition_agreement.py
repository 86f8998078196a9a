"""The parser agrees with prometheus_client's and with itself, on recorded and on random pages."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

from monitor.core.pages import exposition
from monitor.core.pages.engines import vllm
from monitor.core.pages.exposition import RefusedPageError, Series

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monitor.core.pages.exposition import Page

CAPTURED = sorted((Path(__file__).parent / "fixtures" / "runs" / "draftchange").glob("*.prom.gz"))
WANTED = frozenset({"a", "ab", "a_total", "b:c", "wanted_total"})

_text = st.text(
    st.sampled_from('ab\\"{},= #\n\tn1é模') | st.characters(codec="utf-8", exclude_categories=["Cs"]),
    max_size=6,
)
_label_names = st.sampled_from(["x", "y", "engine", "model_name", "_z1"])
_labels = st.lists(st.tuples(_label_names, _text), max_size=3, unique_by=lambda label: label[0]).map(tuple)
_names = st.sampled_from(["a", "ab", "a_total", "b:c", "wanted_total", "abc", "a_created", "z"])
_values = st.floats() | st.integers(0, 10**12).map(float)
_samples = st.lists(st.tuples(st.builds(Series, _names, _labels), _values), max_size=8)
_stamps = st.sampled_from(["", " 1700000000000", "  1 "])


def same(first: Iterable[float], second: Iterable[float]) -> bool:
    """Return whether values are equal, NaN being equal to NaN."""
    return [repr(float(value)) for value in first] == [repr(float(value)) for value in second]


def rendered(samples: Iterable[tuple[Series, float]], *, end: str = "\n") -> str:
    """Return samples as a page, as the client library writes labels and values."""
    return "".join(f"{written(series)} {float(value)!r}{end}" for series, value in samples)


def written(series: Series) -> str:
    """Return a series as text."""
    if not series.labels:
        return series.name
    return series.name + "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in series.labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _classic(body: bytes, wanted: frozenset[str]) -> list[tuple[str, dict[str, str], float]]:
    """Return the wanted samples as prometheus_client's parser reads them, sample names as on the page."""
    found = []
    for line in body.decode().split("\n"):
        if line.startswith("#"):
            continue
        for family in parser.text_string_to_metric_families(line):
            found += [(sample.name, sample.labels, float(sample.value)) for sample in family.samples]
    return [sample for sample in found if sample[0] in wanted]


@pytest.mark.parametrize("path", CAPTURED[:: len(CAPTURED) // 6], ids=lambda path: path.name[:13])
def test_captured_pages_read_as_the_client_library_reads_them(path: Path) -> None:
    """On real vLLM pages the wanted samples are those of prometheus_client's parser, in the same order."""
    body = gzip.decompress(path.read_bytes())
    wanted = vllm.wanted("vllm:")
    page = exposition.read(body, wanted)
    assert len(page.values) > 20
    assert [(series.name, dict(series.labels), value) for series, value in page.samples()] == _classic(
        body, wanted
    )


def test_a_captured_page_is_reread_by_its_lines() -> None:
    """The layout of one page reads the next of the same process, and a page with other lines is searched."""
    wanted = vllm.wanted("vllm:")
    bodies = [gzip.decompress(path.read_bytes()) for path in CAPTURED]
    layout = None
    kept = 0
    for body in bodies:
        page = exposition.read(body, wanted, layout)
        kept += page.layout is layout
        layout = page.layout
        assert list(page.samples()) == list(exposition.read(body, wanted).samples())
    assert kept >= len(bodies) - 3


@given(_samples, st.sampled_from(["\n", "\r\n", " \n", " 1700000000000\n"]))
def test_what_is_rendered_is_read(samples: list[tuple[Series, float]], end: str) -> None:
    """Reading a rendered page gives back its wanted samples: names, labels and values, in order."""
    page = exposition.read(("# EOF\n" + rendered(samples, end=end)).encode(), WANTED)
    expected = [(series, value) for series, value in samples if series.name in WANTED]
    assert list(page.layout.series) == [series for series, _ in expected]
    assert same(page.values, (value for _, value in expected))
    assert page.problems == ()


# Pages of lines that are right, odd or wrong in one place.
_odd_names = st.sampled_from(["a", "ab", "a_total", "b:c", "z", "a.b", '{"a"', "  a", "#a", "# TYPE a", ""])
_odd_labels = st.sampled_from(
    [
        "",
        "{}",
        '{x="1"}',
        '{x="a\\"b",y="}"}',
        '{ x = "1" , }',
        '{x="\\\\"}',
        "{x='1'}",
        '{x="1"',
        '{x="1" y="2"}',
        '{,x="1"}',
        '{x="1",,}',
        '{"x.y"="1"}',
        '{"a",x="1"}',
        ',x="1"}',
        "}",
        '{x="é模"}',
        '{x="\\t\\n"}',
        '{x="1",x="1"}',
    ]
)
_odd_values = st.sampled_from(
    [
        "1",
        "-2.5e3",
        "NaN",
        "+Inf",
        "1_000",
        "0x1",
        "1,5",
        "",
        "nan 5",
        "1 1700000000000",
        "1\t2",
        "inf",
        "1 2 3",
    ]
)
_odd_tails = st.sampled_from(["\n", "\r\n", " \n", "\n\n", "", '# {t="1"} 2\n', ' # {t="1"} 2\n', "\n \n"])
_odd_lines = st.tuples(
    _odd_names, _odd_labels, st.sampled_from([" ", "\t", "  ", ""]), _odd_values, _odd_tails
).map("".join)
_nearly = st.lists(_odd_lines | st.builds("{} {!r}\n".format, _names, _values), max_size=5).map("".join)


@given(_nearly)
@example('a{x="1",} 5\n')
@example("a 1\n\n\n a 2")
@settings(max_examples=400)
def test_it_agrees_with_the_client_librarys_parser(text: str) -> None:
    """A page that prometheus_client's parser and this one accept gives both the same wanted samples."""
    try:
        expected = _by_lines(text)
        page = exposition.read(text.encode(), WANTED)
    except (ValueError, KeyError, IndexError, RefusedPageError):
        return
    if page.problems:
        return
    assert [(series.name, dict(series.labels)) for series, _ in page.samples()] == [
        sample[:2] for sample in expected
    ]
    assert same(page.values, (value for _, _, value in expected))


def _by_lines(text: str) -> list[tuple[str, dict[str, str], float]]:
    """Return the wanted samples of a page that the classic parser accepts as a whole."""
    list(parser.text_string_to_metric_families(text))
    return _classic(text.encode(), WANTED)


@given(_samples)
def test_it_agrees_with_the_client_librarys_openmetrics_parser(samples: list[tuple[Series, float]]) -> None:
    """On OpenMetrics pages with families, time stamps and exemplars both parsers give the same samples."""
    page = "".join(
        f"# TYPE f{number} unknown\n# HELP f{number} .\n{written(Series(f'f{number}', series.labels))} {value!r} 17.5\n"
        for number, (series, value) in enumerate(samples)
    )
    page += (
        '# TYPE c counter\nc_total{x="1"} 5.0 # {trace_id="abc # {"} 1.0 17.0\nc_created{x="1"} 17.0\n# EOF\n'
    )
    wanted = frozenset({f"f{number}" for number in range(len(samples))} | {"c_total"})
    try:
        families = list(openmetrics.text_string_to_metric_families(page))  # type: ignore[no-untyped-call]
    except ValueError:
        return
    expected = [sample for family in families for sample in family.samples if sample.name in wanted]
    found = exposition.read(page.encode(), wanted)
    assert [(s.name, dict(s.labels)) for s in found.layout.series] == [(s.name, s.labels) for s in expected]
    assert same(found.values, (sample.value for sample in expected))


@given(_nearly, _nearly, st.booleans())
@example("a 1\n", "a 1\nab 2\n", False)
@example("# x\na 1\n# x\nz 2\n", "# x\na 1\n# x\nab 2\n", False)
@settings(max_examples=400)
def test_a_reread_page_equals_a_searched_one(first: str, second: str, crlf: bool) -> None:  # noqa: FBT001
    """Whatever page stood before, reading with its layout gives what reading without it gives."""
    assert_reread_is_search(first, second.replace("\n", "\r\n") if crlf else second)


@given(_samples, _samples, st.data())
def test_a_reread_page_equals_a_searched_one_on_pages(
    samples: list[tuple[Series, float]], others: list[tuple[Series, float]], data: st.DataObject
) -> None:
    """The same for whole pages: values move, samples vanish, appear and change places."""
    kept = [(series, data.draw(_values)) for series, _ in samples if data.draw(st.booleans())]
    second = data.draw(st.permutations(kept + others[:1])) if data.draw(st.booleans()) else kept
    assert_reread_is_search("# EOF\n" + rendered(samples), "# EOF\n" + rendered(second))


def assert_reread_is_search(first: str, second: str) -> None:
    """Compare reading `second` with the layout of `first` and without one."""
    try:
        layout = exposition.read(first.encode(), WANTED).layout
    except RefusedPageError:
        return
    with_layout = _outcome(second, layout)
    without = _outcome(second, None)
    if isinstance(with_layout, str) or isinstance(without, str):
        assert with_layout == without
        return
    assert with_layout.layout.series == without.layout.series
    assert same(with_layout.values, without.values)
    assert with_layout.problems == without.problems


def _outcome(text: str, layout: exposition.Layout | None) -> Page | str:
    try:
        return exposition.read(text.encode(), WANTED, layout)
    except RefusedPageError as refusal:
        return refusal.detail


@given(st.binary(max_size=200), st.booleans())
def test_no_body_breaks_it(body: bytes, prefixed: bool) -> None:  # noqa: FBT001
    """Any bytes give a page or a refusal, never another error."""
    try:
        page = exposition.read(b"a 1\n" + body if prefixed else body, WANTED)
    except RefusedPageError:
        return
    assert len(page.values) == len(page.layout.series)
