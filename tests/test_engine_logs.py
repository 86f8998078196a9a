"""Engine logs say what the pages of the same run say: each engine's lines, from files and standard input."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from monitor.__main__ import main
from monitor.core import pipeline
from monitor.core.pages import logs
from monitor.core.streams import summaries
from monitor.sources import files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RUNS = Path(__file__).parent / "fixtures" / "runs"
# The form of vllm/v1/spec_decode/metrics.py and loggers.py, as on a public report's log.
VLLM = (
    "(APIServer pid=347228) INFO {clock} [loggers.py:310] Engine 000: Avg prompt throughput: 93.9 tokens/s, "
    "Avg generation throughput: {flow:.1f} tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, "
    "Prefix cache hit rate: 0.0%\n"
    "(APIServer pid=347228) INFO {clock} [metrics.py:120] SpecDecoding metrics: Mean acceptance length: {mean:.2f}, "
    "Accepted throughput: 0.12 tokens/s, Drafted throughput: 0.34 tokens/s, Accepted: {accepted} tokens, "
    "Drafted: {drafted} tokens, Per-position acceptance rate: {rates}, Avg Draft acceptance rate: 35.5%\n"
)


def told(name: str) -> list[Mapping[str, object]]:
    """What the engine's log of a captured run said of each window."""
    return [json.loads(line) for line in (RUNS / name / "engine_log.jsonl").read_text().splitlines()]


def log_of(windows: Iterable[Mapping[str, object]]) -> str:
    """The lines as vLLM writes them."""
    return "".join(
        VLLM.format(
            clock=each["clock"],
            flow=10.0,
            mean=each["mean_acceptance_length"],
            accepted=each["accepted"],
            drafted=each["drafted"],
            rates=", ".join(f"{rate:.3f}" for rate in each["marginal"]),  # type: ignore[attr-defined]
        )
        for each in windows
    )


def summary(path: Path) -> summaries.Record:
    """The summary of the one stream that a file tells of."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    for batch in files.replay(str(path)):
        pipeline.step(plan, state, batch)
    (record,) = summaries.totals(plan, state)
    return record


@pytest.mark.parametrize("name", ["draftmodel", "ngram", "draftchange"])
def test_vllms_lines_read_to_the_length_that_the_pages_of_the_run_have(name: str, tmp_path: Path) -> None:
    """The sum over the lines of each server life is within a hundredth of what its counters say."""
    windows = told(name)
    for server in {str(each["server"]) for each in windows}:
        own = [each for each in windows if each["server"] == server]
        log = tmp_path / f"{server}.log"
        log.write_text(log_of(own))
        record = summary(log)
        assert record["engine"] == "vllm"
        assert record["accepted_tokens"] == sum(int(str(each["accepted"])) for each in own)
        assert record["draft_tokens"] == sum(int(str(each["drafted"])) for each in own)
        assert record["mal"] == pytest.approx(pages_say(name, server, own), abs=0.01)


def pages_say(name: str, server: str, own: list[Mapping[str, object]]) -> float:
    """The mean acceptance length by the run's last page of a server life, whose counters the log adds up to."""
    accepted = sum(int(str(each["accepted"])) for each in own)
    for page in sorted((RUNS / name).glob("*.prom.gz")):
        values = dict(
            line.rsplit(" ", 1)
            for line in gzip.decompress(page.read_bytes()).decode().splitlines()
            if line[0] != "#"
        )
        counted = {
            key: next(
                float(value)
                for line, value in values.items()
                if line.startswith(f"vllm:spec_decode_num_{key}_total")
            )
            for key in ("drafts", "accepted_tokens")
        }
        if counted["accepted_tokens"] == accepted:
            return 1.0 + accepted / counted["drafts"]
    pytest.skip(f"no page of {name} has the {accepted} tokens that the log of {server} adds up to")


