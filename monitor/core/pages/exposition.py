"""Reads the wanted samples of an exposition page, and only those.

A page of a serving engine has hundreds of samples of which some twenty matter. One compiled pattern finds
their lines. The first look at a target takes the lines apart and remembers what stands before each value
and where (`Layout`); where the next page has the same lines, nothing but the numbers is read.

Formats: Prometheus text 0.0.4 and 1.0.0 and OpenMetrics 1.0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from monitor.core.pages import passes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RefusalReason = Literal["empty", "html", "json", "not_metrics", "too_large"]

SHOWN_CHARACTERS = 80
LONGEST_LINE_BYTES = 16 << 10  # the labels of a longer one would be kept for as long as its stream
MOST_PROBLEMS = 1000  # a page with more of them is none
MOST_SERIES = 50_000  # wanted ones; those of a thousand engines on a federated page are fewer
LONGEST_KEPT_BYTES = 256
SLACK = 48  # bytes that numbers may grow or shrink by between two wanted lines
ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}

_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(
    rb'[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|"((?:[^"\\]|\\.)+)")[ \t]*'
    rb'(?:=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*)?(,|\})',
    re.DOTALL,
)
_BLANKS = b" \t"
_LINE_BEGINNING = re.compile(rb"\n[^ \t\n{]*[ \t{\n]")
_EMPTY_LABELS = re.compile(rb"[ \t]*\}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ANY_LINE = re.compile(
    rb"\n(?:"
    rb"#[ \t]*(?:HELP|TYPE|EOF|UNIT)\b"
    rb"|[ \t]*[a-zA-Z_:][^ \t{\n]*(?:\{[^\n]*\})?[ \t]+[-+0-9.NI]"
    rb'|\{[ \t]*"[^"\n]*"[ \t]*[,}]'
    rb")",
)


class RefusedPageError(Exception):
    """The body is not an exposition page; `reason` for machines, `detail` says what was read instead."""

    def __init__(self, reason: RefusalReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: RefusalReason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Series:
    """The identity of a sample: its name and its labels in the order of the page."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    def label(self, name: str, default: str = "") -> str:
        """Return the value of a label, `default` where the series does not have it."""
        for key, value in self.labels:
            if key == name:
                return value
        return default


