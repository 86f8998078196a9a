"""The pages for people: what they say, that they are well formed, and that no name can break out of its place."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from monitor.web import app, glossary
from tests.web.fleet_of_five import COLLAPSE, COLLAPSED_ID, HOSTILE, STREAMS, Service
from tests.web.serving import client

if TYPE_CHECKING:
    from collections.abc import Mapping

VOID = {"meta", "link", "br", "hr"}
HOSTILE_EVENT: Mapping[str, object] = {
    **COLLAPSE,
    "id": HOSTILE,
    "stream": STREAMS[4].id,
    "target": HOSTILE,
    "kind": HOSTILE,
    "severity": f'"{HOSTILE}',
    "facts": [HOSTILE],
    "causes": [{"cause": HOSTILE, "weight": 1, "evidence": HOSTILE}],
}
FLEET_EVENT: Mapping[str, object] = {
    **COLLAPSE,
    "id": "fleet1",
    "scope": "fleet",
    "stream": None,
    "target": None,
    "replica": None,
    "streams": [STREAMS[0].id, STREAMS[1].id],
}
SERVICE = Service(kept=(COLLAPSE, HOSTILE_EVENT, FLEET_EVENT))
PATHS = (
    "/",
    "/report",
    "/report?refresh=30",
    *(f"/report/{quote(stream.id, safe='')}" for stream in STREAMS),
    *(f"/report/events/{quote(str(event['id']), safe='')}" for event in SERVICE.kept),
    "/targets",
    "/config",
    "/report/nowhere",
)


class Page(HTMLParser):
    """Collects what a page is made of, and complains about elements that are closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element of SVG that closes itself."""
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


async def read(path: str, service: Service = SERVICE) -> Page:
    """Return a page as a browser asks for it, parsed."""
    page = Page()
    async with client(service) as session, session.get(path, headers={"Accept": "text/html"}) as response:
        assert response.content_type == "text/html"
        page.feed(await response.text())
    assert page.open == []
    return page


@pytest.mark.parametrize("path", PATHS)
async def test_no_name_breaks_out(path: str) -> None:
    """No page has a script, an inline style or a handler, whatever models, targets and events are called."""
    page = await read(path)
    assert not page.tags & {"script", "style", "iframe", "object", "form", "img"}
    assert not [name for name, _ in page.attributes if name == "style" or name.startswith("on")]
    assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in page.links)
    assert len(page.ids) == len(set(page.ids))
    assert "\x00" not in page.text


@pytest.mark.parametrize("path", PATHS)
async def test_links_lead_somewhere(path: str) -> None:
    """Every link of every page is answered."""
    page = await read(path)
    async with client(SERVICE) as session:
        for link in sorted({link for link in page.links if link.startswith("/")}):
            async with session.get(link) as response:
                assert response.status == 200, link


async def test_fleet_page() -> None:
    """The report opens with the worst, in words, with counts, the cost and a dash where nothing is known."""
    page = await read("/report")
    assert "1 of 5 streams has lost its speculation benefit: vllm-2:8000" in page.text
    assert "MAL 3.31 → 1.24, for 25 min" in page.text
    assert "2.6× time per token" in page.text
    assert "90 % of benefit lost" in page.text
    assert "Simulated engines." in page.text
    titles = [value for name, value in page.attributes if name == "title"]
    assert "unknown: no tokens flow, so nothing can be measured" in titles
    assert "unknown: there is no good scrape" in titles


async def test_fleet_page_shows_the_worst_of_many() -> None:
    """A fleet of a thousand streams gives a page of the worst hundred that says so."""
    many = [replace(STREAMS[0], id=f"s{number}", target=f"t{number}") for number in range(999)]
    page = await read("/report", Service(shown=[*many, STREAMS[1]]))
    assert "The worst 100 of 1,000 streams" in page.text
    assert "1 of 1,000 streams has lost" in page.text
    assert page.text.index("vllm-2:8000") < page.text.index("t0")


async def test_empty_service() -> None:
    """Before the first scrape the report says that there is nothing yet, and where to look."""
    page = await read("/report", Service(shown=(), kept=(), scraped=(), simulated=False))
    assert "No stream has been seen yet." in page.text
    assert "/targets" in page.links
    assert "Simulated engines." not in page.text
    assert "No target is configured." in (await read("/targets", Service(scraped=()))).text


async def test_stream_page() -> None:
    """A stream's page has its headline, the meaning of each number, its positions and two charts with events."""
    page = await read(f"/report/{quote(COLLAPSED_ID, safe='')}")
    assert (
        "Speculation has collapsed since 2026-05-01 11:50:00 UTC (25 min ago), MAL 3.31 → 1.24" in page.text
    )
    assert "1.24 (1.21 to 1.27)" in page.text
    assert glossary.GLOSSARY["baseline"] in page.text
    assert "position 3: 0.100, baseline 0.700" in [
        value for name, value in page.attributes if name == "aria-label"
    ]
    assert page.ids.count("mal-t") == page.ids.count("tpot-t") == 1
    assert "/report/events/c0ffee1234" in page.links


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (0, "Speculation does as well as its baseline: a draft yields 3.30 tokens."),
        (2, "Idle since 2026-05-01 10:45:00 UTC (1 h 30 min ago): no tokens flow."),
        (3, "Warming since 2026-05-01 12:14:00 UTC (1 min ago): too little evidence for a baseline."),
        (4, 'Stale: connection refused by "evil:1" & co.'),
    ],
)
async def test_stream_headlines(number: int, sentence: str) -> None:
    """Every state has a sentence of its own; a value that is not known is never called 0."""
    page = await read(f"/report/{quote(STREAMS[number].id, safe='')}")
    assert sentence in page.text