def test_a_collapse_in_a_log_is_an_event(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`replay` of a log whose mean falls from 3.6 to 1.1 says collapse, at the time of the line."""
    lines = []
    for number in range(400):
        accepted, rates = (2600, (0.95, 0.9, 0.75)) if number < 300 else (100, (0.08, 0.015, 0.005))
        clock = f"11-29 {11 + number // 360:02d}:{number // 6 % 60:02d}:{number % 6 * 10:02d}"
        lines.append(
            {
                "clock": clock,
                "mean_acceptance_length": 1 + accepted / 1000,
                "accepted": accepted,
                "drafted": 3000,
                "marginal": rates,
            }
        )
    log = tmp_path / "engine.log"
    log.write_text("INFO 11-29 10:59:00 [api_server.py:1] vLLM API server version 0.32.0\n" + log_of(lines))
    assert main(["replay", str(log), "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (event,) = [each for each in found if each["type"] == "event"]
    assert (event["kind"], event["severity"]) == ("collapse", "critical")
    assert event["before"]["mal"] == pytest.approx(3.6, abs=0.01)
    assert event["after"]["mal"] == pytest.approx(1.1, abs=0.01)


SGLANG = (
    "[2025-10-22 10:27:{second:02d} TP0] Decode batch. #running-req: 4, #token: 108, token usage: 0.00, "
    "accept len: {mean:.2f}, accept rate: 0.54, cuda graph: True, gen throughput (token/s): 240.00, #queue-req: 0, \n"
)
LLAMA_NEW = (
    "0.06.896.{number:03d} I slot print_timing: id  1 | task 0 | draft acceptance = 0.64479 (  167 accepted /   259 "
    "generated), mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)\n"
    "0.06.896.{number:03d} I statistics     draft-eagle3: #calls(b,g,a) =    1     87     87, #gen drafts =     87, "
    "#acc drafts =    70, #gen tokens =    259, #acc tokens =   167, #mean acc len = 2.92, dur(b,g,a) = 0.005 ms\n"
)
LLAMA_OLD = (
    "draft acceptance rate = 0.78990 ( 1252 accepted /  1585 generated)\n"
    "statistics draft-mtp: #calls(b,g,a) = 11 796 796, #gen drafts = 796, #acc drafts = 694, #gen tokens = 1585, "
    "#acc tokens = 1252, dur(b,g,a) = 0.008, 33271.024, 1.264 ms\n"
)
TRTLLM = (
    '{{"iter": {number}, "iterLatencyMS": 20.0, "numActiveRequests": 4, "inflightBatchingStats": {{"numGenRequests": '
    '4, "avgNumDecodedTokensPerIter": 2.5}}, "specDecodingStats": {{"numDraftTokens": 12, "numAcceptedTokens": 6, '
    '"numRequestsWithDraftTokens": 4, "acceptanceLength": 2.5}}}}\n'
)
LMDEPLOY = (
    "2026-03-01 10:00:{second:02d},123 - lmdeploy - INFO - loggers.py:105 - SpecDecoding metrics: Draft acceptance "
    "rate: 50.00%, Mean acceptance length: 2.50, Accepted: 150 tokens, Drafted: 300 tokens, Per-position acceptance "
    "rate: 0.800, 0.500, 0.200\n"
)


@pytest.mark.parametrize(
    ("text", "engine", "mal", "drafts"),
    [
        pytest.param(
            "".join(SGLANG.format(second=second, mean=2.17 + second % 2 / 10) for second in range(40)),
            "sglang",
            2.22,
            6400,
            id="sglang, forty steps of four requests a line",
        ),
        pytest.param(LLAMA_NEW.format(number=1), "llama.cpp", 2.92, 87, id="llama.cpp, counted once"),
        pytest.param(LLAMA_OLD, "llama.cpp", 2.573, 796, id="llama.cpp, drafts from the statistics"),
        pytest.param(
            "".join(TRTLLM.format(number=number) for number in range(1, 51)), "trtllm", 2.5, 200, id="trtllm"
        ),
        pytest.param(
            "".join(LMDEPLOY.format(second=second) for second in range(10)),
            "lmdeploy",
            2.5,
            1000,
            id="lmdeploy",
        ),
    ],
)
def test_each_engines_lines_give_their_length_and_drafts(
    text: str, engine: str, mal: float, drafts: int, tmp_path: Path
) -> None:
    """Mean acceptance length and number of drafts are those of the lines."""
    log = tmp_path / "engine.log"
    log.write_text(text)
    record = summary(log)
    assert record["engine"] == engine
    assert record["mal"] == pytest.approx(mal, abs=0.005)
    assert record["drafts"] == drafts


def test_without_drafts_only_the_ratio_is_known(tmp_path: Path) -> None:
    """Old llama.cpp lines say accepted and generated only: the mean acceptance length stays unknown."""
    log = tmp_path / "server.log"
    log.write_text("draft acceptance rate = 0.57576 (   19 accepted /    33 generated)\n")
    record = summary(log)
    assert record["mal"] is None
    assert record["draft_token_acceptance_ratio"] == pytest.approx(19 / 33)


def test_inspect_reads_a_log_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`inspect -` takes what is piped for a log; one that Docker wrapped is read as it is."""
    lines = log_of(told("draftmodel")[:5]).splitlines()
    log = tmp_path / "docker.log"
    log.write_text(
        "".join(
            json.dumps({"log": f"{line}\n", "time": f"2026-11-29T11:31:{number:02d}Z"}) + "\n"
            for number, line in enumerate(lines)
        )
    )
    with log.open("rb") as piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(piped))
        assert main(["inspect", "-", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["target"] == "standard input"
    assert record["mal"] == pytest.approx(1.335, abs=0.01)


def test_a_log_without_speculation_says_what_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines of a server that does not speculate end with 2 and a sentence: how many, the first, what was expected."""
    log = tmp_path / "plain.log"
    log.write_text("INFO 11-29 11:31:37 [loggers.py:310] Engine 000: Running: 1 reqs\n" * 3)
    assert main(["inspect", str(log)]) == 2
    said = capsys.readouterr().err
    assert "plain.log: no line of speculation among 3 lines, the first 'INFO 11-29 11:31:37" in said
    assert "expected log lines of vLLM or LMDeploy (SpecDecoding metrics" in said


def test_a_restart_in_the_log_is_a_restart() -> None:
    """What follows the line that an engine prints at its start counts from zero again and names model and k."""
    log = logs.EngineLog(near=1_796_000_000.0)
    window = log_of(told("draftmodel")[:1])
    start = (
        "INFO 11-29 12:00:00 [core.py:58] Initializing a V1 LLM engine (v0.32.0) with config: model='m', "
        "speculative_config=SpeculativeConfig(method='ngram', model='ngram', num_spec_tokens=4), "
        "served_model_name=org/m, enable_prefix_caching=True\n"
    )
    seen = [reading for line in (window + start + window).splitlines() for _, reading in log.readings(line)]
    assert [reading.counters[2] for reading in seen] == [0, 1005, 0, 0, 1005]
    assert seen[-1].model_name == "org/m"
