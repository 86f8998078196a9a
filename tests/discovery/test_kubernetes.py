"""Discovery of pods against recorded answers of a real API server (Kubernetes 1.20), where there is none to ask."""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from monitor.sources.discovery import Failed, kubernetes
from monitor.sources.discovery.kubernetes import Pods
from monitor.sources.discovery.pods import PodPage
from tests.discovery import listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RECORDED = Path(__file__).parent / "recorded"
LIST = (RECORDED / "list.json").read_bytes()
GONE = (RECORDED / "gone.json").read_bytes()
FORBIDDEN = (RECORDED / "forbidden.json").read_bytes()
ADDED, CHANGED, NEW_IMAGE, LEAVING, DELETED = (
    (RECORDED / "watch.jsonl").read_bytes().splitlines(keepends=True)
)
VERSIONS = {"list": "192", "address": "194", "image": "195"}
FIRST, SECOND = "llm/vllm-0:8000", "llm/vllm-1:8000"


class ApiServer:
    """Answers lists and watches from a script, one answer each; the last watch stays open."""

    def __init__(self, *watches: bytes) -> None:
        self.watches = list(watches)
        self.lists = [(200, LIST)]
        self.asked: list[str] = []
        self.tokens: set[str] = set()

    async def pods(self, request: web.Request) -> web.StreamResponse:
        """Answer as the API server does."""
        self.tokens.add(request.headers["Authorization"])
        query = request.query
        assert query["labelSelector"] == "app=vllm"
        if query.get("watch") != "true":
            self.asked.append("list")
            status, body = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
            return web.Response(status=status, body=body, content_type="application/json")
        self.asked.append(f"watch from {query['resourceVersion']}")
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        if self.watches:
            await answer.write(self.watches.pop(0))
        if not self.watches:
            await self._until_closed(request)
        return answer

    async def _until_closed(self, request: web.Request) -> None:
        with contextlib.suppress(ConnectionError):
            await request.content.wait_eof()
        while request.transport is not None and not request.transport.is_closing():
            await listening.turn()


