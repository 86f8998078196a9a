"""What each receiver is told and when: an Alertmanager states, a webhook changes; over restarts too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import pytest

from monitor.notify import queues, rows
from monitor.notify.plan import LinkBases
from monitor.notify.queues import AlertQueue, HookQueue
from monitor.notify.rows import Rows
from monitor.web import wording
from tests.notify.made import CLOSED, LABELS, RAISED, event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from monitor.notify.queues import Queue
    from monitor.notify.rows import Notice

RESEND = 60.0
MAKERS: dict[str, Callable[[Rows], Queue]] = {
    "alertmanager": lambda kept: AlertQueue(kept, RESEND),
    "webhook": HookQueue,
}


def told(queue: Queue, now: float) -> list[str]:
    """Post what is due and have it accepted: kind and severity of each, marked where it is over."""
    batch = queue.due(now)
    if isinstance(queue, AlertQueue):
        posted = cast("list[dict[str, str]]", queue.content(batch, LinkBases(), now))
        over = [each["endsAt"] <= wording.iso(now) for each in posted]
    else:
        over = [each.closed_at is not None for each in batch]
    said = [
        f"{notice.event['kind']}/{notice.event['severity']}{' over' if done else ''}"
        for notice, done in zip(batch, over, strict=True)
    ]
    queue.accepted(batch, now)
    return said


def drained(queue: Queue, now: float) -> list[str]:
    """Everything that is due, post after post."""
    said: list[str] = []
    while batch := told(queue, now):
        said += batch
    return said


def restarted(name: str, queue: Queue, kept: dict[str, str]) -> Queue:
    """The queue as another process finds it: what was kept, with the latest changes."""
    for key, record in queue.rows.changes().items():
        if record is None:
            kept.pop(key, None)
        else:
            kept[key] = record
    return MAKERS[name](Rows(kept.items()))


@pytest.fixture
def alert_queue() -> AlertQueue:
    """An empty queue of an Alertmanager."""
    return AlertQueue(Rows(), RESEND)


@pytest.fixture
def hook_queue() -> HookQueue:
    """An empty queue of a webhook."""
    return HookQueue(Rows())


def test_an_open_alert_is_posted_until_it_closes(alert_queue: AlertQueue) -> None:
    """At once, then every resend interval, then its end once."""
    alert_queue.offer(event(), LABELS, RAISED)
    assert alert_queue.waiting() == 1
    assert told(alert_queue, RAISED) == ["collapse/critical"]
    assert alert_queue.waiting() == 0
    assert told(alert_queue, RAISED + RESEND - 1) == []
    assert alert_queue.wait(RAISED + RESEND - 1) == pytest.approx(1.0)
    assert told(alert_queue, RAISED + RESEND) == ["collapse/critical"]
    alert_queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    assert alert_queue.waiting() == 1
    assert told(alert_queue, CLOSED) == ["collapse/critical over"]
    assert drained(alert_queue, CLOSED + 2 * RESEND) == []
    assert drained(alert_queue, CLOSED + queues.RETOLD_SECONDS) == []
    assert alert_queue.rows.all() == []
    assert alert_queue.wait(CLOSED) == math.inf


def test_a_growing_event_is_another_alert_and_ends_the_first(alert_queue: AlertQueue) -> None:
    """A drop that becomes a collapse resolves the one and fires the other in one post."""
    alert_queue.offer(event(kind="drop", severity="warning"), LABELS, RAISED)
    drained(alert_queue, RAISED)
    alert_queue.offer(event(), {"changed": "labels"}, RAISED + 10)
    assert told(alert_queue, RAISED + 10) == ["drop/warning over", "collapse/critical"]
    assert [notice.labels for notice in alert_queue.rows.all()] == [LABELS, LABELS]
    alert_queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    assert told(alert_queue, CLOSED) == ["collapse/critical over"]


def test_a_drop_that_nobody_heard_of_is_told_as_the_collapse_it_became(alert_queue: AlertQueue) -> None:
    """What grew before it was accepted is one alert."""
    alert_queue.offer(event(kind="drop", severity="warning"), LABELS, RAISED)
    alert_queue.offer(event(), LABELS, RAISED + 10)
    assert drained(alert_queue, RAISED + 20) == ["collapse/critical"]


def test_what_ended_during_an_outage_is_told_once(alert_queue: AlertQueue) -> None:
    """Alertmanager would tell nobody of an alert that is over, so it is posted as firing, once, for a while."""
    alert_queue.offer(event(), LABELS, RAISED)
    alert_queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    assert told(alert_queue, CLOSED + 600) == ["collapse/critical"]
    assert alert_queue.rows.all() == []


def test_what_ended_days_ago_is_given_up(alert_queue: AlertQueue, hook_queue: HookQueue) -> None:
    """Nobody is told of an event that was over for three days, and it is counted."""
    for queue in (alert_queue, hook_queue):
        queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
        assert queue.due(CLOSED + rows.MOST_LATE_SECONDS + 1) == []
        assert (queue.rows.dropped, queue.rows.all()) == (1, [])


def test_the_next_event_of_a_stream_is_the_same_alert(alert_queue: AlertQueue) -> None:
    """Labels make an alert: a second collapse takes the place of the first, and both never stand beside it."""
    alert_queue.offer(event(), LABELS, RAISED)
    drained(alert_queue, RAISED)
    alert_queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    alert_queue.offer(event("second"), LABELS, CLOSED + 5)
    assert [notice.event_id for notice in alert_queue.due(CLOSED + 5)] == ["second"]
    assert alert_queue.open_ids() == {"second"}


def test_a_restarted_alertmanager_is_told_all_again(alert_queue: AlertQueue) -> None:
    """It keeps alerts in memory: what is open, and what has just ended, is posted once more."""
    alert_queue.offer(event(), LABELS, RAISED)
    alert_queue.offer(event("other", target="b:1"), LABELS, RAISED)
    drained(alert_queue, RAISED)
    alert_queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    drained(alert_queue, CLOSED)
    alert_queue.forgotten()
    assert sorted(drained(alert_queue, CLOSED + 1)) == ["collapse/critical", "collapse/critical over"]


def test_a_clock_set_back_posts_at_once(alert_queue: AlertQueue) -> None:
    """Waiting for the old time to come again would let the alert end in the Alertmanager."""
    alert_queue.offer(event(), LABELS, RAISED)
    drained(alert_queue, RAISED)
    assert told(alert_queue, RAISED - 3600) == ["collapse/critical"]


def test_a_post_holds_no_more_than_it_should(alert_queue: AlertQueue) -> None:
    """A fleet's alerts go in several posts, each alert in one."""
    for number in range(150):
        alert_queue.offer(event(str(number), target=f"engine-{number}:8000"), LABELS, RAISED)
    sizes = [len(told(alert_queue, RAISED)) for _ in range(4)]
    assert sizes == [64, 64, 22, 0]


