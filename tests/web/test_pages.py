"""The pages for people: what they say, that they are well formed, and that no name can break out of its place."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest

from monitor.web import app, glossary, intervals, links, tickets
from tests.web import made_fleet, reading
from tests.web.fleet_of_five import (
    COLLAPSE,
    COLLAPSED_ID,
    HOSTILE,
    MODEL,
    NOW,
    PASSED,
    STREAMS,
    Service,
)
from tests.web.serving import client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.web.reading import Page

RELEASE: Mapping[str, object] = {
    **COLLAPSE,
    "id": "5e1ea5e",
    "stream": None,
    "target": None,
    "replica": None,
    "scope": "fleet",
    "streams": [STREAMS[0].id],
    "kind": "regime_change",
    "severity": "info",
    "status": "closed",
    "closed_at": NOW - 3600,
    "change_point_at": NOW - 7200,
    "raised_at": NOW - 6600,
    "verdict": {
        "outcome": "worse",
        "confidence": 0.9987,
        "difference": -0.21,
        "low": -0.29,
        "high": -0.13,
        "positions": 4,
    },
    "facts": ["draft_model went from v1 to v2"],
}
REFERENCE: Mapping[str, object] = {
    "model_name": MODEL,
    "draft_model": "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B",
    "method": "eagle3",
    "num_speculative_tokens": 4,
    "engine": "vllm",
    "engine_version": "0.32.0",
    **dict.fromkeys(("release", "environment"), ""),
    "mal": 3.31,
    "conditional": [0.81, 0.77, 0.74, 0.7],
    "apart": 0.06,
    "drafts": 8.1e6,
    "began_at": NOW - 86400 * 9,
    "at": NOW - 900,
    "taught": 412,
    "donor": STREAMS[0].id,
    "standings": [
        {"stream": STREAMS[2].id, "at": NOW - 7200, "mal": 3.27},
        {"stream": STREAMS[0].id, "at": NOW - 900, "mal": 3.33},
    ],
}
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
    "/report?q=vllm&sort=mal&limit=1",
    f"/report/models/{quote(MODEL, safe='')}",
    f"/report/models/{quote(HOSTILE, safe='')}",
    "/report/events",
    "/report/events?kind=collapse&limit=1",
    "/targets",
    "/config",
    "/report/nowhere",
)


async def read(path: str, service: Service = SERVICE) -> Page:
    """Return a page of the service with hostile names, parsed."""
    return await reading.read(path, service)


@pytest.mark.parametrize("path", PATHS)
async def test_no_name_breaks_out(path: str) -> None:
    """No page has a script but ours, an inline style or a handler, whatever models, targets, events are called."""
    page = await read(path)
    assert not page.tags & {"style", "iframe", "object", "img"}
    assert page.scripts == ["/static/report.js"]
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
    """The report opens with the worst model in words, with counts, the cost and a dash where nothing is known."""
    page = await read("/report", Service())
    assert (
        f"1 of 4 replicas of {MODEL} (vllm-2:8000) has collapsed since 11:50 UTC (25 min ago): "
        "MAL 3.31 → 1.24; 90 % of the benefit is lost, each token takes 2.6× as long. "
        "Likely cause: traffic (the prompt length moved 7.1 times as far as in the week before). "
        "What to do: How well a draft predicts depends on what is asked." in page.text
    )
    assert "4 replicas: 1 collapsed, 1 warming, 1 ok, 1 idle" in page.text
    assert "odd one out: vllm-2:8000" in page.text
    assert "2.6× time per token" in page.text
    assert "90 % of benefit lost" in page.text
    assert "Simulated engines." in page.text
    titles = [value for name, value in page.attributes if name == "title"]
    assert "unknown: no tokens flow, so nothing can be measured" in titles
    assert "unknown: there is no good scrape" in titles


@pytest.mark.parametrize(
    ("query", "streams"),
    [
        ("q=qwen", 8),
        ("q=LLAMA-3.3 cluster=b", 24),
        ("model=Qwen/Qwen3-32B", 8),
        ("engine=sglang", 9),
        ("state=silent", 1),
        ("kind=collapse", 42),
        ("label=cluster=a", 51),
        (f"target={STREAMS[0].target}", 0),
        ("q=qwen&engine=vllm", 0),
    ],
)
async def test_filters(query: str, streams: int) -> None:
    """A filter is a link: the page and its JSON show the streams that it means, and no others."""
    service = made_fleet.service(100)
    async with client(service) as session, session.get(f"/report?format=json&limit=1000&{query}") as response:
        found = await response.json()
    assert (found["total"], len(found["streams"])) == (streams, streams)
    page = await read(f"/report?{query}", service)
    assert ("No stream is like that." in page.text) == (not streams)


async def test_orders() -> None:
    """Models come in the order that is asked for, the worst first without one."""
    service = made_fleet.service(100)
    named = await read("/report?sort=name", service)
    assert named.text.index("Qwen/Qwen3-32B") < named.text.index("40 replicas: 40 collapsed")
    sized = await read("/report?sort=size", service)
    assert sized.text.index("42 replicas:") < sized.text.index("40 replicas:")


async def test_model_page() -> None:
    """A model's page has the verdict, a picture of each replica on one scale, what runs, and its events."""
    service = Service(kept=(COLLAPSE, RELEASE, PASSED), learnt=(REFERENCE,))
    page = await read(f"/report/models/{quote(MODEL, safe='')}", service)
    assert "1 of 4 replicas of" in page.text
    assert "Mean acceptance length, each picture from 1 to 3.36" in page.text
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert "vllm-2:8000: collapsed, MAL 1.24, baseline 3.31" in labels
    assert "vllm 0.32.0, eagle3, yuhuili/EAGLE3-LLaMA3.3-Instruct-70B, k = 4" in page.text
    assert "/report/events/c0ffee1234" in page.links
    assert "odd one out" in page.text
    assert "worse than before (confidence 99.9%)" in page.text
    assert page.links.count("/report/events/5e1ea5e") == 4, "chart, what runs, verdicts, events"
    assert "−0.21 (−0.29 to −0.13)" in page.text
    assert "3.33 15 min ago, 3.27 2 h ago" in page.text