@contextlib.asynccontextmanager
async def serving(api: ApiServer, folder: Path) -> AsyncIterator[Pods]:
    """Serve the API and give a provider that asks it."""
    application = web.Application()
    application.router.add_get("/api/v1/namespaces/llm/pods", api.pods)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    file = folder / "kubeconfig"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{runner.addresses[0][1]}"}}],
        "users": [{"name": "u", "user": {"token": "t0ken"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "llm"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(content))
    try:
        yield Pods("app=vllm", PodPage(), "", str(file))
    finally:
        await runner.cleanup()


async def test_a_watch_goes_on_from_the_last_version(tmp_path: Path) -> None:
    """When a watch ends, the next one begins where it stood: nothing is listed twice."""
    api = ApiServer(ADDED + CHANGED, NEW_IMAGE, LEAVING + DELETED)
    async with serving(api, tmp_path) as pods, listening.to(pods) as listener:
        await listener.names(FIRST)
        await listener.names(FIRST, SECOND)
        await listener.until(lambda each: "vllm-openai:v2" in str(each))
        await listener.names(FIRST)
        versions = [VERSIONS[name] for name in ("list", "address", "image")]
        assert api.asked == ["list", *(f"watch from {version}" for version in versions)]
        assert api.tokens == {"Bearer t0ken"}


async def test_a_change_that_is_none_to_us_is_not_told(tmp_path: Path) -> None:
    """A pod without an address yet, and a change of what is not read, tell nothing."""
    quiet = json.loads(CHANGED)
    quiet["object"]["status"]["qosClass"] = "Guaranteed"
    api = ApiServer(ADDED + CHANGED + json.dumps(quiet).encode() + b"\n" + NEW_IMAGE)
    async with serving(api, tmp_path) as pods, listening.to(pods) as listener:
        told = [await listener.next() for _ in range(3)]
    assert [len(each) for each in told if not isinstance(each, Failed)] == [1, 2, 2]
    assert "vllm-openai:v2" in str(told[2])


async def test_history_that_is_gone(tmp_path: Path) -> None:
    """410 Gone, as a line of the watch, has the pods listed anew, and is no failure."""
    api = ApiServer(ADDED + CHANGED + GONE, NEW_IMAGE)
    async with serving(api, tmp_path) as pods, listening.to(pods) as listener:
        told = [await listener.next() for _ in range(4)]
    assert [len(each) for each in told if not isinstance(each, Failed)] == [1, 2, 1, 1]
    assert "vllm-openai:v2" in str(told[3])
    assert api.asked == ["list", "watch from 192", "list", "watch from 192"]


async def test_a_server_that_refuses(tmp_path: Path) -> None:
    """A refusal is a failure in the server's words; when the right comes, the pods are found."""
    api = ApiServer(b"")
    api.lists = [(403, FORBIDDEN), (200, LIST)]
    async with serving(api, tmp_path) as pods, listening.to(pods) as listener:
        reason = await listener.failure()
        await listener.names(FIRST)
    assert reason == (
        "pods 'app=vllm' in the own namespace: read status 403 "
        '(pods is forbidden: User "monitor" cannot list resource "pods" in API group "" in the namespace "llm"), '
        "expected the right to list and watch pods"
    )


@pytest.mark.parametrize(
    "garbage", [b"{\n", b'{"type": "ADDED"}\n', b"<html>\n"], ids=["cut", "no-object", "html"]
)
async def test_a_line_that_is_no_event(tmp_path: Path, garbage: bytes) -> None:
    """A line that cannot be read is a failure, after which the watch goes on from the last good one."""
    api = ApiServer(ADDED + CHANGED + garbage, DELETED)
    async with serving(api, tmp_path) as pods, listening.to(pods) as listener:
        await listener.names(FIRST, SECOND)
        assert "no answer from the API server (" in await listener.failure()
        await listener.names(FIRST)
    assert api.asked == ["list", "watch from 192", f"watch from {VERSIONS['address']}"]


async def test_a_silent_connection_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch that says nothing for longer than the server would keep it is taken for dead."""
    monkeypatch.setattr(kubernetes, "QUIET_SECONDS", 0.1)
    api = ApiServer()
    async with serving(api, tmp_path) as pods, listening.to(pods) as listener:
        await listener.names(FIRST)
        api.watches.append(ADDED + CHANGED)
        await listener.names(FIRST, SECOND)
    assert set(api.asked[1:]) == {"watch from 192"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            None,
            "(ConfigError: Configuration file {file} not found), expected a service account or a kubeconfig",
        ),
        ("{}", "(KeyError: 'clusters'), expected a service account or a kubeconfig"),
        ("a: [", "(ParserError: "),
    ],
    ids=["missing", "empty", "no-yaml"],
)
async def test_access_that_is_none(tmp_path: Path, content: str | None, said: str) -> None:
    """A kubeconfig that cannot be used is a failure that is tried again, not an end."""
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content)
    async with listening.to(Pods("a", PodPage(), "", str(file))) as listener:
        reason = await listener.failure()
    assert f"no access to a cluster {said.format(file=file)}" in reason


async def test_outside_of_a_cluster(caplog: pytest.LogCaptureFixture) -> None:
    """Without a service account the failure says what was looked for."""
    with caplog.at_level(logging.WARNING):
        async with listening.to(Pods("a", PodPage(), "llm")) as listener:
            reason = await listener.failure()
    assert reason.startswith("pods 'a' in llm: no access to a cluster (ConfigError: ")


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0.0), (1, 1.0), (2, 2.0), (6, 32.0), (7, 60.0), (99, 60.0)]
)
def test_pauses_grow(failures: int, seconds: float) -> None:
    """After failures in a row the pause doubles, up to a minute."""
    assert kubernetes.pause(failures) == seconds
