"""The HTTP surface over a real server: formats, refusals, headers, prefixes."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from prometheus_client import parser

from monitor.metrics import textformat
from monitor.web import app
from monitor.web.app import Options
from tests.web.fleet_of_five import COLLAPSED_AT, COLLAPSED_ID, NOW, STREAMS, Service
from tests.web.serving import client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.view import StreamView
    from tests.web.serving import Client

STREAM = quote(COLLAPSED_ID, safe="")
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
PROMETHEUS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
}
PATHS = (
    "/",
    "/metrics",
    "/report",
    f"/report/{STREAM}",
    "/report/events/c0ffee1234",
    "/targets",
    "/config",
    "/api/v1/streams",
    f"/api/v1/streams/{STREAM}",
    "/api/v1/events",
    "/api/v1/events/c0ffee1234",
    f"/api/v1/history/{STREAM}",
    "/-/healthy",
    "/-/ready",
    "/static/report.css",
    "/static/icon.svg",
)


async def text_of(session: Client, path: str, **headers: str) -> str:
    """Return the body of a page that must be there."""
    async with session.get(path, headers=headers) as response:
        assert response.status == 200, await response.text()
        return await response.text()


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_answers_with_security_headers(path: str) -> None:
    """Each path gives 200 with the strict policy, and HEAD gives the same headers without a body."""
    plain = {"Accept-Encoding": "identity"}
    async with (
        client() as session,
        session.get(path, headers=plain) as response,
        session.head(path, headers=plain) as head,
    ):
        assert (response.status, head.status) == (200, 200)
        body, none = await response.read(), await head.read()
        assert body
        assert none == b""
        for each in (response, head):
            assert {name: each.headers[name] for name in app.HEADERS} == app.HEADERS
        assert head.headers["Content-Type"] == response.headers["Content-Type"]
        # The page of metrics says how much the process has done, and that changes between two requests.
        assert path == "/metrics" or head.headers["Content-Length"] == str(len(body))


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param("*/*", textformat.TEXT_CONTENT_TYPE, id="curl"),
        pytest.param("text/plain", textformat.TEXT_CONTENT_TYPE, id="text"),
        pytest.param(
            PROMETHEUS["Accept"], textformat.OPENMETRICS_CONTENT_TYPE, id="prometheus-likes-openmetrics"
        ),
        pytest.param(
            "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5",
            textformat.TEXT_CONTENT_TYPE,
            id="prefers-text",
        ),
        pytest.param(
            "application/openmetrics-text;q=0,*/*", textformat.TEXT_CONTENT_TYPE, id="refuses-openmetrics"
        ),
    ],
)
async def test_metrics_format(accept: str, content_type: str) -> None:
    """The format of /metrics follows the Accept header with its qualities."""
    async with client() as session, session.get("/metrics", headers={"Accept": accept}) as response:
        assert response.headers["Content-Type"] == content_type
        assert (await response.read()).endswith(b"# EOF\n") == ("openmetrics" in content_type)


async def test_metrics_hold_the_build_the_service_and_the_process() -> None:
    """The page has our build, the families of the view and the process's own, and parses."""
    async with client() as session:
        page = await text_of(session, "/metrics")
    names = {family.name for family in parser.text_string_to_metric_families(page)}
    assert {
        "specmon_build_info",
        "specmon_target_up",
        "specmon_drafts",
        "process_resident_memory_bytes",
    } <= names
    assert 'specmon_build_info{version="0.1.0",revision="abc1234",python_version="' in page


