"""Pages become the wanted samples and nothing else, or are refused with a reason."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from monitor.core.pages import exposition, looks
from monitor.core.pages.exposition import RefusedPageError, Series
from tests import made

if TYPE_CHECKING:
    from monitor.core.pages.scrapes import FailureReason

WANTED = frozenset({"a", "ab", "a_total", "b:c", "wanted_total"})


def read(text: str, *, wanted: frozenset[str] = WANTED) -> list[tuple[Series, float]]:
    """Return the samples of a page given as text."""
    return list(exposition.read(text.encode(), wanted).samples())


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        pytest.param("a 1", {}, 1.0, id="no labels"),
        pytest.param("a\t1", {}, 1.0, id="tab before the value"),
        pytest.param("a{} 1", {}, 1.0, id="empty braces"),
        pytest.param("a { } 1", {}, 1.0, id="blanks around the braces"),
        pytest.param('a{x="1",} 2', {"x": "1"}, 2.0, id="comma at the end"),
        pytest.param('a{ x = "1" , y = "2" } 2', {"x": "1", "y": "2"}, 2.0, id="blanks between labels"),
        pytest.param('a{x="say \\"hi\\""} 1', {"x": 'say "hi"'}, 1.0, id="escaped quotes"),
        pytest.param(
            'a{x="C:\\\\new\\\\"} 1', {"x": "C:\\new\\"}, 1.0, id="escaped backslashes before n and quote"
        ),
        pytest.param('a{x="two\\nlines"} 1', {"x": "two\nlines"}, 1.0, id="escaped line feed"),
        pytest.param('a{x="\\t"} 1', {"x": "\\t"}, 1.0, id="an escape that is none stays"),
        pytest.param('a{x="{v2}, y=1"} 1', {"x": "{v2}, y=1"}, 1.0, id="braces, commas and = in a value"),
        pytest.param('a{x="a # b 7"} 1', {"x": "a # b 7"}, 1.0, id="number sign in a value"),
        pytest.param('a{x="模型 Ω"} 1', {"x": "模型 Ω"}, 1.0, id="unicode"),
        pytest.param('a{x=""} 1', {"x": ""}, 1.0, id="empty value"),
        pytest.param("a 1.5e+09", {}, 1.5e9, id="exponent"),
        pytest.param("a 1E-3", {}, 1e-3, id="capital exponent"),
        pytest.param("a +Inf", {}, math.inf, id="infinity"),
        pytest.param("a -Inf", {}, -math.inf, id="minus infinity"),
        pytest.param("a NaN", {}, math.nan, id="NaN"),
        pytest.param("a -0.5", {}, -0.5, id="negative"),
        pytest.param("a 3 1700000000000", {}, 3.0, id="time stamp"),
        pytest.param("a 3 -1", {}, 3.0, id="negative time stamp"),
        pytest.param('a{x="1"} 3 # {trace_id="abc"} 0.6 1.5', {"x": "1"}, 3.0, id="exemplar"),
        pytest.param('a 3 1700000000.5 # {t="x # y"} 1', {}, 3.0, id="time stamp and exemplar"),
        pytest.param("  a 4", {}, 4.0, id="indented by blanks"),
        pytest.param('\ta{x="1"} 4', {"x": "1"}, 4.0, id="indented by a tab"),
        pytest.param("a   5   ", {}, 5.0, id="blanks behind"),
        pytest.param('{"a"} 6', {}, 6.0, id="quoted name of 1.0.0"),
        pytest.param('{"a",x="1"} 6', {"x": "1"}, 6.0, id="quoted name and labels of 1.0.0"),
        pytest.param('a{"x.y"="1"} 6', {"x.y": "1"}, 6.0, id="quoted label name of 1.0.0"),
    ],
)
def test_a_line_is_read(line: str, labels: dict[str, str], value: float) -> None:
    """Every way of writing a sample gives its labels and its value, whatever stands around it."""
    expected = [("a", labels, repr(value))]
    for text in (
        line,
        f"# HELP a .\n# TYPE a gauge\n{line}\nx 1\n",
        f"x 1\r\n{line}\r\n",
        f'x{{a="a 1"}} 1\n{line}',
    ):
        assert [(series.name, dict(series.labels), repr(found)) for series, found in read(text)] == expected


def test_only_whole_names_are_wanted() -> None:
    """A name that merely begins or ends like a wanted one is passed over, `_created` beside a counter too."""
    page = 'a_created 1.7e9\nab 1\nabc 2\nxa 3\na{x="ab 9"} 4\n# a 5\n#a 6\na_total_created 1.7e9\na_total 7\nb:c 8\nb 9\n'
    assert read(page) == [
        (Series("ab"), 1.0),
        (Series("a", (("x", "ab 9"),)), 4.0),
        (Series("a_total"), 7.0),
        (Series("b:c"), 8.0),
    ]


def test_duplicates_stay() -> None:
    """A series that stands twice is given twice, in the order of the page: the engine's reader decides."""
    assert read('a{x="1"} 1\na{x="1"} 2\n') == [
        (Series("a", (("x", "1"),)), 1.0),
        (Series("a", (("x", "1"),)), 2.0),
    ]


