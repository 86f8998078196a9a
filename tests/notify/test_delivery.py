"""Notices reach their receivers over real HTTP: outages, refusals, restarts and reloads lose and double nothing."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING

import pytest

from monitor import notify
from monitor.core.events import event_records
from monitor.metrics import textformat
from monitor.notify import courier
from monitor.store import Store
from tests.notify.made import LABELS, event
from tests.notify.receivers import Server, up

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from monitor.notify.notifier import KeptNotices

Change = dict[str, object]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Second attempts after hundredths of a second."""
    monkeypatch.setattr(courier, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(courier, "LONGEST_PAUSE_SECONDS", 0.05)


def receiver(server: Server, kind: str = "webhook", **more: object) -> notify.Receiver:
    """The settings of a receiver."""
    name = str(more.pop("name", kind))
    made = notify.Receiver("webhook" if kind == "webhook" else "alertmanager", name, server.url)
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


def plan(*receivers: notify.Receiver, resend: float = 60.0) -> notify.NotifyPlan:
    """A plan for these receivers."""
    return notify.NotifyPlan(receivers=receivers, resend_seconds=resend)


class Part:
    """A notifier with a store, used as the service uses them."""

    def __init__(self, wanted: notify.NotifyPlan, kept: Store) -> None:
        self.store = kept
        self.notifier = notify.Notifier(wanted, kept.notices(), clock=time.time, jitter=lambda: 0.5)

    def happens(self, *changes: Change, open_now: Sequence[Change] | None = None) -> None:
        """Save changes of events with their notices, and let them be delivered."""
        for change in changes:
            self.notifier.offer(change, LABELS)
        self.save(changes, open_now)
        self.notifier.release()

    def save(self, changes: Sequence[Change] = (), open_now: Sequence[Change] | None = None) -> None:
        """Save in one transaction."""
        labelled = None if open_now is None else [(change, LABELS) for change in open_now]
        written = [event_records.from_json(change) for change in changes]
        self.store.save({}, written, (), self.notifier.changes(labelled))

    async def keep(self, notices: KeptNotices) -> bool:
        """Save what was accepted."""
        return self.store.keep_notices(notices)

    def value(self, name: str, receiver_name: str = "webhook") -> float:
        """A number of our own metrics page."""
        page = textformat.render(self.notifier.families()).decode()
        start = f'specmon_notify_{name}{{receiver="{receiver_name}"}} '
        (line,) = [line for line in page.splitlines() if line.startswith(start)]
        return float(line.removeprefix(start))


@contextlib.asynccontextmanager
async def running(wanted: notify.NotifyPlan, kept: Store) -> AsyncIterator[Part]:
    """Deliver in the background until the block ends."""
    part = Part(wanted, kept)
    task = asyncio.create_task(part.notifier.run(part.keep))
    try:
        yield part
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - nothing tells when a count has changed
            await asyncio.sleep(0.005)


async def failed(part: Part, name: str, times: int) -> None:
    """Wait until so many posts have failed."""
    await until(lambda: part.value("failures_total", name) >= times)


def kinds(server: Server) -> list[str]:
    """What a webhook accepted: kind and status of each."""
    return [f"{post.content['kind']} {post.content['status']}" for post in server.accepted]


async def test_a_webhook_hears_of_an_event_from_begin_to_end() -> None:
    """Each change is one POST of JSON with a key of its own, and nothing of it is kept afterwards."""
    async with up() as server, running(plan(receiver(server)), Store()) as part:
        part.happens(event(kind="drop", severity="warning"))
        part.happens(event())
        part.happens(event(closed_at=time.time()))
        await server.until(lambda found: len(found.posts) == 3)
        assert kinds(server) == ["drop open", "collapse open", "collapse closed"]
        assert {post.headers["Content-Type"] for post in server.posts} == {"application/json"}
        assert len({post.headers["Idempotency-Key"] for post in server.posts}) == 3
        assert server.posts[0].headers["User-Agent"].startswith("specmon/")
        await until(lambda: part.store.notices() == [])


async def test_several_alertmanagers_do_not_wait_for_each_other() -> None:
    """Each has its own queue: one that refuses everything delays no other."""
    async with up() as first, up(Server(status=503)) as second, up() as third:
        everyone = plan(
            *(
                receiver(each, "alertmanager", name=f"am-{number}")
                for number, each in enumerate((first, second, third))
            )
        )
        async with running(everyone, Store()) as part:
            part.happens(event())
            await first.until(lambda found: len(found.accepted) == 1)
            await third.until(lambda found: len(found.accepted) == 1)
            await failed(part, "am-1", 3)
            assert [post.path for post in first.posts] == ["/api/v2/alerts"]
            assert (part.value("sent_total", "am-0"), part.value("failures_total", "am-0")) == (1, 0)
            lengths = [part.value("queue_length", f"am-{number}") for number in range(3)]
            assert lengths == [0, 1, 0]
            second.status = 200
            await second.until(lambda found: len(found.accepted) == 1)


async def test_an_alert_is_posted_again_before_it_ends() -> None:
    """While an event is open its alert is posted every resend interval, with an end four times as far ahead."""
    async with up() as server, running(plan(receiver(server, "alertmanager"), resend=0.05), Store()) as part:
        part.happens(event())
        await server.until(lambda found: len(found.accepted) >= 4)
    labels = [post.content[0]["labels"] for post in server.posts]
    assert all(each == labels[0] for each in labels)


async def test_a_restarted_alertmanager_is_told_at_once() -> None:
    """One that says it started anew gets what is open, and what has just ended, again."""
    async with up() as server, running(plan(receiver(server, "alertmanager"), resend=0.3), Store()) as part:
        part.happens(event("over"), event("open", target="b:1"))
        await until(lambda: part.value("queue_length", "alertmanager") == 0)
        part.happens(event("over", closed_at=time.time()))
        await server.until(lambda found: any(", over;" in str(post.content) for post in found.accepted))
        assert len(server.posts[-1].content) == 1
        before = len(server.posts)
        server.started = "2026-02-02T00:00:00Z"
        await server.until(lambda found: len(found.posts) > before)
        await server.until(lambda found: len(found.posts[-1].content) == 2)


@pytest.mark.parametrize("kind", ["webhook", "alertmanager"])
async def test_an_outage_loses_and_doubles_nothing(kind: str) -> None:
    """What happens while a receiver is down arrives when it is up again, each change once."""
    server = Server()
    async with up(server):
        pass
    async with running(plan(receiver(server, kind)), Store()) as part:
        part.happens(event("a"))
        part.happens(event("b", target="b:1"))
        await failed(part, kind, 3)
        assert part.value("queue_length", kind) == 2
        async with up(server):
            await server.until(lambda found: len(found.accepted) >= (2 if kind == "webhook" else 1))
            part.happens(event("a", closed_at=time.time()))
            await server.until(lambda found: "stopped paying" in str(found.posts[-1].content))
            await server.until(lambda found: len(found.accepted) == (3 if kind == "webhook" else 2))
    if kind == "webhook":
        assert [post.content["id"] for post in server.accepted] == ["a", "b", "a"]
    else:
        assert [len(post.content) for post in server.accepted] == [2, 1]


async def test_a_restart_during_an_outage_loses_nothing(tmp_path: Path) -> None:
    """Another process finds what the first could not deliver, with the same key, and does not repeat the rest."""
    path = str(tmp_path / "specmon.db")
    server = Server(answers=[200], status=503)
    async with up(server):
        kept = Store(path)
        async with running(plan(receiver(server)), kept) as part:
            part.happens(event("told"), event("waits", target="b:1"))
            await server.until(lambda found: len(found.posts) >= 3)
        kept.close()
        tried = {post.headers["Idempotency-Key"] for post in server.posts if post.status == 503}
        server.status = 200
        kept = Store(path)
        async with running(plan(receiver(server)), kept) as part:
            part.happens(open_now=[event("told"), event("waits", target="b:1")])
            part.happens(event("told", closed_at=time.time()))
            await server.until(lambda found: len(found.accepted) == 3)
        kept.close()
    assert [post.content["id"] for post in server.accepted] == ["told", "waits", "told"]
    assert {server.accepted[1].headers["Idempotency-Key"]} == tried


async def test_nothing_is_told_that_was_not_saved_first() -> None:
    """Between the change and the end of its save no post goes out; a save that fails is no reason for silence."""
    async with up() as server, running(plan(receiver(server)), Store()) as part:
        part.notifier.offer(event(), LABELS)
        notices = part.notifier.changes()
        await asyncio.sleep(0.1)
        assert server.posts == []
        part.notifier.release(notices)
        await server.until(lambda found: len(found.accepted) == 1)
        part.save()
        assert len(part.store.notices()) == 1


async def test_starting_tells_what_is_open_and_ends_what_is_not() -> None:
    """A receiver that is new, or a state that was lost, is brought in line with what is open."""
    async with up() as server, running(plan(receiver(server)), Store()) as part:
        part.happens(open_now=[event("a")])
        await server.until(lambda found: kinds(found) == ["collapse open"])
        part.happens(open_now=[event("b", target="b:1")])
        await server.until(lambda found: len(found.accepted) == 3)
    assert sorted(f"{post.content['id']} {post.content['status']}" for post in server.accepted) == [
        "a closed",
        "a open",
        "b open",
    ]


async def test_info_is_not_told_unless_asked() -> None:
    """Events below the least severity stay in the report; one that was told is ended whatever it has become."""
    async with up() as server, running(plan(receiver(server)), Store()) as part:
        part.happens(event("quiet", kind="improvement", severity="info"))
        part.happens(event("loud", target="b:1"))
        part.happens(event("loud", kind="drop", severity="info", target="b:1", closed_at=time.time()))
        await server.until(lambda found: len(found.accepted) == 2)
    assert {post.content["id"] for post in server.posts} == {"loud"}


async def test_a_refused_message_does_not_stop_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    """400 of a webhook is final: the notice is dropped, counted and said; what follows is delivered."""
    async with up(Server(answers=[400])) as server, running(plan(receiver(server)), Store()) as part:
        part.happens(event("a"), event("b", target="b:1"))
        await server.until(lambda found: len(found.accepted) == 1)
        assert [post.content["id"] for post in server.posts] == ["a", "b"]
        assert (part.value("dropped_total"), part.value("failures_total")) == (1, 1)
    assert "read status 400 Bad Request (as the test wants it), expected 2xx" in str(
        caplog.records[0].__dict__
    )


@pytest.mark.parametrize("status", [301, 401, 404, 429, 500])
async def test_every_other_status_is_tried_again(status: int) -> None:
    """Wrong tokens and addresses can be mended: the same message is posted again, redirects are not followed."""
    elsewhere = Server(answers=[status, status], headers={"Location": "/elsewhere"})
    async with up(elsewhere) as server, running(plan(receiver(server)), Store()) as part:
        part.happens(event())
        await server.until(lambda found: len(found.accepted) == 1)
    assert [post.status for post in server.posts] == [status, status, 200]
    assert {post.path for post in server.posts} == {"/"}
    assert len({post.headers["Idempotency-Key"] for post in server.posts}) == 1


async def test_a_receiver_says_how_long_to_wait() -> None:
    """Retry-After is longer than our own pause and is kept."""
    busy = Server(answers=[503], headers={"Retry-After": "1"})
    async with up(busy) as server, running(plan(receiver(server)), Store()) as part:
        begun = time.monotonic()
        part.happens(event())
        await server.until(lambda found: len(found.accepted) == 1)
    assert time.monotonic() - begun >= 1.0


async def test_who_we_are_is_shown_with_each_post(tmp_path: Path) -> None:
    """Headers and token go along, and a token file is read again: a rotated token mends a refusal by itself."""
    token = tmp_path / "token"
    token.write_text("old\n")
    async with up(Server(answers=[401])) as server:
        wanted = plan(receiver(server, headers=(("X-Team", "search"),), bearer_token_file=str(token)))
        async with running(wanted, Store()) as part:
            part.happens(event())
            await server.until(lambda found: len(found.posts) == 1)
            token.write_text("new\n")
            await server.until(lambda found: len(found.accepted) == 1)
    assert [post.headers["Authorization"] for post in server.posts][-1] == "Bearer new"
    assert server.posts[0].headers["X-Team"] == "search"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"bearer_token_file": "/nowhere/token"}, "No such file or directory"),
        ({"url": "http://user:hunter2@127.0.0.1:1/hunter2", "bearer_token": "hunter2"}, "Cannot connect"),
        ({"url": "http://127.0.0.1:1/hunter2"}, "Cannot connect to host 127.0.0.1:1"),
    ],
    ids=["token file", "a token besides the password", "nobody there"],
)
async def test_what_is_wrong_is_said_once_without_secrets(
    more: dict[str, object], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first failure of a row is a warning that names receiver and reason; no failure ends the monitor."""
    async with running(plan(receiver(Server(port=1), "webhook", **more)), Store()) as part:
        part.happens(event())
        await failed(part, "webhook", 3)
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert said.lower() in str(record.__dict__["error"]).lower()
    assert "hunter2" not in str([each.__dict__ for each in caplog.records])


async def test_a_header_that_cannot_be_sent_is_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """A line break in a secret, as from a file that was pasted, ends neither the monitor nor the message."""
    headers = (("X-A", "a\nb"),)
    async with up() as server, running(plan(receiver(server, headers=headers)), Store()) as part:
        part.happens(event())
        await failed(part, "webhook", 2)
    assert server.posts == []
    assert "header" in str(caplog.records[0].__dict__["error"]).lower()


async def test_a_reload_changes_receivers(caplog: pytest.LogCaptureFixture) -> None:
    """A receiver that stays keeps its queue and counts, one that goes takes its notices with it."""
    async with up(Server(status=503)) as stays, up(Server(status=503)) as goes, up() as comes:
        first = plan(receiver(stays, name="stays"), receiver(goes, name="goes"))
        async with running(first, Store()) as part:
            part.happens(event())
            await failed(part, "stays", 1)
            await failed(part, "goes", 1)
            stays.status = 200
            part.notifier.replace(plan(receiver(stays, name="stays"), receiver(comes, name="comes")))
            part.happens(open_now=[event()])
            await stays.until(lambda found: len(found.accepted) == 1)
            await comes.until(lambda found: len(found.accepted) == 1)
            assert part.value("failures_total", "stays") >= 1
            assert {name for name, _, _ in part.store.notices()} == {"stays", "comes"}
    assert [post.content["id"] for post in stays.accepted] == [event()["id"]]
    assert "receiver is gone" in caplog.text


@pytest.mark.parametrize("ends", [False, True], ids=["reload", "end of the process"])
async def test_the_answer_to_a_post_under_way_is_waited_for(*, ends: bool) -> None:
    """A reload or the end while a receiver takes its time to answer: what it accepted is not posted again."""
    kept = Store()
    async with up() as slow:
        slow.answering.clear()
        wanted = plan(receiver(slow))
        async with running(wanted, kept) as part:
            part.happens(event())
            await slow.until(lambda found: len(found.posts) == 1)
            asyncio.get_running_loop().call_later(0.05, slow.answering.set)
            if not ends:
                part.notifier.replace(dataclasses.replace(wanted, resend_seconds=30.0))
                part.happens(open_now=[event()])
                await until(lambda: part.value("sent_total") == 1)
        async with running(wanted, kept) as part:
            part.happens(event(closed_at=time.time()))
            await slow.until(lambda found: len(found.posts) > 1)
    assert kinds(slow) == ["collapse open", "collapse closed"]


async def test_a_receiver_that_does_not_answer_holds_up_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A post whose answer does not come is given up, and is told again after the restart."""
    monkeypatch.setattr(courier, "LAST_ANSWER_SECONDS", 0.05)
    kept = Store()
    async with up() as slow:
        slow.answering.clear()
        async with running(plan(receiver(slow)), kept) as part:
            part.happens(event())
            await slow.until(lambda found: len(found.posts) == 1)
        slow.answering.set()
        async with running(plan(receiver(slow)), kept):
            await slow.until(lambda found: len(found.posts) == 2)
    first, second = slow.posts
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


async def test_nobody_is_told_by_default() -> None:
    """Without receivers nothing is kept, nothing is said of it on the metrics page, and the loop just waits."""
    async with running(notify.NotifyPlan(), Store()) as part:
        part.happens(event())
        assert part.store.notices() == []
        assert textformat.render(part.notifier.families()) == b""


def test_counts_are_there_before_the_first_failure() -> None:
    """`increase()` sees the first failure only if there was a zero before it."""
    part = Part(plan(receiver(Server(port=1))), Store())
    names = ("sent_total", "failures_total", "dropped_total", "queue_length")
    assert [part.value(name) for name in names] == [0, 0, 0, 0]
