"""Who is who on one page: any label that is no known dimension tells engines apart, and no gauge is a sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.core import pipeline
from monitor.core.pages.engines.base import Counter
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import summaries
from tests import made
from tests.engines import runs

if TYPE_CHECKING:
    from monitor.core.events import Event


def vllm(*labels: str, drafts: int = 100, running: int = 3) -> bytes:
    """A vLLM page with the counters of each engine, whose labels are given as text."""
    lines = []
    for number, each in enumerate(labels, 1):
        own = f'model_name="m",engine="0",{each}'
        lines += [
            f"vllm:spec_decode_num_drafts_total{{{own}}} {drafts * number}",
            f"vllm:spec_decode_num_accepted_tokens_total{{{own}}} {drafts * number}",
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{{own},position="0"}} {drafts * number}',
            f"vllm:generation_tokens_total{{{own}}} {drafts * number * 2}",
            f"vllm:num_requests_running{{{own}}} {running}",
        ]
    return "\n".join([*lines, ""]).encode()


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        pytest.param(('rack="a"', 'rack="b"'), ["m/a", "m/b"], id="a label nobody has heard of"),
        pytest.param(
            ('pod_name="p-1",node="n"', 'pod_name="p-2",node="n"'), ["m/p-1", "m/p-2"], id="pod_name"
        ),
        pytest.param(
            ('instance="i-1",pod="p-1"', 'instance="i-2",pod="p-2"'),
            ["m/i-1", "m/i-2"],
            id="one label is enough",
        ),
        pytest.param(
            ('dp_rank="0",pod="p-1"', 'dp_rank="1",pod="p-1"', 'dp_rank="0",pod="p-2"'),
            ["m/p-1:0", "m/p-1:1", "m/p-2:0"],
            id="two labels where it takes two",
        ),
        pytest.param(('hostname="h",job="vllm"',), ["m/0"], id="one engine with labels of a collector"),
        pytest.param(
            ('worker_addr="http://w-1:8000"',), ["m/http://w-1:8000"], id="a router with one worker left"
        ),
        pytest.param(
            ('otel_scope_version="1"', 'otel_scope_version="2"'), ["m/0"], id="a scope says nothing"
        ),
    ],
)
def test_labels_name_the_engines(labels: tuple[str, ...], names: list[str]) -> None:
    """Each engine is a stream that is called by the labels which tell it from the others."""
    assert list(runs.readings(vllm(*labels))) == names


def test_engines_of_one_page_have_their_own_counters_and_gauges() -> None:
    """Nothing of one engine is added to another's."""
    found = runs.readings(vllm('rack="a"', 'rack="b"'))
    assert [reading.counters[Counter.DRAFTS] for reading in found.values()] == [100, 200]
    assert [reading.running for reading in found.values()] == [3, 3]


def test_a_new_dimension_of_another_counter_is_a_part_of_it() -> None:
    """Generated tokens by tenant are added up: the series of speculation do not have that label."""
    page = vllm('job="vllm"').replace(
        b'vllm:generation_tokens_total{model_name="m",engine="0",job="vllm"} 200',
        b'vllm:generation_tokens_total{model_name="m",engine="0",tenant="a"} 150\n'
        b'vllm:generation_tokens_total{model_name="m",engine="0",tenant="b"} 50',
    )
    (reading,) = runs.readings(page).values()
    assert reading.counters[Counter.GENERATION_TOKENS] == 200


def test_a_gauge_that_stands_there_for_several_is_unknown_not_their_sum() -> None:
    """Running requests under two process ids may be of one that died: unknown, where a sum would be believed."""
    page = vllm('job="vllm"').replace(
        b'vllm:num_requests_running{model_name="m",engine="0",job="vllm"} 3',
        b'vllm:num_requests_running{model_name="m",engine="0",pid="1"} 3\n'
        b'vllm:num_requests_running{model_name="m",engine="0",pid="2"} 5',
    )
    (reading,) = runs.readings(page).values()
    assert reading.running != reading.running


def test_what_no_label_gives_to_an_engine_is_no_stream() -> None:
    """A router's own counter of tokens, without the workers' label, makes no engine without speculation."""
    page = vllm('rack="a"', 'rack="b"') + b'vllm:generation_tokens_total{model_name="m"} 7\n'
    assert list(runs.readings(page)) == ["m/a", "m/b"]


def test_caches_of_different_sizes_make_no_engines_apart() -> None:
    """Two data-parallel ranks without speculation whose caches differ are the replicas 0 and 1."""
    page = b"".join(
        b'vllm:cache_config_info{engine="%d",num_gpu_blocks="%d"} 1\n'
        b'vllm:generation_tokens_total{engine="%d",model_name="m"} 9\n' % (rank, 100 + rank, rank)
        for rank in (0, 1)
    )
    assert list(runs.readings(page)) == ["m/0", "m/1"]


def router(pages: int, dead_from: int, workers: int = 8) -> list[bytes]:
    """The page of an SGLang router with as many workers; from a page on, nothing is accepted at worker 3."""
    totals = {worker: [0.0, 0.0, 0.0] for worker in range(workers)}
    found = []
    for number in range(pages):
        lines = []
        for worker, total in totals.items():
            dead = worker == 3 and number >= dead_from
            mal = 1.0 if dead else 2.9 + (number * 7 + worker * 3) % 5 / 20
            total[0] += 600
            total[1] += 600 * mal + 10
            total[2] += 10
            labels = f'engine_type="unified",model_name="m",worker_addr="http://10.0.0.{worker}:8000"'
            ranks = f'{labels},tp_rank="0",pp_rank="0"'
            lines += [
                f"sglang_spec_accept_length{{{ranks}}} {mal}",
                f"sglang_num_running_reqs{{{ranks}}} 6",
                f"sglang_spec_num_steps{{{ranks}}} 4",
                f"sglang_spec_verify_calls_total{{{labels}}} {total[0]}",
                f"sglang_generation_tokens_total{{{labels}}} {total[1]}",
                f"sglang_num_requests_total{{{labels}}} {total[2]}",
            ]
        found.append("\n".join([*lines, ""]).encode())
    return found


def test_one_dead_worker_of_eight_is_found_on_the_routers_page() -> None:
    """Eight streams; the one whose draft dies is critical within three minutes, the others have no event."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    events: list[Event] = []
    for number, body in enumerate(router(330, 250)):
        events += pipeline.step(plan, state, [Scrape("r", made.START + 15.0 * number, body=body)]).events
    (event,) = events
    assert (event.kind in ("collapse", "dead_draft"), event.severity) == (True, "critical")
    assert event.key is not None
    assert event.key.replica == "http://10.0.0.3:8000"
    assert event.raised_at - (made.START + 15.0 * 250) <= 180.0
    records = summaries.totals(plan, state)
    assert len(records) == 8
    assert all(1.0 <= float(str(record["mal"])) <= 5.0 for record in records)
