"""Hostile pages, clocks and saved states: whatever comes, the pipeline goes on, and its sizes stay bounded."""

from __future__ import annotations

import json
import random
import re
import time
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline, streams
from monitor.core.counts import lateness
from monitor.core.pages import exposition, looks
from monitor.core.pages.engines import base, identity
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint, presence, regimes, summaries
from tests import made
from tests.engines import runs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.events import Event
    from monitor.core.streams import State

PATIENCE = 20.0  # seconds; what is bounded takes far less, what is not took minutes
DRAFTS = b"vllm:spec_decode_num_drafts_total"
VALUES = ("NaN", "+Inf", "-Inf", "-1", "1e300", "1e18", "1e-300", "9.9e17", "1_0", "0x1", "z", "", "5 5 5")
LABELS = ("9" * 5000, "999999999", "-1", "NaN", "²", "٣", "", "1.5")
JSONS = (
    b'{"speculative_num_steps": Infinity, "served_model_name": "\\ud800", "version": "\\udfff"}',
    b'{"speculative_num_steps": 1e999, "speculative_algorithm": "X", "dp_rank": NaN}',
    b'{"vllm_config": {"speculative_config": {"num_speculative_tokens": ' + b"9" * 400 + b"}}}",
    b'{"loads": [{"dp_rank": 1e400, "decode_moments": [1e400, 1, ' + b"9" * 400 + b", 4, 5, 6]}]}",
    b'[{"iter": 1e999, "specDecodingStats": {"numDraftTokens": ' + b"9" * 400 + b"}}]",
    b"[" * 100_000,
    b'{"data": [{"id": "\\ud83d", "root": "\\ude00"}], "version": "' + b"x" * 10_000 + b'"}',
    b'{"speculate": "many", "model_id": 5, "loads": {"a": 1}}',
    b"9" * 5000,
    b"\xff\xfe\x00",
)
BESIDE = (
    identity.VERSION,
    identity.MODELS,
    identity.SERVER_INFO,
    identity.SERVER_INFO_JSON,
    identity.MODEL_INFO,
    identity.PROPS,
    identity.INFO,
    "/v1/loads",
)


def stepped(
    *bodies: bytes, beside: Mapping[str, bytes] | None = None, plan: pipeline.Plan | None = None
) -> State:
    """The state after these pages of one target, which can be saved and shown as JSON."""
    plan = plan or pipeline.Plan()
    state = pipeline.begin(plan)
    for n, body in enumerate(bodies):
        look = Scrape("t", made.START + made.INTERVAL * n, body=body, beside=beside or {})
        pipeline.step(plan, state, [look])
    json.dumps(summaries.totals(plan, state), allow_nan=False).encode()
    checkpoint.thaw(plan, checkpoint.freeze(state))
    assert (state.sums["total"] >= 0).all()
    return state


def series(count: int, template: str) -> bytes:
    """A page of vLLM with `count` lines of a template in which %d is the number."""
    return b"# HELP vllm:x .\n" + b"".join(template.encode() % n + b"\n" for n in range(count))


# Pages ----------------------------------------------------------------------------------------------------

HUGE = {
    "one line": DRAFTS + b'{model_name="' + b"a" * 10_000_000 + b'"} 1\n',
    "braces": DRAFTS + b"{" * 10_000_000,
    "escapes": DRAFTS + b'{model_name="' + b"\\\\" * 5_000_000 + b'"} 1\n',
    "labels": DRAFTS + b"{" + b'a="x",' * 1_000_000 + b"} 1\n",
    "bad lines": series(100_000, 'vllm:spec_decode_num_drafts_total{model_name="m",x%d} 1'),
    "bad values": series(100_000, 'vllm:spec_decode_num_drafts_total{model_name="m",x="%d"} z'),
    "indented": made.steady(1) + b" a 1\n" * 2_000_000,
    "quoted names": made.steady(1) + b'{"a",b="c"} 1\n' * 1_000_000,
    "series": series(100_000, 'vllm:spec_decode_num_drafts_total{model_name="m",x="%d"} 1'),
    "models": series(100_000, 'vllm:spec_decode_num_drafts_total{model_name="m%d"} 1'),
    "replicas": series(20_000, 'vllm:spec_decode_num_drafts_total{model_name="m",engine="%d"} 1')
    + series(20_000, 'vllm:cache_config_info{engine="%d",block_size="16"} 1'),
    "names of another engine": series(
        5_000, 'trtllm_spec_decode_drafted_tokens_total{model_name="m%d",token_position="0"} 1'
    ),
    "blank lines": b"\n" * 20_000_000,
    "no line feed": b"a_" * 10_000_000,
}


