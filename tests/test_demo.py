"""The demo's engines serve pages shaped as vLLM's, say that they are simulated, and do what they promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from monitor.service.demo import engine, page, simulated_fleet, story
from monitor.sources import http

if TYPE_CHECKING:
    from collections.abc import Mapping

START = 1_700_000_000.0
BY_NAME = {scenario.name: scenario for scenario in story.SCENARIOS}


def samples(body: bytes) -> dict[tuple[str, str], float]:
    """Values by sample name and position, reason or bucket."""
    return {
        (sample.name, sample.labels.get("position", sample.labels.get("le", ""))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def pages(name: str, *seconds: float) -> list[Mapping[tuple[str, str], float]]:
    """The samples of a scenario's page at each time."""
    simulated = engine.SimulatedEngine(BY_NAME[name], np.random.default_rng(1))
    shown = page.SimulatedPage(simulated, BY_NAME[name].model_name, START, START)
    read: list[Mapping[tuple[str, str], float]] = []
    for moment in seconds:
        simulated.advance(moment)
        read.append(samples(shown.render()))
    return read


def mean_acceptance_length(
    before: Mapping[tuple[str, str], float], after: Mapping[tuple[str, str], float]
) -> float:
    """Of the drafts between two pages."""
    accepted, drafts = (
        after[f"vllm:spec_decode_num_{name}_total", ""] - before[f"vllm:spec_decode_num_{name}_total", ""]
        for name in ("accepted_tokens", "drafts")
    )
    return 1 + accepted / drafts


@pytest.mark.parametrize(
    ("name", "times", "lengths"),
    [
        ("llama-0", (0, 25, 60), (3.15, 3.15)),
        ("llama-5", (0, 20, 70), (3.15, 1.65)),
        ("coder-0", (0, 15, 60), (2.7, 2.0)),
        ("mistral-0", (0, 360, 400), (2.27, 3.15)),
    ],
)
def test_a_scenario_does_what_it_says(
    name: str, times: tuple[float, ...], lengths: tuple[float, float]
) -> None:
    """The mean acceptance length before and after the change is the one of the scenario."""
    first, second, third = pages(name, *times)
    measured = (mean_acceptance_length(first, second), mean_acceptance_length(second, third))
    assert measured == pytest.approx(lengths, abs=0.15)


def test_the_silent_engine_makes_no_drafts() -> None:
    """Tokens go on while drafts stand still, and both move again once it has recovered."""
    first, second, third = pages("gemma-0", 30, 60, 380)
    drafts, tokens = ("vllm:spec_decode_num_drafts_total", ""), ("vllm:generation_tokens_total", "")
    assert first[drafts] == second[drafts] < third[drafts]
    assert first[tokens] < second[tokens]


def test_the_impossible_page_contradicts_itself() -> None:
    """More tokens are accepted than were drafted."""
    first, second = pages("phi-0", 50, 80)
    accepted, drafted = (
        second[f"vllm:spec_decode_num_{name}_tokens_total", ""]
        - first[f"vllm:spec_decode_num_{name}_tokens_total", ""]
        for name in ("accepted", "draft")
    )
    assert accepted > drafted > 0


def test_a_rollout_restarts_the_engine() -> None:
    """With the other version all counters begin at 0, the process is young, and drafts are dead."""
    before, early, later = pages("qwen-0", 24, 26, 60)
    drafts = "vllm:spec_decode_num_drafts_total", ""
    assert early[drafts] < before[drafts] / 10
    assert early["process_start_time_seconds", ""] == pytest.approx(START + 25, abs=0.5)
    assert mean_acceptance_length(early, later) == pytest.approx(1.07, abs=0.03)


def test_what_happens_live_happens_again() -> None:
    """Twenty minutes later the same rollout collapses once more."""
    begun = engine.CYCLE_SECONDS + story.ROLLOUT_SECONDS
    well, again, later = pages("qwen-0", begun - 15, begun + 5, begun + 25)
    assert well["vllm:spec_decode_num_drafts_total", ""] > again["vllm:spec_decode_num_drafts_total", ""]
    assert mean_acceptance_length(again, later) == pytest.approx(1.07, abs=0.05)


def test_counters_agree_with_each_other() -> None:
    """The identities that hold on a real page hold on a simulated one."""
    (read,) = pages("llama-0", 60)
    positions = [read["vllm:spec_decode_num_accepted_tokens_per_pos_total", str(index)] for index in range(4)]
    accepted = read["vllm:spec_decode_num_accepted_tokens_total", ""]
    outputs = read["vllm:inter_token_latency_seconds_count", ""]
    assert sum(positions) == accepted
    assert positions == sorted(positions, reverse=True)
    drafted = 4 * read["vllm:spec_decode_num_drafts_total", ""]
    assert read["vllm:spec_decode_num_draft_tokens_total", ""] == drafted
    first_tokens = read["vllm:time_to_first_token_seconds_count", ""]
    assert read["vllm:generation_tokens_total", ""] == first_tokens + outputs + accepted
    assert read["vllm:inter_token_latency_seconds_sum", ""] == pytest.approx(outputs * engine.STEP_SECONDS)
    assert read["vllm:iteration_tokens_total_count", ""] > 1000


def test_a_run_depends_on_the_seed_and_the_time_alone() -> None:
    """How often the page is read changes nothing on it."""
    assert pages("llama-0", 10, 20, 30)[-1] == pages("llama-0", 30)[-1]


def test_the_page_has_the_shape_of_a_real_one() -> None:
    """Size, series and `_created` families are about those of a real page of 48 to 54 KB."""
    simulated = engine.SimulatedEngine(BY_NAME["llama-0"], np.random.default_rng(1))
    body = page.SimulatedPage(simulated, "simulated/llama-70b", START).render()
    assert 45_000 < len(body) < 60_000
    assert b'vllm:spec_decode_num_drafts_created{engine="0",model_name="simulated/llama-70b"} 1.7e+09' in body
    helps = [line for line in body.splitlines() if line.startswith(b"# HELP")]
    assert all(b"Simulated" in line for line in helps)


async def test_every_engine_is_served_over_http() -> None:
    """Each target of the fleet gives its page, its model and its version, and all stop together."""
    now = START
    simulated = simulated_fleet.SimulatedFleet(seed=3, clock=lambda: now)
    targets = [
        http.Target(name, url, beside=(http.Beside("/version"), http.Beside("/v1/models")))
        for name, url in await simulated.start()
    ]
    assert [target.name for target in targets] == list(BY_NAME)
    first = [await http.fetch_once(target, lambda: now) for target in targets]
    now += 10
    second = [await http.fetch_once(target, lambda: now) for target in targets]
    await simulated.stop()
    for before, after in zip(first, second, strict=True):
        assert before.body is not None
        assert after.body is not None
        assert b'model_name="simulated/' in before.body
        assert b"+simulated" in before.beside["/version"]
        assert b"simulated/" in before.beside["/v1/models"]
    assert first[0].body != second[0].body
    gone = await http.fetch_once(targets[0], lambda: now)
    assert gone.failure is not None
    assert gone.failure.reason == "connection"