@dataclass(frozen=True, slots=True)
class Problem:
    """A wanted line that could not be read: its number (from 1), its beginning and what was expected.

    `located` tells a line whose series is known, only its value is not, from one that says neither.
    """

    line_number: int
    line: str
    expected: str
    located: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which wanted series a page has, in order, and what stands before each value.

    `prefixes` is empty where the next page must be taken apart as well: a line of this one was odd. `starts`
    are the offsets of the prefixes behind a first line feed, `followers` the beginnings of the lines after
    them, both as on the page searched last: numbers grow, and lines that nobody wants come and go.
    """

    series: tuple[Series, ...]
    prefixes: tuple[bytes, ...] = ()
    starts: list[int] = field(default_factory=list)
    followers: list[bytes] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Page:
    """The wanted samples of one page: `values[i]` is that of `layout.series[i]`, NaN where unreadable."""

    layout: Layout
    values: Sequence[float]
    problems: tuple[Problem, ...] = ()

    def samples(self) -> Iterable[tuple[Series, float]]:
        """Return (series, value) pairs in the order of the page."""
        return zip(self.layout.series, self.values, strict=True)


def read(body: bytes, wanted: frozenset[str], layout: Layout | None = None, *, glance: bool = False) -> Page:
    """Return the samples of `body` whose names are `wanted`.

    `layout` is that of the last page of the same target; with it a page with the same lines is read about
    four times faster. With `glance` it is only read where the lines stood (ten times faster) if they are
    there still and what followed them is too: a family that is new may then not be seen.
    Raises RefusedPageError where the body is no exposition page at all.
    """
    text = b"\n" + body
    if layout is not None and layout.prefixes:
        values = _glance(text, layout) if glance else None
        if values is None:
            values = _reread(text, wanted, layout)
        if values is not None:
            return Page(layout, values)
    return _search(text, wanted)


def _glance(text: bytes, layout: Layout) -> list[float] | None:
    """Return the values at the remembered places, None where one of the lines is not there any more."""
    values = []
    moved = 0
    try:
        for prefix, start, follower in zip(layout.prefixes, layout.starts, layout.followers, strict=True):
            expected = start + moved
            found = text.find(prefix, max(expected - SLACK, 0), expected + len(prefix) + SLACK)
            end = text.find(b"\n", found + len(prefix))
            if (
                found < 0
                or end < 0
                or not text.startswith(follower, end)
                or (not follower and text[end + 1 :])
            ):
                return None
            moved = found - start
            values.append(float(text[found + len(prefix) : end]))
    except ValueError:
        return None
    return values


def _reread(text: bytes, wanted: frozenset[str], layout: Layout) -> list[float] | None:
    """Return the values of a page with the remembered lines, None where the page has others."""
    matches = list(passes.matches(_pattern(wanted), text))
    if len(matches) != len(layout.prefixes):
        return None
    values = []
    try:
        for match, prefix in zip(matches, layout.prefixes, strict=True):
            line = match.group()
            if not line.startswith(prefix):
                return None
            values.append(float(line[len(prefix) :]))
    except ValueError:
        return None
    layout.starts[:] = [match.start() for match in matches]
    layout.followers[:] = [_beginning(text, match.end()) for match in matches]
    return values


def _search(text: bytes, wanted: frozenset[str]) -> Page:
    """Return the samples of a page of any shape; `text` is the page after a line feed."""
    series: list[Series] = []
    values: list[float] = []
    prefixes: list[bytes] = []
    starts: list[int] = []
    followers: list[bytes] = []
    problems: list[Problem] = []
    lines = number = counted = 0
    for match in passes.matches(_pattern(wanted), text):
        lines += 1
        line = match.group()[1:].lstrip(_BLANKS)
        located = False
        try:
            name, labels, after = _identity(line)
            if name not in wanted:
                continue
            located = True
            value = _number(line[after:])
        except ValueError as error:
            number += text.count(b"\n", counted, match.start() + 1)
            counted = match.start() + 1
            problems.append(Problem(number, _shown(line), str(error), located))
            if len(problems) > MOST_PROBLEMS:
                raise _too_many(problems[0]) from None
            if not located:
                continue
            value = math.nan
        series.append(Series(name, labels))
        values.append(value)
        prefixes.append(b"\n" + line[:after])
        starts.append(match.start())
        followers.append(_beginning(text, match.end()))
        if len(series) > MOST_SERIES:
            raise _too_large()
    if not series:
        refuse_unless_exposition(text[1:])
    layout = Layout(tuple(series))
    if lines == len(prefixes) and not problems:
        layout = Layout(tuple(series), tuple(prefixes), starts, followers)
    return Page(layout, values, tuple(problems))


def refuse_too_many_lines(body: bytes) -> None:
    """Raise RefusedPageError where `body` has more lines than are searched."""
    if passes.has_too_many_lines(body):
        detail = f"more than {passes.MOST_LINES} lines, expected the page of one engine"
        raise RefusedPageError("too_large", detail)


def _too_large() -> RefusedPageError:
    detail = f"more than {MOST_SERIES} series to read, expected the page of one engine or of some hundred"
    return RefusedPageError("too_large", detail)


def _too_many(first: Problem) -> RefusedPageError:
    detail = f"more than {MOST_PROBLEMS} of its lines cannot be read; line {first.line_number}: "
    return RefusedPageError("not_metrics", f"{detail}{first.expected}, read {first.line!r}")


def _beginning(text: bytes, position: int) -> bytes:
    """Return the line feed at `position` and the name or comment mark after it, empty at the page's end."""
    match = _LINE_BEGINNING.match(text, position)
    return match.group() if match is not None else b""


def unreadable(body: bytes) -> tuple[Problem, ...]:
    """Return every line of the page, wanted or not, that is neither a sample nor a comment.

    For people who look at one page: it reads all of it, up to MOST_PROBLEMS such lines.
    """
    problems: list[Problem] = []
    for number, raw in enumerate(body.split(b"\n"), 1):
        line = raw.strip()
        if not line or line.startswith(b"#") or len(problems) == MOST_PROBLEMS:
            continue
        try:
            _number(line[_identity(line)[2] :])
        except ValueError as error:
            problems.append(Problem(number, _shown(line), str(error)))
    return tuple(problems)


def _identity(line: bytes) -> tuple[str, tuple[tuple[str, str], ...], int]:
    """Return name, labels and the offset of what follows them; ValueError says what was expected."""
    if len(line) > LONGEST_LINE_BYTES:
        msg = f"expected a line of at most {LONGEST_LINE_BYTES} bytes"
        raise ValueError(msg)
    if line[:1] == b"{":
        name, position = "", 0
    else:
        match = _NAME.match(line)
        if match is None:
            msg = "expected a metric name"
            raise ValueError(msg)
        name, position = match.group().decode(), match.end()
    while line[position : position + 1] in (b" ", b"\t"):
        position += 1
    if line[position : position + 1] != b"{":
        return name, (), position
    labels, end, quoted = _labels(line, position + 1)
    name = name or quoted
    if not name:
        msg = "expected a metric name before or within the braces"
        raise ValueError(msg)
    return name, labels, end