async def test_event_page() -> None:
    """An event's page says what, when with its interval, how much, what else changed, why and what to do."""
    page = await read("/report/events/c0ffee1234")
    for words in (
        "Collapse on vllm-2:8000 since 2026-05-01 11:50:00 UTC (25 min ago), MAL 3.31 → 1.24",
        "between 2026-05-01 11:49:30 UTC and 2026-05-01 11:50:15 UTC",
        "Conditional acceptance at position 0 (changed)0.8100.200−75 %",
        "the mean prompt length rose from 412 to 2,930 tokens",
        "traffic70 %the prompt length moved 7.1 times as far as in the week before",
        "switch speculation off for this replica",
        "How well a draft predicts depends on what is asked.",
    ):
        assert words in page.text
    assert "unknown: it is still open" in [value for name, value in page.attributes if name == "title"]


async def test_fleet_event_page() -> None:
    """An event of a fleet names its streams and links to each."""
    page = await read("/report/events/fleet1")
    assert "Collapse on 2 streams" in page.text
    assert f"/report/{quote(STREAMS[0].id, safe='')}" in page.links


async def test_accepted_over_drafted_is_never_called_alpha() -> None:
    """The one page that names α says that it is a model value."""
    page = await read(f"/report/{quote(COLLAPSED_ID, safe='')}")
    assert "A model value, not a count" in page.text
    assert "acceptance rate" not in page.text.lower()


async def test_text_report_has_no_control_characters() -> None:
    """The report for terminals cannot be made to send escape sequences by a model's name."""
    async with client(SERVICE) as session:
        for path in (
            "/report",
            f"/report/{quote(STREAMS[4].id, safe='')}",
            f"/report/events/{quote(HOSTILE, safe='')}",
        ):
            async with session.get(path, params={"format": "text"}) as response:
                text = await response.text()
                assert "<script>" in text
                assert all(char.isprintable() or char == "\n" for char in text)
                assert "SIMULATED" in text


def test_policy_allows_no_inline_code() -> None:
    """The policy names no source but our own, and no exception for inline styles or scripts."""
    policy = app.HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; style-src 'self';")