@pytest.mark.parametrize("name", HUGE)
def test_a_huge_page_is_read_or_refused_soon(name: str) -> None:
    """Megabytes of anything take seconds, once known no longer than at first, and few streams come of them."""
    begun = time.monotonic()
    state = stepped(HUGE[name], HUGE[name])
    assert time.monotonic() - begun < PATIENCE
    assert len(state.identities) <= pipeline.Plan().limits.streams_per_target
    look = looks.read(looks.Memory(), HUGE[name], {})
    assert len(look.problems) <= exposition.MOST_PROBLEMS


def fixture_pages() -> dict[str, bytes]:
    """The last page of a run of each engine that can be judged."""
    return {run.engine: run.pages[-1] for run in runs.all_runs() if not run.unsupported}


@pytest.mark.parametrize("engine", fixture_pages())
def test_hostile_values_and_labels_end_nothing(engine: str) -> None:
    """Each engine's page with impossible values or labels, on one line or on all, leaves a usable state."""
    body = fixture_pages()[engine]
    lines = [line for line in body.splitlines() if line and not line.startswith(b"#")]
    rng = random.Random(1)
    for value in VALUES:
        replaced = [re.sub(rb"[^ }]*$", value.encode(), line) for line in lines]
        chosen = rng.randrange(len(lines))
        one = [replaced[n] if n == chosen else line for n, line in enumerate(lines)]
        stepped(body, b"\n".join(replaced) + b"\n", b"\n".join(one) + b"\n", body)
    for label in LABELS:
        hostile = re.sub(
            rb'((?:position|step|rank|spec_num_tokens|engine)=")[^"]*', rb"\g<1>" + label.encode(), body
        )
        stepped(body, hostile, body)


@pytest.mark.parametrize("answer", JSONS, ids=range(len(JSONS)))
def test_hostile_answers_beside_a_page_end_nothing(answer: bytes) -> None:
    """An engine's other pages may say anything: numbers that no float holds, half characters, endless nesting."""
    for body in fixture_pages().values():
        state = stepped(body, body, beside=dict.fromkeys(BESIDE, answer))
        assert all(0 <= each.num_speculative_tokens <= base.MOST_POSITIONS for each in state.identities)
    plan = pipeline.Plan(declared={"t": regimes.Declared(engine="trtllm-json")})
    stepped(answer, answer, plan=plan)


def test_a_page_cut_anywhere_ends_nothing() -> None:
    """A page that was cut at any byte is read as far as it goes, and never raises an event."""
    body = made.steady(50)
    state = stepped(*(body[:end] for end in range(len(body))))
    assert [each.event for each in state.identities if each.event] == []


# Sizes ----------------------------------------------------------------------------------------------------


def models(first: int, count: int, drafts: int = 100) -> bytes:
    """A page with `count` models, numbered from `first`."""
    return b"".join(
        made.page((drafts * 0.8,), drafts=drafts, model_name=f"m{n}") for n in range(first, first + count)
    )


