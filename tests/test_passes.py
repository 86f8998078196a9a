"""A page is searched in pieces, and nobody waits for one that is long: not the loop, not who asks for metrics."""

from __future__ import annotations

import asyncio
import re
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.pages import engines, exposition, looks, passes
from monitor.store import Store
from tests import made, test_service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.pages.looks import Look, Memory

LINES = st.lists(st.sampled_from([b"", b"a 1", b"ab 22", b"# c", b"abc{x} 3"]), max_size=60)
PATTERN = re.compile(rb"\na[^\n]*")


@given(LINES, st.integers(10, 40))
def test_pieces_find_what_one_search_finds(lines: list[bytes], size: int) -> None:
    """Wherever the pieces end, no line is lost, doubled or cut."""
    text = b"\n" + b"\n".join(lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "PIECE_BYTES", size)
        spans = [match.span() for match in passes.matches(PATTERN, text)]
    assert spans == [match.span() for match in PATTERN.finditer(text)]


@pytest.mark.parametrize(
    "text",
    [b"\n" * 5_000_000, b"\n" + b"a" * 999 + b"\n" * 5_000_000, b"\na 1" * 1_000_000, b"a" * 5_000_000],
)
def test_no_piece_is_long(text: bytes) -> None:
    """No call searches more than a piece, or one long line: other threads wait for as long as a call takes."""
    seen: list[tuple[int, int]] = []

    class Recording:
        """A pattern that notes where it was asked to search."""

        def finditer(self, _: bytes, start: int, end: int) -> list[re.Match[bytes]]:
            seen.append((start, end))
            return []

    assert list(passes.matches(Recording(), text)) == []  # type: ignore[arg-type]
    longest = passes.PIECE_BYTES if b"\n" in text else passes.LINE_BYTES
    assert max(end - start for start, end in seen) <= longest
    assert all(text[start : start + 1] == b"\n" for start, _ in seen[1:])


@pytest.mark.parametrize("length", [0.6, 0.9])
def test_a_long_line_at_the_end_of_a_piece_is_read(length: float) -> None:
    """Lines are whole wherever pieces end."""
    names = [letter * int(passes.PIECE_BYTES * length) for letter in "abc"]
    lines = [b'vllm:num_requests_running{model_name="%s"} 3\n' % name.encode() for name in names]
    body = made.steady(1) + b"".join(lines)
    schema = engines.recognise(body)
    assert schema is not None
    page = exposition.read(body, schema.wanted)
    assert page.problems == ()
    assert [dict(series.labels)["model_name"] for series in page.layout.series[-3:]] == names


@pytest.mark.parametrize("length", [1.0, 1.9, 2.0, 5.0])
def test_a_line_longer_than_any_is_refused_as_before(length: float) -> None:
    """What stands in such a line is read by nobody; the lines around it are."""
    label = b"a" * int(passes.PIECE_BYTES * length)
    long = b'vllm:spec_decode_num_drafts_total{model_name="' + label + b'"} 1\n'
    body = made.steady(1) + long + b'vllm:num_requests_running{model_name="m"} 3\n'
    schema = engines.recognise(body)
    assert schema is not None
    page = exposition.read(body, schema.wanted)
    assert [problem.located for problem in page.problems] == [False]
    assert page.layout.series[-1].name == "vllm:num_requests_running"


def test_a_page_of_nothing_but_lines_is_refused_at_once() -> None:
    """Half a million lines are no page of an engine, empty ones included, and nobody searches them."""
    look = looks.read(looks.Memory(), made.steady(1) + b"\n" * (passes.MOST_LINES + 1_000_000), {})
    assert look.failure is not None
    assert look.failure.reason == "too_large"


async def test_metrics_do_not_wait_for_a_page_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a page takes its time, health, metrics and the other pages of the service are answered."""
    engine, kept = test_service.Engine(), Store()
    reading, go_on = threading.Event(), threading.Event()
    genuine = looks.read

    def slow(memory: Memory, body: bytes, beside: Mapping[str, bytes], engine: str = "") -> Look:
        reading.set()
        assert go_on.wait(test_service.PATIENCE)
        return genuine(memory, body, beside, engine)

    async with test_service.listening(engine) as url, test_service.running(url, kept) as one:
        await test_service.until(lambda: test_service.drafts(one) > 0)
        monkeypatch.setattr(looks, "read", slow)
        try:
            await test_service.until(reading.is_set)
            shown = asyncio.to_thread(lambda: [family.name for family in one.snapshot().families()])
            assert "specmon_drafts" in await asyncio.wait_for(shown, test_service.PATIENCE)
        finally:
            go_on.set()
    kept.close()
