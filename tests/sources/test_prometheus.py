"""Counters from a query API say what the pages themselves say; against real servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from aiohttp import web

from monitor import sources
from monitor.core import pipeline
from monitor.core.events import event_records
from monitor.core.streams import summaries
from monitor.service import service
from monitor.service.commands import replay
from monitor.sources import prometheus, promql, queries
from monitor.store import Store
from tests import captures
from tests.sources import scraped
from tests.test_commands import specmon

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

    from monitor.core.events import Event
    from monitor.core.pages.scrapes import Scrape
    from monitor.core.pipeline import Plan
    from monitor.core.streams import State
    from tests.alerts.servers import Server

RUN = "draftchange"
SERVERS = {"prometheus": scraped.prometheus, "victoria-metrics": scraped.victoria_metrics}


class Kept:
    """Keeps all events of a replay."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def step(self, plan: Plan, state: State, now: float, found: tuple[Event, ...]) -> None:
        """Keep the events of a step."""
        del plan, state, now
        self.events += [json.dumps(event_records.as_json(event)) for event in found]

    def end(self, plan: Plan, state: State) -> None:
        """Nothing is left to do."""


def said(batches: Iterable[list[Scrape]]) -> tuple[list[str], list[summaries.Record]]:
    """Return the events and the summaries of what the batches hold."""
    plan, kept = pipeline.Plan(), Kept()
    state = replay.replayed(plan, iter(batches), kept)
    return kept.events, [dict(record) for record in summaries.totals(plan, state)]


@pytest.fixture(scope="module")
def pages() -> list[Scrape]:
    """A recorded run on a grid of ten seconds that ends a minute ago."""
    return scraped.on_grid(captures.scrapes(captures.THINNED, RUN), time.time() - 60)