def test_streams_beyond_the_limit_are_counted_and_left_out() -> None:
    """The first streams are judged on; those for which there is no room are counted with every page."""
    plan = pipeline.Plan(limits=streams.Limits(streams_per_target=3, streams=4))
    state = stepped(models(0, 2), models(0, 5), models(0, 5, 200), plan=plan)
    assert [identity.key.model_name for identity in state.identities] == ["m0", "m1", "m2"]
    assert state.targets["t"].dropped == 2 + 2
    pipeline.step(plan, state, [Scrape("u", made.START, body=models(0, 3))])
    assert (len(state.identities), state.targets["u"].dropped) == (4, 2)


def test_names_that_change_all_the_time_are_forgotten() -> None:
    """A page with new models each day leaves no more than a day's, and the one that stays keeps its baseline."""
    plan = pipeline.Plan(limits=streams.Limits(forget_seconds=3600.0))
    state, at = pipeline.begin(plan), made.START
    for day in range(8):
        for n in range(4):
            at += 900.0
            body = models(100 * day, 20, 100 + n) + made.steady(4 * day + n + 1)
            pipeline.step(plan, state, [Scrape("t", at, body=body)])
            presence.attend(state, plan.limits, {"t"}, at)
            presence.forget(state, plan.limits, at)
        assert len(state.identities) <= 2 * 20 + 1
        assert len(state.groups.numbers) <= 2 * 20 + 1
    assert [identity.key.model_name for identity in state.identities].count(made.MODEL_NAME) == 1
    assert state.sums["total"].shape[0] == len(state.rows) == len(state.targets["t"].rows)


def test_a_target_that_makes_up_names_keeps_no_other_out() -> None:
    """With new models on every page one target fills its places; a later one with few streams is judged."""
    plan = pipeline.Plan(limits=streams.Limits(streams_per_target=100, streams=100))
    state = pipeline.begin(plan)
    for n in range(20):
        pipeline.step(plan, state, [Scrape("bad", made.START + n, body=models(10 * n, 10))])
    assert len(state.targets["bad"].rows) == 90
    assert state.targets["bad"].dropped == 200 - 90
    pipeline.step(plan, state, [Scrape("good", made.START + 20, body=models(0, 3))])
    assert (len(state.targets["good"].rows), state.targets["good"].dropped) == (3, 0)


def test_where_places_are_scarce_names_that_are_gone_make_room_soon() -> None:
    """A target at its limit forgets after ten minutes what its pages no longer have; others keep it for a day."""
    plan = pipeline.Plan(limits=streams.Limits(streams_per_target=20))
    state, at = pipeline.begin(plan), made.START
    for n in range(100):
        at += 60.0
        bodies = {"churns": models(n, 2, 100 + n), "calm": models(0, 1 + (n == 0), 100 + n)}
        pipeline.step(plan, state, [Scrape(name, at, body=body) for name, body in bodies.items()])
        presence.attend(state, plan.limits, set(bodies), at)
        presence.forget(state, plan.limits, at)
    assert state.targets["churns"].dropped == 0
    assert {row for row in state.targets["calm"].rows if state.identities[row].key.model_name == "m1"}
    newest = {state.identities[row].key.model_name for row in state.targets["churns"].rows}
    assert {"m99", "m100"} <= newest


def test_an_endless_name_still_makes_an_address() -> None:
    """A stream's id is short enough for a URL however long its names are, and differs from its neighbour's."""
    state = stepped(*(made.page((80.0,), drafts=100, model_name="x" * 3000 + end) for end in "ab"))
    first, second = (identity.id for identity in state.identities)
    assert first != second
    assert len(first) < 500


# Clocks ---------------------------------------------------------------------------------------------------

JUMPS = {
    "back an hour": {200: -3600.0},
    "back three days": {200: -3 * 86_400.0},
    "back a month": {200: -30 * 86_400.0},
    "back ten seconds": {200: -10.0},
    "back within warming": {5: -3600.0},
    "on three days": {200: 3 * 86_400.0},
    "on a month and back": {150: 30 * 86_400.0, 200: -30 * 86_400.0},
    "to and fro": {n: 7200.0 * (-1) ** n for n in range(100, 140)},
}