@pytest.mark.parametrize(
    ("line", "expected", "located"),
    [
        pytest.param('a{x="1" oops} 3', 'expected label="value" and a closing brace', False, id="labels"),
        pytest.param(
            'a{x="un"quoted"} 3', 'expected label="value" and a closing brace', False, id="unescaped quote"
        ),
        pytest.param('a{x="open 3', 'expected label="value" and a closing brace', False, id="open quote"),
        pytest.param(
            'a{"x"="1","y"} 3', "expected a value after the label's name", False, id="label without a value"
        ),
        pytest.param(
            '{"a",x=1} 3', 'expected label="value" and a closing brace', False, id="bare value in quoted form"
        ),
        pytest.param('a{x="1"}', "expected a value, then at most a time stamp", True, id="no value"),
        pytest.param("a 1 2 3", "expected a value, then at most a time stamp", True, id="too much"),
        pytest.param("a 1,5", "expected a number, read '1,5'", True, id="no number"),
        pytest.param("a 0x", "expected a number, read '0x'", True, id="half a number"),
        pytest.param("a 5 soon", "expected a number, read 'soon'", True, id="time stamp that is none"),
    ],
)
def test_one_bad_wanted_line_is_a_problem(line: str, expected: str, *, located: bool) -> None:
    """A wanted line that cannot be read is named with its number and its text; the other lines count."""
    page = exposition.read(f"ab 1\nx 1\n{line}\nwanted_total 2\n".encode(), WANTED)
    assert [
        (problem.line_number, problem.line, problem.expected, problem.located) for problem in page.problems
    ] == [(3, line, expected, located)]
    values = {series.name: value for series, value in page.samples()}
    assert (values["ab"], values["wanted_total"]) == (1.0, 2.0)
    assert ("a" in values) is located
    assert not located or math.isnan(values["a"])


@pytest.mark.parametrize(
    "line",
    [
        'other{name="MacBook Pro 14" registry R/W",id="2"} -794',
        "x 1,5",
        "x",
        '{"other",y=1} 1',
        " ! indented",
        "{",
    ],
)
def test_bad_lines_that_nobody_wants_are_nobodys_problem(line: str) -> None:
    """A line of a name that is not wanted is never looked at (case B18: a label with an unescaped quote)."""
    page = exposition.read(f"a 1\n{line}\nab 2\n".encode(), WANTED)
    assert (list(page.values), page.problems) == ([1.0, 2.0], ())