async def test_metrics_of_one_target() -> None:
    """`?target=` narrows the page to that target and leaves the process out, so that sums stay right."""
    async with client() as session:
        page = await text_of(session, "/metrics?target=vllm-2:8000")
    targets = {
        sample.labels.get("target")
        for family in parser.text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert targets == {"vllm-2:8000"}


@pytest.mark.parametrize(
    ("encoding", "packed"), [("gzip, deflate", True), ("gzip;q=0", False), ("identity", False), ("", False)]
)
async def test_gzip(encoding: str, packed: bool) -> None:  # noqa: FBT001 - a column of the table
    """A page is packed exactly if the client says that it takes gzip."""
    headers = {"Accept-Encoding": encoding}
    async with (
        client() as session,
        ClientSession(auto_decompress=False) as plain,
        plain.get(session.make_url("/report?format=text"), headers=headers) as response,
    ):
        body = await response.read()
        assert (response.headers.get("Content-Encoding") == "gzip") is packed
        assert response.headers["Vary"] == "Accept, Accept-Encoding"
    assert (gzip.decompress(body) if packed else body).startswith(b"specmon 0.1.0")


@pytest.mark.parametrize("path", ["/report", f"/report/{STREAM}", "/report/events/c0ffee1234"])
@pytest.mark.parametrize(
    ("query", "accept", "content_type"),
    [
        pytest.param("", BROWSER["Accept"], "text/html", id="browser"),
        pytest.param("", "*/*", "text/html", id="anything"),
        pytest.param("", "application/json", "application/json", id="accept-json"),
        pytest.param("", "text/plain", "text/plain", id="accept-text"),
        pytest.param("?format=json", BROWSER["Accept"], "application/json", id="format-beats-accept"),
        pytest.param("?format=text", "*/*", "text/plain", id="format-text"),
        pytest.param("?format=html", "application/json", "text/html", id="format-html"),
    ],
)
async def test_report_formats(path: str, query: str, accept: str, content_type: str) -> None:
    """Every report page is HTML, JSON or text, by ?format= or by Accept."""
    async with client() as session, session.get(path + query, headers={"Accept": accept}) as response:
        assert response.status == 200
        assert response.content_type == content_type


async def test_report_as_json() -> None:
    """The JSON report says what the page says: headline, counts, streams worst first with null for unknown."""
    async with client() as session:
        report = json.loads(await text_of(session, "/report?format=json"))
    assert report["headline"].startswith("1 of 5 streams has lost its speculation benefit: vllm-2:8000 (")
    assert report["counts"] == {"collapsed": 1, "stale": 1, "warming": 1, "ok": 1, "idle": 1}
    assert [stream["state"] for stream in report["streams"]] == [
        "collapsed",
        "stale",
        "warming",
        "ok",
        "idle",
    ]
    assert report["streams"][0]["id"] == COLLAPSED_ID
    assert report["streams"][4]["estimate"] == {"drafts": 0, "mal": None}
    assert report["events"][0]["id"] == "c0ffee1234"


async def test_streams_can_be_filtered() -> None:
    """Filters of the API narrow the list, and combine."""
    async with client() as session:
        ok = json.loads(await text_of(session, "/api/v1/streams?state=ok"))
        none = json.loads(await text_of(session, "/api/v1/streams?state=ok&target=vllm-2:8000"))
    assert [stream["target"] for stream in ok["streams"]] == ["vllm-1:8000"]
    assert none["streams"] == []


async def test_stream_ids_may_hold_slashes_escaped_or_not() -> None:
    """A stream is found under its id whether a proxy has unescaped the slashes or not."""
    async with client() as session:
        for path in (STREAM, quote(COLLAPSED_ID)):
            stream = json.loads(await text_of(session, f"/api/v1/streams/{path}"))
            assert stream["id"] == COLLAPSED_ID
            assert stream["links"]["report"] == f"/report/{STREAM}"


async def test_events_can_be_filtered() -> None:
    """Events are filtered by status, kind, time and number."""
    since = COLLAPSED_AT - 60
    async with client() as session:
        for query, expected in {
            "": ["c0ffee1234", "ab12"],
            "?status=closed": ["ab12"],
            "?kind=collapse": ["c0ffee1234"],
            f"?since={since}": ["c0ffee1234"],
            "?since=2026-05-01T11:00:00Z": ["c0ffee1234"],
            "?limit=1": ["c0ffee1234"],
            f"?stream={STREAM}": ["c0ffee1234", "ab12"],
        }.items():
            found = json.loads(await text_of(session, f"/api/v1/events{query}"))
            assert [event["id"] for event in found["events"]] == expected, query


async def test_history() -> None:
    """History has the buckets between two times, by default of the last six hours."""
    async with client() as session:
        short = json.loads(await text_of(session, f"/api/v1/history/{STREAM}?start={NOW - 180}&end={NOW}"))
        full = json.loads(await text_of(session, f"/api/v1/history/{STREAM}"))
    assert [bucket["at"] for bucket in short["buckets"]] == [NOW - 180, NOW - 120, NOW - 60]
    assert short["buckets"][0]["state"] == "collapsed"
    assert (full["start"], full["end"], len(full["buckets"])) == (NOW - 6 * 3600, NOW, 340)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (
            "/report?fromat=json",
            400,
            "parameter 'fromat' is not known here; expected format, refresh, q, model, engine, state, kind, label, target, sort, page, limit",
        ),
        ("/report?format=xml", 400, "parameter 'format' is 'xml'; expected one of html, json, text"),
        ("/report?limit=-1", 400, "parameter 'limit' is '-1'; expected a whole number from 1 to 1000"),
        ("/report?refresh=0", 400, "parameter 'refresh' is '0'; expected a whole number from 1 to 3600"),
        (
            f"/report/{STREAM}?range=2h",
            400,
            "parameter 'range' is '2h'; expected one of 15m, 1h, 6h, 24h, 7d, 30d",
        ),
        ("/report/nowhere", 404, "no stream 'nowhere'; /api/v1/streams lists them"),
        ("/report/events/no", 404, "no event 'no'; /api/v1/events lists those that are kept"),
        ("/metrics?target=no", 404, "no target 'no'; /targets lists them"),
        ("/metrics?name[]=up", 400, "parameter 'name[]' is not known here; expected target"),
        ("/targets?format=text", 400, "parameter 'format' is 'text'; expected one of html, json"),
        (
            "/api/v1/events?since=yesterday",
            400,
            "parameter 'since' is 'yesterday'; expected unix seconds or a time like 2026-05-01T12:00:00Z",
        ),
        ("/api/v1/events?status=shut", 400, "parameter 'status' is 'shut'; expected one of open, closed"),
        ("/api/v1/events?stream=no", 404, "no stream 'no'; /api/v1/streams lists them"),
        ("/api/v1/events?limit=99999999999999999999", 400, "expected a whole number from 1 to 1000"),
        (
            f"/api/v1/history/{STREAM}?start=20&end=10",
            400,
            "start is 20 and end is 10; expected a start before",
        ),
        (f"/api/v1/history/{STREAM}?start=nan", 400, "parameter 'start' is 'nan'; expected unix seconds"),
        ("/api/v1/nothing", 404, "there is no page /api/v1/nothing; / lists them"),
        ("/static/..%2Fapp.py", 404, "there is no page"),
    ],
)
async def test_refusals(path: str, status: int, message: str) -> None:
    """A request that cannot be answered says what was read and what was expected, as JSON if asked so."""
    async with client() as session:
        async with session.get(path, headers={"Accept": "application/json"}) as response:
            refused = await response.json()
            assert response.status == status
            assert refused["status"] == status
            assert message in refused["error"]
        async with session.get(path, headers=BROWSER) as page:
            assert page.status == status
            assert page.headers["Content-Security-Policy"]