def _labels(line: bytes, position: int) -> tuple[tuple[tuple[str, str], ...], int, str]:
    """Return the labels from `position` on, the offset past the brace, and a quoted metric name if any."""
    labels: list[tuple[str, str]] = []
    quoted = ""
    empty = _EMPTY_LABELS.match(line, position)
    while empty is None:
        match = _LABEL.match(line, position)
        if match is None:
            msg = 'expected label="value" and a closing brace'
            raise ValueError(msg)
        plain, name, value, closing = match.groups()
        if value is not None:
            labels.append((_unescape(plain if plain is not None else name), _unescape(value)))
        elif name is not None and not labels and not quoted:
            quoted = _unescape(name)
        else:
            msg = "expected a value after the label's name"
            raise ValueError(msg)
        position = match.end()
        if closing == b"}":
            return tuple(labels), position, quoted
        empty = _EMPTY_LABELS.match(line, position)
    return tuple(labels), empty.end(), quoted


def _number(rest: bytes) -> float:
    """Return the value from what follows the labels; a time stamp and an exemplar may follow it."""
    fields = rest.split(b" # ", 1)[0].split()
    if not fields or len(fields) > 2:  # noqa: PLR2004 - value and time stamp
        msg = "expected a value, then at most a time stamp"
        raise ValueError(msg)
    for each in fields:
        try:
            float(each)
        except ValueError:
            msg = f"expected a number, read {_shown(each)!r}"
            raise ValueError(msg) from None
    return float(fields[0])


def _unescape(value: bytes) -> str:
    # The names of a page come again and again; a text of kilobytes would only fill the cache.
    return _unescaped(value) if len(value) < LONGEST_KEPT_BYTES else _unescaped.__wrapped__(value)


@lru_cache(maxsize=4096)
def _unescaped(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: ESCAPED.get(match.group(1), match.group(0)), text)


@lru_cache(maxsize=256)
def _pattern(wanted: frozenset[str]) -> re.Pattern[bytes]:
    """Return a pattern for lines of the wanted names, indented ones and those with the name in braces too.

    The names become a tree, so that one pass over the page is enough.
    """
    tree = _tree(sorted(name.encode() for name in wanted))
    odd = rb"[ \t]+" + tree + rb"(?=[ \t{])|[ \t]*\{[^\n]*?\"" + tree + rb'"'
    return re.compile(rb"\n(?:" + tree + rb"(?=[ \t{])|(?=[ \t{])(?:" + odd + rb"))[^\n]*")


def _tree(names: list[bytes]) -> bytes:
    """Return a regular expression that matches exactly `names` (sorted), sharing their beginnings."""
    branches: list[bytes] = []
    rest = [name for name in names if name]
    while rest:
        group = [name for name in rest if name[0] == rest[0][0]]
        rest = rest[len(group) :]
        shared = group[0]
        while any(not name.startswith(shared) for name in group):
            shared = shared[:-1]
        branches.append(
            re.escape(shared) + (_tree([name[len(shared) :] for name in group]) if len(group) > 1 else b"")
        )
    optional = b"?" if b"" in names else b""
    return b"(?:" + b"|".join(branches) + b")" + optional


def refuse_unless_exposition(body: bytes) -> None:
    """Raise RefusedPageError with the reason where `body` is not an exposition page."""
    head = body[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head and not body.strip():
        reason: RefusalReason = "empty"
        detail = f"the page is empty ({len(body)} bytes), expected metrics as Prometheus text"
    elif head[:1] == b"<":
        reason, detail = "html", f"read a web page ({_shown(head)!r}), expected metrics as Prometheus text"
    elif head[:1] not in (b"[", b'"') and passes.first(_ANY_LINE, b"\n" + body):
        return
    elif head[:1] in (b"{", b"[", b'"'):
        hint = "; TensorRT-LLM has it at /prometheus/metrics" if head[:1] == b"[" else ""
        reason, detail = "json", f"read JSON ({_shown(head)!r}), expected metrics as Prometheus text{hint}"
    else:
        reason, detail = "not_metrics", f"read {_shown(head)!r}, expected metrics as Prometheus text"
    raise RefusedPageError(reason, detail)


def _shown(value: bytes) -> str:
    return value[:SHOWN_CHARACTERS].decode("utf-8", "replace")
