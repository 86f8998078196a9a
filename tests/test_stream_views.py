"""The streams as pages show them: one number without the whole record, and long work not done twice."""

from __future__ import annotations

import threading
import time

import pytest

from monitor.core import pipeline, streams
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import history, summaries
from monitor.core.streams.history import HistoryBucket
from monitor.service import stream_views
from monitor.service.locking import StateLock
from monitor.service.stream_views import Shown, StateNow
from monitor.web import states
from tests import captures

PAGES = [page.body for page in captures.scrapes(captures.THINNED, "draftmodel")][:8]
PLAN = pipeline.Plan()
NOW = 1e9 + 15.0 * (len(PAGES) - 1)


def two_streams() -> streams.State:
    """Return the state after two targets gave the same pages."""
    state = pipeline.begin(PLAN)
    for number, body in enumerate(PAGES):
        at = 1e9 + 15.0 * number
        pipeline.step(PLAN, state, [Scrape(name, at, body=body) for name in ("a", "b")])
    return state


def test_one_number_is_that_of_the_whole_record() -> None:
    """What is read alone is what the record says, before it is made and after."""
    first, second = summaries.over_shortest(PLAN, two_streams(), NOW, 200)
    alone = {name: first[name] for name in (*summaries.NUMBERS, "window_seconds")}
    assert alone["mal"] is not None
    assert alone == {name: value for name, value in first.items() if name in alone}
    assert dict(first) | {"stream": "", "target": ""} == dict(second) | {"stream": "", "target": ""}


def test_the_window_is_the_shortest_with_enough_drafts() -> None:
    """Few drafts asked for give a minute, more than there are the longest window."""
    state = two_streams()
    spans = [
        [each["window_seconds"] for each in summaries.over_shortest(PLAN, state, NOW, least)]
        for least in (1, 1e9)
    ]
    assert spans[0][0] is not None
    assert float(str(spans[0][0])) < float(str(spans[1][0]))


def test_a_record_does_not_change_with_a_later_step() -> None:
    """A page that is being written says what was true when it was asked for."""
    state = two_streams()
    record = summaries.over_shortest(PLAN, state, NOW, 200)[0]
    state.status["baseline_mal"] = 77.0
    assert record["baseline_mal"] != 77.0


@pytest.mark.parametrize(("took", "times"), [(0.0, 2), (1.0, 1)], ids=["quick", "long"])
def test_long_work_is_not_done_again_at_once(
    monkeypatch: pytest.MonkeyPatch, took: float, times: int
) -> None:
    """A list that took long is shown again, one that did not is made for each request."""
    made: list[int] = []

    def clock() -> float:
        return float(took * len(made))

    def work(_: StateNow, __: float) -> list[object]:
        made.append(1)
        return []

    monkeypatch.setattr(time, "monotonic", clock)
    monkeypatch.setattr(stream_views, "_all", work)
    source = StateNow(PLAN, pipeline.begin(PLAN), StateLock())
    shown = Shown(lock=threading.Lock())
    for _ in range(2):
        stream_views.now(source, shown, NOW)
    assert len(made) == times


def bucket(stream: str, **changes: object) -> HistoryBucket:
    """Return a minute of a stream."""
    values: dict[str, object] = {
        "drafts": 100.0,
        "draft_tokens": 300.0,
        "accepted_tokens": 200.0,
        "accepted": (90.0, 110.0),
        "decode_outputs": 300.0,
        "decode_seconds": 1.5,
        "generation_tokens": 301.0,
        "first_tokens": 1.0,
        "baseline_mal": 3.0,
        "state": "ok",
    }
    return HistoryBucket(stream=stream, at=60.0, seconds=60.0, **(values | changes))  # type: ignore[arg-type]


def test_a_models_bucket_is_the_sum_of_its_streams() -> None:
    """Counts add up, the baseline is weighed by drafts, the state is the worst, unknown stays unknown."""
    state = two_streams()
    a, b = (identity.id for identity in state.identities)
    other = bucket(
        b, drafts=300.0, accepted=(200.0,), baseline_mal=2.0, state="collapsed", decode_seconds=float("nan")
    )
    (made,) = history.of_models(state, [bucket(a), other], tuple(states.STATES))
    assert made.stream == history.model_key(state.identities[0].key.model_name)
    assert (made.drafts, made.accepted_tokens, made.accepted) == (400.0, 400.0, (290.0, 110.0))
    assert (made.baseline_mal, made.state, made.decode_seconds) == (2.25, "collapsed", 1.5)
    assert history.of_models(state, [bucket(a)], tuple(states.STATES)) == []
