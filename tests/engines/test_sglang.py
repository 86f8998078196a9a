"""SGLang has three sources of the same thing: the exact one is read where it is, and they never take turns."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from monitor.core.pages import exposition
from monitor.core.pages.engines import sglang_loads
from monitor.core.pages.engines.base import Counter, Evidence, Unsupported
from tests.engines import runs

if TYPE_CHECKING:
    from monitor.core.pages.engines.base import Reader, Reading

FOLDER = runs.FIXTURES / "sglang"
HEALTHY = (FOLDER / "05_healthy3.prom").read_bytes()
LOADS = (FOLDER / "05_healthy3.json").read_bytes()
MODEL = 'model_name="m",engine_type="unified",tp_rank="0",pp_rank="0"'


def prepared(page: bytes) -> tuple[Reader, exposition.Page]:
    """The reader of a page and the page as it reads it."""
    schema = runs.recognised(page)
    read = exposition.read(page, schema.wanted)
    return schema.engine.prepare(read.layout.series, schema.prefix), read


def only(found: tuple[Reading, ...] | Unsupported) -> Reading:
    """The one reading that a page must have."""
    assert not isinstance(found, Unsupported), found.detail
    assert len(found) == 1
    return found[0]


def test_a_page_without_its_sums_waits_and_then_falls_back() -> None:
    """One failed look at /v1/loads does not change what is counted; when it stays away the counters must do."""
    reader, page = prepared(HEALTHY)
    beside = {sglang_loads.PATH: LOADS}
    assert only(reader(page.values, beside)).evidence is Evidence.STEPS
    for _ in range(2):
        refused = reader(page.values, {})
        assert isinstance(refused, Unsupported)
        assert "/v1/loads" in refused.detail
    assert only(reader(page.values, {})).evidence is Evidence.REQUEST_END
    assert only(reader(page.values, beside)).evidence is Evidence.STEPS


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b"[]",
        b'{"loads":[{"dp_rank":0}]}',
        b'{"loads":[{"decode_moments":[1,2]}]}',
        b'{"loads":7}',
    ],
    ids=["none", "html", "empty", "list", "before 0.5.17", "of another shape", "number"],
)
def test_an_answer_without_the_sums_says_nothing(body: bytes) -> None:
    """An engine older than 0.5.17, a proxy's page and an unknown shape leave it to the counters."""
    assert sglang_loads.moments(body) == ()
    reader, page = prepared(HEALTHY)
    assert only(reader(page.values, {sglang_loads.PATH: body})).evidence is Evidence.REQUEST_END


def test_sums_before_the_first_step_are_zero() -> None:
    """A null is a rank that has not decoded yet, so its first step counts."""
    (rank,) = sglang_loads.moments(b'{"loads":[{"dp_rank":3,"decode_moments":null}]}')
    assert (rank.replica, rank.requests, rank.tokens, rank.speculative) == ("3", 0.0, 0.0, False)


def test_exact_step_time_is_that_of_a_request() -> None:
    """The sums give the time of a step as its requests see it, and the batch."""
    reader, page = prepared(HEALTHY)
    counters = only(reader(page.values, {sglang_loads.PATH: LOADS})).counters
    assert counters[Counter.DECODE_SECONDS] / counters[Counter.DECODE_OUTPUTS] == pytest.approx(0.03)
    assert counters[Counter.DECODE_OUTPUTS] / counters[Counter.ENGINE_STEPS] == 16


def test_a_lifetime_average_is_never_read() -> None:
    """Whatever /v1/loads says of accept_length, the reading is the same."""
    answer = json.loads(LOADS)
    answer["loads"][0]["speculative"]["accept_length"] = 1.01
    reader, page = prepared(HEALTHY)
    told = only(reader(page.values, {sglang_loads.PATH: json.dumps(answer).encode()}))
    assert repr(told) == repr(only(reader(page.values, {sglang_loads.PATH: LOADS})))


def test_a_zero_before_the_first_report_is_not_off() -> None:
    """A prefill exports the gauge as 0 before any decode step was reported: nothing is known yet."""

    def page(decode_steps: int) -> bytes:
        return (
            f"sglang:spec_accept_length{{{MODEL}}} 0.0\nsglang:num_running_reqs{{{MODEL}}} 1\n"
            f'sglang:cuda_graph_passes_total{{{MODEL},mode="decode_cuda_graph"}} {decode_steps}\n'
        ).encode()

    early, late = (only(runs.look(page(steps))) for steps in (3, 500))
    assert (early.speculating, early.evidence) == (True, Evidence.NONE)
    assert (late.speculating, late.evidence) == (False, Evidence.NONE)


def test_the_rate_gauge_is_never_read() -> None:
    """`spec_accept_rate` has had three meanings, one of them above 1 (sgl-project/sglang#11572)."""
    page = b'sglang:spec_accept_rate{model_name="m",tp_rank="0"} 1.12\nsglang:spec_accept_length{model_name="m",tp_rank="0"} 3.36\n'
    told = only(runs.look(page))
    assert told.mean_acceptance_length == 3.36
    assert math.isnan(told.counters[Counter.DRAFT_TOKENS])


def test_ranks_are_not_added_up() -> None:
    """1.26 on two tensor ranks is one stream of 1.26 (ai-dynamo/aiperf#1153)."""
    page = b"".join(
        b'sglang:spec_accept_length{model_name="org/m",tp_rank="%d",pp_rank="0"} 1.26\n' % rank
        for rank in (1, 0)
    )
    assert only(runs.look(page)).mean_acceptance_length == 1.26


def test_an_accept_length_of_one_is_speculation() -> None:
    """A draft that is never accepted reads 1.0 without an error (sgl-project/sglang#21272): it is on, and dead."""
    told = only(runs.look(b'sglang:spec_accept_length{model_name="m"} 1.0\n'))
    assert (told.speculating, told.evidence, told.mean_acceptance_length) == (True, Evidence.GAUGE, 1.0)
