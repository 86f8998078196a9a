"""Names that come from engines' pages harm nothing: not pages, feed, API, ticket, metrics, text or terminal."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest
from prometheus_client.parser import text_string_to_metric_families

from monitor.metrics import textformat
from monitor.web import links, terminal, tickets
from tests.web import reading, two_replicas
from tests.web.serving import client

if TYPE_CHECKING:
    from monitor.service import snapshot

NAMES = {
    "html": "</title><script>alert(1)</script><img src=x onerror=alert(1)>",
    "quotes": "a\"b'c\\d`e${f}{{g}}|h*i_j[k](l)#m",
    "right_to_left": "\u202egnp.exe\u2066 \u05d0\u05d1\u0627\u0644",
    "control": "a\x1b[31m\x07\rb\nc\td\x00e\x85f",
    "path": "../../etc/passwd?x=1#y%2F..%00;&z",
    "long": "\u754c<" * 2500,
}
UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
LARGEST_PAGE = 100_000


@cache
def view() -> snapshot.Snapshot:
    """A service of a model of each name, each of which collapsed."""
    return two_replicas.looked_at([(name, 25.0) for name in NAMES.values()])


def ids() -> dict[str, tuple[str, str, str]]:
    """The stream, model and open event of each name."""
    streams = {stream.target: stream for stream in view().streams()}
    found = {}
    for number, name in enumerate(NAMES):
        stream = streams[f"t{number}"]
        assert stream.open_event is not None, name
        found[name] = (stream.id, stream.model_name, str(stream.open_event["id"]))
    return found


@pytest.mark.parametrize("name", NAMES)
async def test_pages_of_a_name(name: str) -> None:
    """Each page about it can be reached by its links, is well formed, small, and has no script but ours."""
    stream, model, event = (quote(each, safe="") for each in ids()[name])
    for path in (f"/report/{stream}", f"/report/models/{model}", f"/report/events/{event}"):
        page = await reading.read(path, view())
        assert page.scripts == ["/static/report.js"]
        assert not page.tags & {"img", "iframe", "object"}
        assert not [key for key, _ in page.attributes if key == "style" or key.startswith("on")]
        assert all(link.startswith(("/", "#")) and not link.startswith("//") for link in page.links)
        assert not UNSEEN.search(page.text)
        assert len(page.text) < LARGEST_PAGE


async def test_lists_of_all_names() -> None:
    """The report, its events and what-if name all of them and stay small; every link of the report is good."""
    for path in ("/report", "/report/events", "/targets", "/report/what-if"):
        page = await reading.read(path, view())
        assert page.scripts == ["/static/report.js"]
        assert not UNSEEN.search(page.text)
        assert len(page.text) < LARGEST_PAGE
    report = await reading.read("/report", view())
    async with client(view()) as session:  # type: ignore[arg-type]
        for link in {each for each in report.links if "/report/" in each}:
            async with session.get(link) as answer:
                assert answer.status == 200, link


async def test_programs_get_the_names_as_data() -> None:
    """JSON has each name letter by letter, cut only where it is too long; the feed is XML; text has one line."""
    async with client(view()) as session:  # type: ignore[arg-type]
        async with session.get("/api/v1/models") as answer:
            models = [each["model_name"] for each in json.loads(await answer.text())["models"]]
        for name, wanted in NAMES.items():
            assert (wanted in models) == (name != "long"), name
        assert max(map(len, models)) < 300
        async with session.get("/report/events.atom") as answer:
            entries = ET.fromstring(await answer.text()).findall("{http://www.w3.org/2005/Atom}entry")  # noqa: S314
        assert len(entries) == len(NAMES)
        async with session.get("/report?format=text") as answer:
            text = await answer.text()
    assert all(char.isprintable() for char in text.replace("\n", ""))


def test_metrics_read_back_as_they_were() -> None:
    """A Prometheus reads each name back from the labels."""
    page = textformat.render(view().families()).decode()
    found = {
        sample.labels["model_name"]
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "specmon_target_info"
    }
    models = {model for _, model, _ in ids().values()}
    assert models <= found


@pytest.mark.parametrize("name", NAMES)
def test_a_ticket_and_a_terminal_show_plain_text(name: str) -> None:
    """A ticket has no HTML and no Markdown of the name, a terminal no control sequence."""
    event = view().event(ids()[name][2])
    assert event is not None
    ticket = tickets.markdown(event, links.Links(), view().now)
    assert not UNSEEN.search(ticket.replace("\n", ""))
    assert "<script" not in ticket.replace("\\<", "")
    assert "](" not in ticket.replace("\\]", "").replace("\\[", "")
    row = {"model_name": NAMES[name], "state": "collapsed", "counts": {"collapsed": 1}}
    lines = terminal.screen({"at": 5.0, "verdicts": [NAMES[name]]}, {"models": [row]}, 80, 24)
    assert all(line.isprintable() and len(line) <= 80 for line in lines)