REFUSED: list[tuple[bytes, FailureReason]] = [
    (b"", "empty"),
    (b"\n \r\n\t\n", "empty"),
    (b"<!DOCTYPE html><html><body>Sign in</body></html>", "html"),
    (b"\xef\xbb\xbf\r\n  <html>", "html"),
    (b'<?xml version="1.0"?><a/>', "html"),
    (b'"# TYPE a counter\\na 87\\n"', "json"),
    (b'["# TYPE a counter\\na 1\\n"]', "json"),
    (b"[]", "json"),
    (b'[{"iter": 1}]', "json"),
    (b'{"error": "not found"}', "json"),
    (b'{"a": 5}', "json"),
    (b'{\n  "a": 5,\n  "b": [1]\n}\n', "json"),
    (b"Internal Server Error", "not_metrics"),
    (b"404 page not found\n", "not_metrics"),
    (b"upstream connect error or disconnect/reset before headers\n", "not_metrics"),
    (bytes(range(256)), "not_metrics"),
    (b"\x1f\x8b\x08\x00" + b"\x00\xff\x13" * 50, "not_metrics"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_is_no_page_is_refused(body: bytes, reason: FailureReason) -> None:
    """A body that is no exposition page is refused with the reason and with its beginning as it was read."""
    with pytest.raises(RefusedPageError) as refusal:
        exposition.read(body, WANTED)
    assert refusal.value.reason == reason
    assert "expected metrics as Prometheus text" in refusal.value.detail
    assert len(refusal.value.detail) < 400


@pytest.mark.parametrize(
    "body",
    [
        b"# HELP x .\n",
        b"# EOF\n",
        b"x 1\n",
        b'x{y="1"} 2',
        b'{"x.y",z="1"} 1\n',
        b"  x 1\n",
        b"# TYPE x gauge",
    ],
)
def test_a_page_without_a_wanted_sample_is_a_page(body: bytes) -> None:
    """A page that has none of the wanted names gives no samples and is not refused."""
    assert list(exposition.read(body, WANTED).samples()) == []


def _numbered(count: int, value: int) -> bytes:
    """Return a page with `count` wanted lines among others, all of them with a number of `value`'s length."""
    lines = [f'other{i} {value}\na{{n="{i}"}} {value + i}' for i in range(count)]
    return ("# TYPE a counter\n" + "\n".join(lines) + "\n").encode()


@pytest.mark.parametrize("value", [0, 7, 12345, 10**9], ids=str)
def test_a_glance_reads_what_a_search_reads(value: int) -> None:
    """A page with the same lines and other numbers reads alike at a glance, also where the numbers grew longer."""
    first = exposition.read(_numbered(4, 1), frozenset({"a"}))
    page = exposition.read(_numbered(4, value), frozenset({"a"}), first.layout, glance=True)
    assert list(page.values) == list(exposition.read(_numbered(4, value), frozenset({"a"})).values)
    assert page.layout.series == first.layout.series


def test_a_glance_does_not_believe_a_page_with_other_lines() -> None:
    """A line that is gone, moved or unreadable makes a search of the page."""
    wanted = frozenset({"a", "b"})
    layout = exposition.read(b"# x\na 1\nb 2\n", wanted).layout
    for body in (
        b"# x\na 3\n",
        b"# x\nb 4\na 3\n",
        b'# x\na 3\nb 4\na{n="1"} 5\n',
        b"a 3\nb 4\n",
        b"# x\na 3\nb x\n",
    ):
        page = exposition.read(body, wanted, layout, glance=True)
        assert dict(page.samples()) == pytest.approx(
            dict(exposition.read(body, wanted).samples()), nan_ok=True
        )


def test_what_a_glance_overlooks_is_seen_soon() -> None:
    """A family that is new at the end of a page is read at the latest with the eighth page."""
    memory = looks.Memory()
    before = made.page([5.0], drafts=9.0) + b"# EOF\n"
    after = before + b'vllm:generation_tokens_total{engine="0",model_name="m2"} 1\n'
    assert len(looks.read(memory, before, {}).readings) == 1
    assert len(looks.read(memory, before, {}).readings) == 1
    seen = [len(looks.read(memory, after, {}).readings) for _ in range(looks.GLANCES)]
    assert seen[-1] == 2


def test_a_glance_works_again_after_the_lines_have_moved_far() -> None:
    """Lines that were pushed away by others are looked for once, and are found at a glance from then on."""
    first = exposition.read(_numbered(4, 1), frozenset({"a"}))
    moved = b"# HELP x " + b"y" * 4 * exposition.SLACK + b"\n" + _numbered(4, 5)
    exposition.read(moved, frozenset({"a"}), first.layout, glance=True)
    assert first.layout.starts == exposition.read(moved, frozenset({"a"})).layout.starts