def test_what_changes_while_it_is_posted_stays_due(alert_queue: AlertQueue) -> None:
    """An event that closes while its opening is under way is posted again as over."""
    alert_queue.offer(event(), LABELS, RAISED)
    batch = alert_queue.due(RAISED)
    alert_queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    alert_queue.accepted(batch, CLOSED)
    assert told(alert_queue, CLOSED) == ["collapse/critical over"]


def test_a_webhook_is_told_each_change_once_in_order(hook_queue: HookQueue) -> None:
    """Opened, grown in kind or severity, closed; what changes in size alone is not told."""
    steps = [
        event(kind="drop", severity="warning"),
        event(kind="drop", severity="warning") | {"positions": [0]},
        event(),
        event(closed_at=CLOSED),
    ]
    said: list[str] = []
    for step in steps:
        hook_queue.offer(step, LABELS, RAISED)
        said += drained(hook_queue, RAISED)
    assert said == ["drop/warning", "collapse/critical", "collapse/critical over"]
    assert hook_queue.rows.all() == []


def test_a_webhook_hears_of_an_outage_in_order(hook_queue: HookQueue) -> None:
    """What waits is told one by one, oldest first, with the newest sizes and one key each."""
    hook_queue.offer(event("first"), LABELS, RAISED)
    hook_queue.offer(event("second", target="b:1"), LABELS, RAISED + 1)
    hook_queue.offer(event("first") | {"positions": [0]}, LABELS, RAISED + 2)
    hook_queue.offer(event("first", closed_at=CLOSED), LABELS, CLOSED)
    assert hook_queue.waiting() == 3
    batches = []
    while batch := hook_queue.due(CLOSED):
        batches.append(batch)
        hook_queue.accepted(batch, CLOSED)
    assert [[notice.event_id for notice in batch] for batch in batches] == [["first"], ["second"], ["first"]]
    assert batches[0][0].event["positions"] == [0]
    keys = {batch[0].idempotency_key for batch in batches}
    assert len(keys) == 3


def test_what_a_webhook_refuses_does_not_stop_the_rest(hook_queue: HookQueue) -> None:
    """A change that is refused for what it says is not tried again; its end is still told."""
    hook_queue.offer(event(), LABELS, RAISED)
    hook_queue.refused(hook_queue.due(RAISED))
    hook_queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    assert drained(hook_queue, CLOSED) == ["collapse/critical over"]