@pytest.fixture(scope="module", params=SERVERS)
def server(
    request: pytest.FixtureRequest, pages: list[Scrape], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A server that holds the run as it would have scraped it."""
    with SERVERS[request.param](tmp_path_factory.mktemp("server"), pages, scraped.POD) as running:
        yield running


def wanted(server: Server, **more: object) -> prometheus.Wanted:
    """Return what to ask of the server."""
    asked = prometheus.Wanted(
        queries.QueryServer(f"http://127.0.0.1:{server.port}"), interval=scraped.STEP, offset=0
    )
    return replace(asked, **more)  # type: ignore[arg-type]


async def read_on(
    asked: prometheus.Wanted, until: float, since: float = math.nan
) -> tuple[prometheus.GridReader, list[list[Scrape]]]:
    """Return what a reader of the live service delivers until it has caught up with `until`."""
    reader = prometheus.GridReader(asked, lambda: until)
    batches: list[list[Scrape]] = []
    task = asyncio.create_task(reader.run(batches.append, since))
    async with asyncio.timeout(60):
        while not reader._last >= reader._due():  # complete is true one interval earlier already
            assert not task.done(), task.exception()
            await asyncio.sleep(0.01)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return reader, batches


def test_a_replay_says_what_the_pages_say(server: Server, pages: list[Scrape]) -> None:
    """Events, counts, intervals and states are those of the pages at the same times, to the last digit."""
    queried = said(prometheus.replay(wanted(server), pages[0].at, pages[-1].at))
    assert queried == said([page] for page in pages)
    assert queried[1][0]["drafts"]


async def test_the_service_says_what_the_replay_says(server: Server, pages: list[Scrape]) -> None:
    """What a service catches up with is what a replay reads, whatever part of it had been read before."""
    start, end = pages[0].at, pages[-1].at
    replayed = await asyncio.to_thread(lambda: list(prometheus.replay(wanted(server), start, end)))
    _, whole = await read_on(wanted(server, lookback=end - start), end)
    half = start + len(pages) // 2 * scraped.STEP
    _, before = await read_on(wanted(server, lookback=half - start), half)
    _, after = await read_on(wanted(server), end, since=half)
    assert whole == [*before, *after] == replayed


async def test_the_look_back_is_bounded(server: Server, pages: list[Scrape]) -> None:
    """After a long absence only the last part is read; without any only the present."""
    end = pages[-1].at
    _, batches = await read_on(wanted(server, lookback=50.0), end, since=end - 5000.0)
    assert [batch[0].at for batch in batches] == [end - age for age in (50.0, 40.0, 30.0, 20.0, 10.0, 0.0)]
    _, batches = await read_on(wanted(server, lookback=0.0), end)
    assert [batch[0].at for batch in batches] == [end]


async def test_one_time_is_the_same_in_a_range(server: Server, pages: list[Scrape]) -> None:
    """The query of a step answers what the range query for the same time does."""
    at = pages[len(pages) // 2].at
    async with queries.Api(wanted(server).server) as api:
        instant = await api.instant(promql.query(), at)
        ranged = await api.over(promql.query(), at, at + scraped.STEP, scraped.STEP)
    values = {str(sorted(each.labels.items())): each.values.get(at) for each in ranged if at in each.values}
    assert values == {str(sorted(each.labels.items())): each.values[at] for each in instant}
    assert len(values) > 20


async def test_a_range_is_split(server: Server, pages: list[Scrape]) -> None:
    """A fine grid over the whole run takes several queries, and the counts stay the same."""
    start, end = pages[0].at, pages[-1].at
    reader, batches = await read_on(wanted(server, interval=1.0, lookback=end - start), end)
    (asked,) = (family for family in reader.families() if family.name == "specmon_prometheus_queries")
    assert np.asarray(asked.columns[0].values)[0] > 1
    assert len(batches) == round(end - start) + 1
    (fine,), (coarse,) = said(batches)[1], said([page] for page in pages)[1]
    assert [fine[key] for key in ("drafts", "accepted", "restarts")] == [
        coarse[key] for key in ("drafts", "accepted", "restarts")
    ]


async def test_a_selector_narrows(server: Server, pages: list[Scrape]) -> None:
    """A matcher that fits nothing leaves nothing to read, one that fits leaves all."""
    end = pages[-1].at
    for selector, names in (('job="other"', set()), ('{job=~"llm/.*"}', {scraped.TARGET})):
        _, batches = await read_on(wanted(server, selector=selector, lookback=0.0), end)
        assert {scrape.target for batch in batches for scrape in batch} == names


async def test_a_refused_query_is_counted(server: Server) -> None:
    """What the server says of a bad query is in the message, and the reader goes on trying."""
    async with queries.Api(wanted(server).server) as api:
        with pytest.raises(queries.QueryError, match=r"read status 4\d\d .* \(.*parse") as caught:
            await api.instant("{", 0.0)
    assert caught.value.reason == "refused"


def test_the_command_reads_a_server(server: Server, pages: list[Scrape], tmp_path: Path) -> None:
    """`specmon replay URL` prints the summary of the pages; the file's `prometheus` section is heeded."""
    config = tmp_path / "specmon.yaml"
    config.write_text("prometheus:\n  target_labels: [pod]\n  headers:\n    X-Scope-OrgID: team\n")
    times = ["--start", f"{pages[0].at:.0f}", "--end", f"{pages[-1].at:.0f}", "--step", "10s", "--json"]
    done = specmon("replay", f"http://127.0.0.1:{server.port}", *times, "--config", str(config))
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout.splitlines()[-1])
    (expected,) = said([page] for page in pages)[1]
    assert summary["target"] == scraped.POD["pod"]
    assert summary["drafts"] == expected["drafts"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["http://127.0.0.1:1"], "--start: read nothing, expected", id="no start"),
        pytest.param(
            ["http://x", "--start", "yesterday"], "--start: read 'yesterday', expected", id="no time"
        ),
        pytest.param(
            ["http://x", "--start", "1700000000000"], "expected seconds since 1970", id="milliseconds"
        ),
        pytest.param(
            ["http://x", "--start", "200", "--end", "100"], "expected the start to be earlier", id="turned"
        ),
        pytest.param(["-", "--start", "100"], "read with -, expected a URL", id="no URL"),
        pytest.param(
            ["http://127.0.0.1:1", "--start", "2026-01-01T00:00:00Z", "--end", "2026-01-01T01:00:00Z"],
            "http://127.0.0.1:1/api/v1/query_range: no connection",
            id="nobody there",
        ),
    ],
)
def test_the_command_refuses(arguments: list[str], message: str) -> None:
    """Usage that makes no sense and a server that does not answer end it with exit code 2 and one line."""
    done = specmon("replay", *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


class Api:
    """A query API that has one growing engine, and that can fail in every way; `asked` are the times."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, float]] = []
        self.headers: list[str | None] = []
        self.answer: web.Response | None = None

    async def query(self, request: web.Request) -> web.Response:
        """Answer both kinds of queries."""
        form = await request.post()
        start, end = (
            float(str(form[key])) for key in (("time",) * 2 if "time" in form else ("start", "end"))
        )
        step = float(str(form.get("step", 1)))
        self.asked.append((start, end))
        self.headers.append(request.headers.get("X-Scope-OrgID"))
        if self.answer is not None:
            return web.Response(status=self.answer.status, body=self.answer.body)
        times = [start + index * step for index in range(round((end - start) / step) + 1)]
        result = [
            {
                "metric": {"__name__": name, "instance": "a:8000", "model_name": "m", "engine": "0"},
                "values": [[at, str(at * factor)] for at in times],
            }
            for name, factor in (
                ("vllm:spec_decode_num_drafts_total", 1),
                ("vllm:generation_tokens_total", 2),
            )
        ]
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})


@contextlib.asynccontextmanager
async def listening(api: Api) -> AsyncIterator[str]:
    """Serve an API on a free port; its address."""
    app = web.Application()
    for path in ("/api/v1/query", "/api/v1/query_range"):
        app.router.add_post(path, api.query)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def until(found: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(60):
        while not found():  # noqa: ASYNC110 - what is waited for is seen from outside
            await asyncio.sleep(0.01)


def failures(reader: prometheus.GridReader) -> dict[str, float]:
    """Return the counts of failed queries by reason, those above 0."""
    (family,) = (each for each in reader.families() if each.name == "specmon_prometheus_query_failures")
    counts = {
        str(column.blocks[0]).split('"')[1]: float(np.asarray(column.values)[0]) for column in family.columns
    }
    return {reason: count for reason, count in counts.items() if count}


async def test_the_past_keeps_its_own_times() -> None:
    """An hour that is caught up with becomes minutes of history at their times, and says meanwhile how far it is."""
    began = time.time()
    meanwhile: list[tuple[str, float]] = []
    kept = Store("")
    async with listening(Api()) as url:
        asked = prometheus.Wanted(queries.QueryServer(url), interval=15.0, offset=0.0, lookback=3600.0)
        reader = prometheus.GridReader(asked, time.time)
        one = service.Service(pipeline.Plan(), (), kept, clock=time.time, queried=reader)
        take = one._take

        def noting(batch: list[Scrape]) -> None:
            take(batch)
            meanwhile.append((one.ready()[1], reader.unread))

        one._take = noting  # type: ignore[method-assign]
        stop = asyncio.Event()
        task = asyncio.create_task(one.run(stop))
        await until(lambda: reader.complete and not reader.progress)
        look = one.snapshot()
        stop.set()
        await task
    (stream,) = look.streams()
    buckets = [each for each in look.history(stream.id, began - 3700.0, began) if each.drafts]
    assert len(buckets) >= 58
    assert [each.seconds for each in buckets[:58]] == [60.0] * 58
    assert [each.drafts for each in buckets[:58]] == pytest.approx([60.0] * 58, abs=0.01)
    assert buckets[0].at < began - 3500.0
    assert stream.state_since is not None
    assert stream.state_since < began - 3000.0
    sentence, unread = meanwhile[len(meanwhile) // 2]
    assert re.fullmatch(r"all loops run; the past of 60 min is being read: (49|5\d) % done", sentence)
    assert unread == pytest.approx(1800.0, abs=60.0)
    assert meanwhile[-1][1] <= asked.interval
    kept.close()


async def test_an_outage_is_counted_and_caught_up() -> None:
    """While the API fails nobody gets a scrape; when it answers, what was missed comes, each time once, in order."""
    api = Api()
    delivered: list[list[Scrape]] = []
    async with listening(api) as url:
        server = queries.QueryServer(url, headers=(("X-Scope-OrgID", "team"),), timeout=5.0)
        reader = prometheus.GridReader(
            prometheus.Wanted(server, interval=0.1, offset=0.1, lookback=60.0), time.time
        )
        task = asyncio.create_task(reader.run(delivered.append, time.time() - 1.0))
        await until(lambda: len(delivered) > 10)
        api.answer = web.Response(status=503, text="no room")
        await until(lambda: failures(reader).get("http_status", 0) >= 3)
        before = len(delivered)
        api.answer = None
        await until(lambda: len(delivered) >= before + 5)
        task.cancel()
    times = [batch[0].at for batch in delivered]
    assert times == [pytest.approx(times[0] + index * 0.1, abs=1e-6) for index in range(len(times))]
    assert {scrape.target for batch in delivered for scrape in batch} == {"a:8000"}
    assert all(scrape.failure is None for batch in delivered for scrape in batch)
    assert set(api.headers) == {"team"}


@pytest.mark.parametrize(
    ("status", "text", "reason", "message"),
    [
        pytest.param(401, "", "unauthorised", "expected to be let in", id="401"),
        pytest.param(404, "<html>", "http_status", "read status 404", id="404"),
        pytest.param(200, "<html>", "malformed", "expected the JSON of a query API", id="a page"),
        pytest.param(200, "[]", "malformed", "expected the JSON of a query API", id="a list"),
        pytest.param(
            200,
            '{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}',
            "malformed",
            "a result of type 'scalar'",
            id="a scalar",
        ),
        pytest.param(
            422,
            '{"status":"error","errorType":"execution","error":"too many"}',
            "refused",
            "too many",
            id="422",
        ),
        pytest.param(
            200, '{"status":"error","errorType":"x","error":"y"}', "refused", "x: y", id="error in 200"
        ),
        pytest.param(200, " " * 70_000, "too_large", "longer than 65536 bytes", id="too large"),
        pytest.param(302, "", "http_status", "read status 302", id="redirect"),
    ],
)
async def test_each_failure_has_its_reason(status: int, text: str, reason: str, message: str) -> None:
    """The reason is for machines, the message says where, what was read and what was expected."""
    api = Api()
    api.answer = web.Response(status=status, text=text)
    async with listening(api) as url, queries.Api(queries.QueryServer(url, body_limit=65_536)) as asked:
        with pytest.raises(queries.QueryError, match=re.escape(message)) as caught:
            await asked.instant("up", 1.0)
    assert caught.value.reason == reason
    assert str(caught.value).startswith(f"{url}/api/v1/query: ")


async def test_a_token_file_is_read_with_each_query(tmp_path: Path) -> None:
    """A file that is missing is said so and is not asked without."""
    async with queries.Api(
        queries.QueryServer("http://127.0.0.1:1", bearer_token_file=str(tmp_path / "no"))
    ) as asked:
        with pytest.raises(queries.QueryError, match=r"the token file .* cannot be read") as caught:
            await asked.instant("up", 1.0)
    assert caught.value.reason == "unauthorised"


def test_an_unreadable_server_is_one_error() -> None:
    """A replay from nowhere raises what the command prints."""
    asked = prometheus.Wanted(queries.QueryServer("http://127.0.0.1:1"))
    with pytest.raises(sources.Unreadable, match="no connection"):
        list(prometheus.replay(asked, 0.0, 100.0))
