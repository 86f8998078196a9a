"""What a stream is advised: from its own step times, from a plain step time, or what is missing."""

from __future__ import annotations

import json

import numpy as np
import pytest

from monitor.__main__ import main
from monitor.core import pipeline
from monitor.core.counts import estimates, windows
from monitor.core.pages import engines
from monitor.core.pages.engines.base import NUM_COUNTERS, Counter, Evidence, Reading
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import State, advising
from monitor.core.streams.worth import Told
from tests.acceptbench import costed

CONDITIONAL = (0.8, 0.75, 0.7, 0.65)
BASE, PER_REQUEST, DRAFT, VERIFY = 0.012, 0.0002, 0.0012, 0.00003


def seconds(batch_size: float, drafted: float) -> float:
    """The step time of the simulated engine."""
    return BASE + PER_REQUEST * batch_size + (DRAFT + VERIFY * batch_size) * drafted


def watched(plan: pipeline.Plan, depths: tuple[int, ...] = (4,), sizes: tuple[int, ...] = (8,)) -> State:
    """The state after 200 scrapes of an engine whose depth and batch size go round these values."""
    state = pipeline.begin(plan)
    counters, accepted = np.zeros(NUM_COUNTERS), np.zeros(4)
    rng = np.random.default_rng(7)
    for n in range(200):
        depth, size = depths[n % len(depths)], sizes[n % len(sizes)]
        outputs = 1_000.0 * size
        reached = outputs * np.cumprod(CONDITIONAL[:depth])
        accepted[:depth] += reached
        counters[[Counter.ENGINE_STEPS, Counter.DECODE_OUTPUTS]] += 1_000.0, outputs
        counters[Counter.DECODE_SECONDS] += outputs * seconds(size, depth) * float(rng.normal(1.0, 0.005))
        counters[[Counter.DRAFTS, Counter.DRAFT_TOKENS]] += outputs, depth * outputs
        counters[Counter.ACCEPTED_TOKENS] += reached.sum()
        counters[Counter.GENERATION_TOKENS] += outputs + reached.sum()
        reading = Reading(
            "m",
            "0",
            Evidence.STEPS,
            tuple(counters.tolist()),
            tuple(accepted.tolist()),
            num_speculative_tokens=4,
        )
        pipeline.step(plan, state, [Scrape("one", 15.0 * n, readings=(reading,))])
    state.identities[0].engine = "vllm"
    return state


def advised(plan: pipeline.Plan, state: State) -> dict[str, object]:
    """The advice over the stream's whole life."""
    return advising.of_row(plan, state, estimates.from_sums(windows.total(state.sums)), 0)


def test_a_stream_that_varies_tells_all_of_its_costs() -> None:
    """Depths 1 to 4 at batches of 4 to 40: the best k and the schedule of the true cost model come out."""
    plan = pipeline.Plan()
    found = advised(plan, watched(plan, (1, 2, 3, 4), (4, 9, 16, 25, 40)))
    options = found["options"]
    assert isinstance(options, list)
    size = float(found["batch_size"])  # type: ignore[arg-type]
    for option in options[:5]:
        tokens = option["num_speculative_tokens"]
        true = option["mal"] * seconds(size, 0) / seconds(size, tokens)
        assert option["speedup"] == pytest.approx(true, rel=0.04)
    assert found["schedule"]
    assert str(found["schedule_flag"]).startswith("--speculative-config")


def test_depths_that_vary_leave_deep_positions_unknown() -> None:
    """Drafts of 1 to 4: a draft without position 2 was not refused there, and what it says of k = 4 is marked."""
    plan = pipeline.Plan()
    found = advised(plan, watched(plan, (1, 2, 3, 4), (4, 9, 16, 25, 40)))
    options, notes = found["options"], found["notes"]
    assert isinstance(options, list)
    assert [option["extrapolated"] for option in options] == [False, False, *[True] * 11]
    assert options[2]["mal"] == pytest.approx(1.0 + 0.8 + 0.8**2)
    assert "2.50 tokens on the mean, and how often a position beyond 0 was drafted" in str(notes)


def test_wasted_tokens_are_those_that_were_refused() -> None:
    """Of four tokens a draft 0.8 + 0.6 + 0.42 + 0.273 are accepted: the rest is wasted."""
    plan = pipeline.Plan(told={"m": Told(plain_step_seconds=seconds(8, 0))})
    found = advised(plan, watched(plan))
    assert found["wasted_ratio"] == pytest.approx(1.0 - (0.8 + 0.6 + 0.42 + 0.273) / 4.0)


@pytest.mark.parametrize("varying", [True, False])
def test_the_advised_k_is_the_fastest_or_nearly(*, varying: bool) -> None:
    """On engines of known cost, with noise, the advised k has 98 % of the fastest k's tokens per second."""
    rng = np.random.default_rng(3)
    for seed in range(3):
        share = costed.share(costed.some(rng, varying=varying), seed, 120)
        assert share is not None
        assert share >= costed.GOAL


def test_a_plain_step_time_is_enough_for_this_batch_size() -> None:
    """With what a plain step takes the k is advised at the present batch, and no schedule is invented."""
    plan = pipeline.Plan(told={"m": Told(plain_step_seconds=seconds(8, 0))})
    found = advised(plan, watched(plan))
    assert found["best"] is not None
    assert found["schedule"] == []
    assert advising.NO_SCHEDULE in found["notes"]  # type: ignore[operator]


def test_without_any_cost_only_the_gains_are_told() -> None:
    """A stream of constant depth and no plain step time: no k is advised, and it says what is missing."""
    plan = pipeline.Plan()
    found = advised(plan, watched(plan))
    assert found["best"] is None
    assert found["gains"] == pytest.approx(np.cumprod(CONDITIONAL).tolist(), abs=1e-6)
    assert "ways to learn it" in str(found["notes"])


def test_every_engine_has_its_own_flag() -> None:
    """Each engine of the table says how its k is set, with the number in place."""
    for name, engine in engines.ENGINES.items():
        told = engines.flag(name, 3)
        assert told is not None, name
        assert "{k" not in told, name
        assert "3" in told, name
        if engine.schedule_flag:
            assert "[1, 8, 4]" in str(engines.schedule_flag(name, [(1, 8, 4)])) or "{1: 4}" in str(
                engines.schedule_flag(name, [(1, 8, 4)])
            )
    assert engines.flag("sglang", 3) == "--speculative-num-steps 3 --speculative-num-draft-tokens 4"
    assert engines.flag("unknown", 3) is None


PAGES = [f"tests/fixtures/cases/A08_s{n}.prom" for n in ("2_t660", "3_t1260")]


def test_the_command_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """`specmon advise` on a page without decode steps tells the last token's gain and why there is no k."""
    assert main(["advise", *PAGES]) == 0
    said = capsys.readouterr().out
    assert "the last of 8 draft tokens adds 0.24 tokens to a step" in said
    assert "the page does not count decode steps" in said


def test_the_command_answers_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` is one object a stream, with null where nothing is advised."""
    assert main(["advise", "--json", *PAGES]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["best"] is None


def test_a_plain_step_time_must_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    """A number below zero is refused with what was read."""
    assert main(["advise", "--plain-step-seconds=-1", *PAGES]) == 2
    assert "read -1, expected seconds above 0" in capsys.readouterr().err
