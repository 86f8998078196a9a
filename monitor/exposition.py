"""Reads the wanted samples of an exposition page, and only those.

A page of a serving engine has hundreds of samples of which some twenty matter. The first look at a
target finds them with one compiled pattern and remembers where each stands (`Layout`). The next look
walks along that memory: it jumps from one remembered line to the next and reads nothing but numbers.
The walk is believed only where the page has kept its shape; otherwise the whole page is searched anew.

Formats: Prometheus text 0.0.4 and 1.0.0 and OpenMetrics 1.0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from monitor.scrapes import FailureReason

SHOWN_CHARACTERS = 80

_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(
    rb'[ \t]*(?:([a-zA-Z_][a-zA-Z0-9_]*)|"((?:[^"\\]|\\.)+)")[ \t]*'
    rb'(?:=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*)?(,|\})',
    re.DOTALL,
)
_EMPTY_LABELS = re.compile(rb"[ \t]*\}")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ANY_LINE = re.compile(rb'\n(?:#[ \t]*(?:HELP|TYPE|EOF|UNIT)\b|[a-zA-Z_:][^ \t{\n]*(?:\{[^\n]*\})?[ \t]+[-+0-9.NI]|\{[ \t]*"[^"\n]*"[ \t]*[,}])')
_INDENT = re.compile(rb"\n[ \t]+")


class RefusedPageError(Exception):
    """The body is not an exposition page; `reason` for machines, `detail` says what was read instead."""

    def __init__(self, reason: FailureReason, detail: str) -> None:
        super().__init__(detail)
        self.reason: FailureReason = reason
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
    """A wanted line that could not be read: its number (from 1), its beginning and what was expected."""

    line_number: int
    line: str
    expected: str


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Which wanted series a page has, in order, and what stands before each value."""

    series: tuple[Series, ...]
    prefixes: tuple[bytes, ...] = ()
    adjacent: tuple[bool, ...] = ()
    followers: tuple[int, ...] = ()
    newlines: int = -1


@dataclass(frozen=True, slots=True)
class Page:
    """The wanted samples of one page: `values[i]` belongs to `layout.series[i]`."""

    layout: Layout
    values: Sequence[float]
    problems: tuple[Problem, ...] = ()

    def samples(self) -> Iterable[tuple[Series, float]]:
        """Return (series, value) pairs in the order of the page."""
        return zip(self.layout.series, self.values, strict=True)


def read(body: bytes, wanted: frozenset[str], layout: Layout | None = None) -> Page:
    """Return the samples of `body` whose names are `wanted`.

    `layout` is that of the last page of the same target; with it a page of the same shape is read about
    four times faster. Raises RefusedPageError where the body is no exposition page at all.
    """
    if layout is not None and layout.newlines >= 0:
        values = _walk(body, layout)
        if values is not None:
            return Page(layout, values)
    return _search(body, wanted)


def _walk(body: bytes, layout: Layout) -> list[float] | None:
    """Return the values at the remembered places, None where the page has another shape."""
    if body.count(b"\n") != layout.newlines:
        return None
    find = body.find
    values = []
    position = 0
    try:
        for prefix, adjacent, follower in zip(layout.prefixes, layout.adjacent, layout.followers, strict=True):
            start = find(prefix, position)
            if start < 0 or (start == position) is not adjacent:
                return None
            start += len(prefix)
            position = find(b"\n", start)
            if position < 0 or body[position + 1] != follower:
                return None
            values.append(float(body[start:position]))
    except (ValueError, IndexError):
        return None
    return values


def _search(body: bytes, wanted: frozenset[str]) -> Page:
    text = b"\n" + body
    if b"\n " in text or b"\n\t" in text:
        text = _INDENT.sub(b"\n", text)
    series: list[Series] = []
    values: list[float] = []
    problems: list[Problem] = []
    places: list[tuple[int, int, bytes]] = []
    for match in _pattern(wanted).finditer(text):
        line = match.group(0)[1:]
        try:
            name, labels, after = _identity(line)
            if name not in wanted:
                continue
            value = _number(line[after:])
        except ValueError as error:
            if line[:1] == b"{":
                continue
            number = text.count(b"\n", 0, match.start() + 1)
            problems.append(Problem(number, _shown(line), str(error)))
            continue
        series.append(Series(name, labels))
        values.append(value)
        places.append((match.start(), match.end(), b"\n" + line[:after]))
    if not series:
        refuse_unless_exposition(body)
    return Page(_layout(text, body, series, places, exact=not problems), values, tuple(problems))