async def test_events_page() -> None:
    """The index of events filters and leads to older ones, and says it as a feed too."""
    page = await read("/report/events?kind=drop", Service())
    assert "vllm-2:8000closed" in page.text
    assert "collapse" not in page.text.split("Where")[1]
    assert "/report/events.atom?kind=drop" in page.links
    paged = await read("/report/events?limit=1", Service())
    assert "/report/events?page=2&limit=1" in paged.links


async def test_feed() -> None:
    """The feed is well-formed Atom with an entry for each event, whatever streams are called."""
    async with client(SERVICE) as session, session.get("/report/events.atom") as response:
        assert response.content_type == "application/atom+xml"
        root = ET.fromstring(await response.read())  # noqa: S314 - our own
    atom = "{http://www.w3.org/2005/Atom}"
    entries = root.findall(f"{atom}entry")
    assert entries[0].findtext(f"{atom}id") == "urn:specmon:event:c0ffee1234"
    assert len(entries) == 3
    assert entries[0].findtext(f"{atom}title") == "Collapse on vllm-2:8000 (open)"
    assert all(entry.findtext(f"{atom}updated") for entry in entries)


async def test_empty_service() -> None:
    """Before the first scrape the report says that there is nothing yet, and where to look."""
    page = await read("/report", Service(shown=(), kept=(), scraped=(), simulated=False))
    assert "No stream has been seen yet." in page.text
    assert "/targets" in page.links
    assert "Simulated engines." not in page.text
    assert "No target is configured." in (await read("/targets", Service(scraped=()))).text


async def test_stream_page() -> None:
    """A stream's page has its headline, each number's meaning, its positions, its charts with the events."""
    page = await read(f"/report/{quote(COLLAPSED_ID, safe='')}")
    assert (
        "Speculation has collapsed since 2026-05-01 11:50:00 UTC (25 min ago), MAL 3.31 → 1.24" in page.text
    )
    assert "1.24 (1.21 to 1.27)" in page.text
    assert glossary.GLOSSARY["baseline"] in page.text
    assert "3, before, 0.695 to 0.705: 0.700" in page.text
    assert "1 + 3,629 ÷ 15,120" in page.text
    for chart in ("mal", "tpot", "tokens", "coverage", "step", "positions"):
        assert page.ids.count(f"{chart}-t") == 1, chart
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
        "Conditional acceptance at position 0 (changed)0.810 0.807 to 0.8130.200 0.194 to 0.206−75 %",
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


async def test_event_page_can_be_pasted() -> None:
    """An event is a ticket in Markdown too, with its runbook, its levels and the command that replays it."""
    site = app.Options(
        runbook=lambda _: "https://books.example/SpecmonAcceptanceCollapsed.md",
        grafana_url="https://grafana.example/",
        external_url="https://ops.example/spec",
    )
    async with client(SERVICE, site) as session:
        async with session.get("/spec/report/events/c0ffee1234?format=markdown") as response:
            ticket = await response.text()
            assert response.content_type == "text/markdown"
        async with session.get("/spec/report/events/c0ffee1234?format=html") as response:
            page = await response.text()
    for words in (
        "- report: https://ops.example/spec/report/events/c0ffee1234",
        "- runbook: https://books.example/SpecmonAcceptanceCollapsed.md",
        "| mean acceptance length | 3.31 (3.28 to 3.35) | 1.24 (1.21 to 1.27) |",
        "| conditional acceptance at position 0 | 0.810 (0.807 to 0.813) | 0.200 (0.194 to 0.206) |",
        "--start 2026-05-01T09:50:00Z --end 2026-05-01T12:15:00Z",
    ):
        assert words in ticket
    assert 'href="https://books.example/SpecmonAcceptanceCollapsed.md"' in page
    assert "https://grafana.example/d/specmon-stream?var-target=vllm-2%3A8000&amp;var-model_name=" in page


def test_a_ticket_holds_no_markup_of_names() -> None:
    """What a model or a target is called stays a name in a ticket."""
    text = tickets.markdown(HOSTILE_EVENT, links.Links(), NOW)
    assert "<script>" not in text
    assert r"\<script\>" in text
    assert all(char.isprintable() or char == "\n" for char in text)


@pytest.mark.parametrize(
    ("value", "trials", "expected"),
    [
        (0.5, 100.0, (0.404, 0.596)),
        (0.0, 20.0, (0.0, 0.161)),
        (1.0, 20.0, (0.839, 1.0)),
        (0.5, None, (None, None)),
        (None, 100.0, (None, None)),
    ],
)
def test_wilson_intervals(
    value: float | None, trials: float | None, expected: tuple[float | None, float | None]
) -> None:
    """The interval of a share is Wilson's (values from the literature), and unknown where its trials are."""
    share = intervals.of(value, trials)
    assert (share.low, share.high) == pytest.approx(expected, abs=6e-4)