@cache
def collapsing() -> list[bytes]:
    """400 pages of an engine whose acceptance collapses at the 260th."""
    rng = np.random.default_rng(1)
    drafts, accepted, found = 0, np.zeros(3), []
    for n in range(400):
        kept = grown = int(rng.integers(300, 500))
        for j in range(3):
            kept = int(rng.binomial(kept, 0.8 if n < 260 else 0.1))
            accepted[j] += kept
        drafts += grown
        more = {"generation_tokens_total": drafts + float(accepted.sum())}
        found.append(made.page(accepted.tolist(), drafts=drafts, more=more, started_at=made.START - 50))
    return found


@pytest.mark.parametrize("name", JUMPS)
def test_a_clock_that_jumps_hides_no_collapse(name: str) -> None:
    """After the wall clock was set, counting goes on within two pages, and the collapse is found as without."""
    plan, offset = pipeline.Plan(), 0.0
    state = pipeline.begin(plan)
    raised: list[tuple[int, Event]] = []
    for n, body in enumerate(collapsing()):
        offset += JUMPS[name].get(n, 0.0)
        step = pipeline.step(plan, state, [Scrape("t", made.START + made.INTERVAL * n + offset, body=body)])
        raised += [(n, event) for event in step.events]
    assert [(event.kind, event.status) for _, event in raised] == [("collapse", "open")]
    (when, event) = raised[0]
    assert 260 <= when <= 264
    assert event.change_point_at - offset == pytest.approx(made.START + made.INTERVAL * 259, abs=45)
    now = made.START + made.INTERVAL * 400 + offset
    (recent,) = summaries.over_window(plan, state, 1, now)
    assert (recent["state"], recent["mal"]) == ("collapsed", pytest.approx(1.1, abs=0.02))


def test_late_pages_are_counted_and_said() -> None:
    """Pages in the wrong order change nothing, and the summary says how many there were."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    for n in (1, 5, 2, 3, 4, 6):
        body = made.steady(n)
        pipeline.step(plan, state, [Scrape("t", made.START + made.INTERVAL * n, body=body)])
    (record,) = summaries.totals(plan, state)
    assert record["drafts"] == 500
    assert record["violations"] == {"late_page": 3}


def test_only_times_move_with_the_clock() -> None:
    """What is put right after the clock was set back are the unix times of the detectors and nothing else."""
    state = stepped(*collapsing()[:50])
    before = state.watch.copy()
    lateness.follow(state.watch, np.array([0]), np.array([3600.0]))
    assert state.watch["bucket"]["began_at"][0] == before["bucket"]["began_at"][0] - 3600.0
    assert state.watch["baseline"]["sums"].tobytes() == before["baseline"]["sums"].tobytes()
    lateness.follow(state.watch, np.array([0]), np.array([-3600.0]))
    assert state.watch.tobytes() == before.tobytes()


# Saved states ---------------------------------------------------------------------------------------------


def test_a_damaged_state_is_refused_and_nothing_else() -> None:
    """Bytes changed, cut or exchanged anywhere in a saved state: it is thawed or refused, by UnusableStateError alone."""
    plan, rng = pipeline.Plan(), random.Random(2)
    saved = checkpoint.freeze(stepped(*collapsing()[:20]))
    refused = 0
    for _ in range(400):
        blobs = dict(saved)
        name = rng.choice(sorted(blobs))
        damaged = bytearray(blobs[name])
        for _ in range(3):
            damaged[rng.randrange(min(len(damaged), 600))] = rng.randrange(256)
        other = (b"", b"PK\x03\x04" + bytes(60), b"[]", b"null", bytes(damaged[: len(damaged) // 2]))
        blobs[name] = rng.choice((bytes(damaged), bytes(damaged), *other))
        try:
            checkpoint.thaw(plan, blobs)
        except checkpoint.UnusableStateError:
            refused += 1
    assert refused > 200