async def test_wrong_method() -> None:
    """A method that a path does not have is refused with those that it has."""
    async with client() as session, session.post("/report") as response:
        assert response.status == 405
        assert response.headers["Allow"] == "GET, HEAD"


async def test_health_and_readiness() -> None:
    """Readiness follows the loops, health does not."""
    async with client(Service(well=False)) as session:
        async with session.get("/-/ready") as response:
            assert (response.status, await response.text()) == (503, "the scrape loop has not started\n")
        assert await text_of(session, "/-/healthy") == "specmon is alive\n"


async def test_reload_is_off_by_default() -> None:
    """Reloading over HTTP has to be enabled."""
    async with client() as session, session.post("/-/reload") as response:
        assert response.status == 403
        assert "web.enable_reload" in await response.text()


@pytest.mark.parametrize(
    ("failure", "status", "text"),
    [
        ("", 200, "reloaded\n"),
        ("targets.0: no URL", 500, "the old settings stay in force: targets.0: no URL"),
    ],
)
async def test_reload(failure: str, status: int, text: str) -> None:
    """A reload answers when it is done, and says why if the old settings stay."""

    async def reload() -> str:
        return failure

    async with client(options=Options(reload=reload)) as session:
        async with session.post("/-/reload") as response:
            assert response.status == status
            assert text in await response.text()
        async with session.get("/-/reload") as response:
            assert response.status == 405


@pytest.mark.parametrize(
    ("options", "prefix", "link", "outside"),
    [
        pytest.param(Options(route_prefix="/spec/"), "/spec", "/spec/report/", "/spec/report/", id="prefix"),
        pytest.param(
            Options(external_url="https://ops.example/spec/"),
            "/spec",
            "/spec/report/",
            "https://ops.example/spec/report/",
            id="external-url",
        ),
        pytest.param(
            Options(external_url="https://ops.example/spec", route_prefix="/"),
            "",
            "/spec/report/",
            "https://ops.example/spec/report/",
            id="proxy-strips-its-path",
        ),
    ],
)
async def test_behind_a_proxy(options: Options, prefix: str, link: str, outside: str) -> None:
    """Paths are served below the prefix, and links lead where people reach us."""
    async with client(options=options) as session:
        page = await text_of(session, f"{prefix}/report", **BROWSER)
        assert f'href="{link}{STREAM}"' in page
        streams = json.loads(await text_of(session, f"{prefix}/api/v1/streams"))
        assert streams["streams"][0]["links"]["report"] == outside + STREAM
        async with session.get("/", allow_redirects=False) as root:
            assert (root.status, root.headers.get("Location")) == (
                (302, f"{prefix}/") if prefix else (200, None)
            )


async def test_a_big_page_does_not_hold_the_loop() -> None:
    """While a page is being written, the process still says that it is alive."""
    many = Service(shown=STREAMS * 200)
    async with client(many) as session:
        big = session.get("/api/v1/streams?limit=1000")
        async with big as response:
            assert await text_of(session, "/-/healthy")
            assert len(json.loads(await response.text())["streams"]) == 1000


async def test_metrics_do_not_wait_behind_big_pages() -> None:
    """While people's pages keep the threads busy, a scrape and the readiness check are answered."""
    busy, go_on = threading.Semaphore(0), threading.Event()

    class Slow(Service):
        """A service whose streams take as long as the test wants."""

        def streams(self) -> Sequence[StreamView]:
            """All streams, in the end."""
            busy.release()
            go_on.wait(20)
            return self.shown

    async with client(Slow()) as session, asyncio.timeout(20):
        waiting = [asyncio.create_task(text_of(session, "/report")) for _ in range(4)]
        try:
            await asyncio.to_thread(busy.acquire)
            await asyncio.to_thread(busy.acquire)
            assert "specmon_" in await text_of(session, "/metrics")
            assert await text_of(session, "/-/ready")
            assert not any(task.done() for task in waiting)
        finally:
            go_on.set()
        await asyncio.gather(*waiting)