def _layout(text: bytes, body: bytes, series: list[Series], places: list[tuple[int, int, bytes]], *, exact: bool) -> Layout:
    """Return the memory of where the samples stand; one that cannot be walked where a line was odd."""
    walkable = exact and bool(places) and places[0][0] > 0 and len(text) == len(body) + 1
    if not walkable or any(end + 1 >= len(text) for _, end, _ in places):
        return Layout(tuple(series))
    ends = [0] + [end for _, end, _ in places]
    return Layout(
        series=tuple(series),
        prefixes=tuple(prefix for _, _, prefix in places),
        adjacent=tuple(start == end for (start, _, _), end in zip(places, ends, strict=False)),
        followers=tuple(text[end + 1] for _, end, _ in places),
        newlines=body.count(b"\n"),
    )


def unreadable(body: bytes) -> tuple[Problem, ...]:
    """Return every line of the page, wanted or not, that is neither a sample nor a comment. Slow: for people."""
    problems = []
    for number, raw in enumerate(body.split(b"\n"), 1):
        line = raw.strip()
        if not line or line.startswith(b"#"):
            continue
        try:
            _number(line[_identity(line)[2] :])
        except ValueError as error:
            problems.append(Problem(number, _shown(line), str(error)))
    return tuple(problems)


def _identity(line: bytes) -> tuple[str, tuple[tuple[str, str], ...], int]:
    """Return name, labels and the offset of what follows them; ValueError says what was expected."""
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
    fields = rest.split(b"#", 1)[0].split()
    if not fields or len(fields) > 2:  # noqa: PLR2004 - value and time stamp
        msg = "expected a value, then at most a time stamp"
        raise ValueError(msg)
    for field in fields:
        try:
            float(field)
        except ValueError:
            msg = f"expected a number, read {_shown(field)!r}"
            raise ValueError(msg) from None
    return float(fields[0])


@lru_cache(maxsize=4096)
def _unescape(value: bytes) -> str:
    text = value.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: {"n": "\n", '"': '"', "\\": "\\"}.get(match.group(1), match.group(0)), text)


@lru_cache(maxsize=256)
def _pattern(wanted: frozenset[str]) -> re.Pattern[bytes]:
    """Return a pattern for lines of the wanted names; names become a tree, so that one pass is enough."""
    tree = _tree(sorted(name.encode() for name in wanted))
    return re.compile(rb"\n(?:" + tree + rb"(?=[ \t{])|\{)[^\n]*")


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
        branches.append(re.escape(shared) + (_tree([name[len(shared) :] for name in group]) if len(group) > 1 else b""))
    optional = b"?" if b"" in names else b""
    return b"(?:" + b"|".join(branches) + b")" + optional


def refuse_unless_exposition(body: bytes) -> None:
    """Raise RefusedPageError with the reason where `body` is not an exposition page."""
    head = body[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head and not body.strip():
        reason: FailureReason = "empty"
        detail = f"the page is empty ({len(body)} bytes), expected metrics as Prometheus text"
    elif head[:1] == b"<":
        reason, detail = "html", f"read a web page ({_shown(head)!r}), expected metrics as Prometheus text"
    elif head[:1] not in (b"[", b'"') and _ANY_LINE.search(b"\n" + body):
        return
    elif head[:1] in (b"{", b"[", b'"'):
        reason, detail = "json", f"read JSON ({_shown(head)!r}), expected metrics as Prometheus text"
    else:
        reason, detail = "not_metrics", f"read {_shown(head)!r}, expected metrics as Prometheus text"
    raise RefusedPageError(reason, detail)


def _shown(value: bytes) -> str:
    return value[:SHOWN_CHARACTERS].decode("utf-8", "replace")
