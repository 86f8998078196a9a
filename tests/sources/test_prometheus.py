"""Counters from a query API say what the pages themselves say; against real servers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from monitor import events, pipeline, sources, summaries
from monitor.commands import replay
from monitor.sources import prometheus, promql, queries
from tests import captures, made
from tests.sources import scraped
from tests.test_commands import specmon

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from monitor.events import Event
    from monitor.pipeline import Plan
    from monitor.scrapes import Scrape
    from monitor.streams import State
    from tests.alerts.servers import Server

RUN = "draftmodel"
SERVERS = {"prometheus": scraped.prometheus, "victoria-metrics": scraped.victoria_metrics}


class Kept:
    """Keeps all events of a replay."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def step(self, plan: Plan, state: State, now: float, found: tuple[Event, ...]) -> None:
        """Keep the events of a step."""
        del plan, state, now
        self.events += [json.dumps(events.as_json(event)) for event in found]

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
    asked = prometheus.Wanted(queries.Server(f"http://127.0.0.1:{server.port}"), interval=scraped.STEP, offset=0)
    return replace(asked, **more)  # type: ignore[arg-type]


async def read_on(
    asked: prometheus.Wanted, until: float, since: float = math.nan
) -> tuple[prometheus.Reader, list[list[Scrape]]]:
    """Return what a reader of the live service delivers until it has caught up with `until`."""
    reader = prometheus.Reader(asked, lambda: until)
    batches: list[list[Scrape]] = []
    task = asyncio.create_task(reader.run(batches.append, since))
    async with asyncio.timeout(60):
        while not reader.complete:
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
    assert len(values) > 30


async def test_a_range_is_split(server: Server, pages: list[Scrape]) -> None:
    """A fine grid over the whole run takes several queries, and the counts stay the same."""
    start, end = pages[0].at, pages[-1].at
    reader, batches = await read_on(wanted(server, interval=1.0, lookback=end - start), end)
    asked = {family.name: family for family in reader.families()}["specmon_prometheus_queries"]
    assert asked.columns[0].values[0] > 1
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
        pytest.param(["http://x", "--start", "yesterday"], "--start: read 'yesterday', expected", id="no time"),
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


async def test_an_outage_is_counted_and_caught_up(tmp_path: Path) -> None:
    """While the API fails nobody gets a scrape; when it answers, what was missed comes in order."""
    pages = [replace(made.scrape(index), at=1000.0 + index) for index in range(0)]
    assert pages == []
    del tmp_path


def test_an_unreadable_server_is_one_error() -> None:
    """A replay from nowhere raises what the command prints."""
    asked = prometheus.Wanted(queries.Server("http://127.0.0.1:1"))
    with pytest.raises(sources.Unreadable, match="no connection"):
        list(prometheus.replay(asked, 0.0, 100.0))