@pytest.mark.parametrize("name", MAKERS)
def test_an_event_that_is_open_again_is_told_again(name: str) -> None:
    """A target that came back: after its end was told the event is told anew, under another key."""
    queue = MAKERS[name](Rows())
    queue.offer(event(), LABELS, RAISED)
    first = queue.due(RAISED)
    queue.accepted(first, RAISED)
    queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    drained(queue, CLOSED)
    queue.offer(event(), LABELS, CLOSED + 60, again=True)
    again = queue.due(CLOSED + 60)
    assert [notice.event["status"] for notice in again] == ["open"]
    assert again[0].idempotency_key != first[0].idempotency_key


@pytest.mark.parametrize("name", MAKERS)
def test_an_end_that_nobody_heard_of_is_taken_back(name: str) -> None:
    """An event that is open again before its end was told goes on as if it had never ended."""
    queue = MAKERS[name](Rows())
    queue.offer(event(), LABELS, RAISED)
    drained(queue, RAISED)
    queue.offer(event(closed_at=CLOSED), LABELS, CLOSED)
    queue.offer(event(), LABELS, CLOSED + 60)
    assert queue.open_ids() == {"a1b2c3d4e5f60718"}
    assert " over" not in "".join(drained(queue, CLOSED + 60))


SCRIPT: Sequence[tuple[float, dict[str, object]]] = [
    (0.0, event("a", kind="drop", severity="warning")),
    (5.0, event("b", target="b:1")),
    (20.0, event("a")),
    (90.0, event("b", target="b:1", closed_at=RAISED + 90)),
    (200.0, event("a", closed_at=RAISED + 200)),
]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("cut", range(len(SCRIPT) + 1))
@pytest.mark.parametrize("down", [False, True], ids=["up", "down before"])
def test_a_restart_loses_and_doubles_nothing(name: str, cut: int, down: bool) -> None:  # noqa: FBT001 - a case
    """A process that ends at any point and another that goes on tell a webhook the same as one alone.

    An Alertmanager hears what is open once more, which is the same alert. `down before`: the receiver
    accepts nothing until the restart.
    """

    def run(restart_at: int | None) -> list[str]:
        kept: dict[str, str] = {}
        queue = MAKERS[name](Rows())
        said: list[str] = []
        for step, (seconds, change) in enumerate(SCRIPT):
            if step == restart_at:
                queue = restarted(name, queue, kept)
            queue.offer(change, LABELS, RAISED + seconds)
            if not down or step >= cut:
                said += drained(queue, RAISED + seconds)
        if restart_at == len(SCRIPT):
            queue = restarted(name, queue, kept)
        said += drained(queue, RAISED + 201)
        return said

    alone, cut_in_two = run(None), run(cut)
    if name == "webhook":
        assert cut_in_two == alone
    else:
        assert set(cut_in_two) == set(alone)
        assert [each for each in cut_in_two if "over" in each] == [each for each in alone if "over" in each]


def test_rows_that_could_not_be_kept_are_changes_again() -> None:
    """A failed save hands its changes to the next one, without undoing newer ones."""
    queue = HookQueue(Rows())
    queue.offer(event(), LABELS, RAISED)
    (key,) = changes = queue.rows.changes()
    assert queue.rows.changes() == {}
    queue.rows.unkept(changes)
    queue.accepted(queue.due(RAISED), RAISED)
    assert '"told": "open"' in str(queue.rows.changes()[key])


def notice_of(queue: Queue) -> Notice:
    """The only notice that is due."""
    (notice,) = queue.due(RAISED)
    return notice


@pytest.mark.parametrize("name", MAKERS)
def test_a_key_survives_a_restart(name: str) -> None:
    """A second attempt, also of another process, has the key of the first."""
    queue = MAKERS[name](Rows())
    queue.offer(event(), LABELS, RAISED)
    first = notice_of(queue).idempotency_key
    assert notice_of(restarted(name, queue, {})).idempotency_key == first


@pytest.mark.parametrize("name", MAKERS)
def test_a_notice_that_is_made_twice_has_one_key(name: str) -> None:
    """A process that lost its notices and finds the same change again gives it the key that it had."""
    keys = set()
    for seconds in (0.0, 7.0):
        queue = MAKERS[name](Rows())
        queue.offer(event(), LABELS, RAISED + seconds)
        keys.add(notice_of(queue).idempotency_key)
    assert len(keys) == 1
