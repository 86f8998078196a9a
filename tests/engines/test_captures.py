"""Whole captured runs read to the values that were agreed with the engines' own logs; skipped without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.core.pages.engines.base import Counter
from tests.engines import runs

CAPTURES = Path(__file__).parents[3] / "shared" / "captures"

pytestmark = pytest.mark.skipif(
    not CAPTURES.is_dir(), reason="../shared/captures is not there: whole captured runs"
)

# run, phase, MAL, marginal acceptance per position, coverage; None where the phase has too few drafts for it.
VLLM = [
    ("ngram", "proseA_t0", 2.044, (0.438, 0.277, 0.199, 0.129), 0.857),
    ("ngram", "random_t1", 1.042, (0.029, 0.007, 0.004, 0.002), 0.320),
    ("ngram", "proseA_again", 2.044, (0.437, 0.277, 0.199, 0.131), 0.863),
    ("ngram", "k2_proseA_t0", 1.776, (0.468, 0.308), 0.870),
    ("draftmodel", "proseA_t0", 1.335, (0.244, 0.063, 0.021, 0.007), 1.0),
    ("draftmodel", "codeB_t0", 1.042, (0.037, 0.005, 0.001, 0.0), 1.0),
    ("draftchange", "good_proseA_t0", 4.522, (0.950, 0.902, 0.856, 0.814), 1.0),
    ("draftchange", "good_codeB_t0", 4.577, (0.958, 0.914, 0.872, 0.833), 1.0),
    ("draftchange", "noisy_proseA_again", 3.462, (0.817, 0.659, 0.543, 0.443), 1.0),
    ("dynamic", "conc1", 4.545, (0.964, 0.899, 0.864, 0.817), 1.0),
    ("multiapi", "m_proseA_t0", 1.943, (0.459, 0.284, 0.201), 0.866),
]
SETTLING_MS = 4000


def pages(folder: Path) -> dict[int, Path]:
    """The pages of a run by their time in milliseconds."""
    return {int(path.stem): path for path in sorted(folder.glob("*.prom"))}


@pytest.mark.parametrize(
    ("run", "phase", "mal", "marginal", "coverage"), VLLM, ids=lambda value: str(value)[:20]
)
def test_a_phase_of_vllm(
    run: str, phase: str, mal: float, marginal: tuple[float, ...], coverage: float
) -> None:
    """The counters between two pages within a phase give the phase's published acceptance and coverage."""
    folder = CAPTURES / "vllm-0.32.0" / run
    steps = [json.loads(line) for line in (folder / "phases.jsonl").read_text().splitlines()]
    index = next(index for index, step in enumerate(steps) if step["phase"] == phase)
    begin, end = steps[index]["start_ms"], steps[index + 1]["start_ms"]
    within = {at: path for at, path in pages(folder).items() if begin + SETTLING_MS <= at <= end}
    first, last = (runs.readings(within[at].read_bytes()) for at in (min(within), max(within)))
    counts = runs.counted(first["tiny/0"], last["tiny/0"])
    drafts = counts.values[0, Counter.DRAFTS]
    assert 1 + counts.values[0, Counter.ACCEPTED_TOKENS] / drafts == pytest.approx(mal, rel=0.03)
    assert counts.accepted[0, : len(marginal)] / drafts == pytest.approx(marginal, abs=0.03)
    assert drafts / counts.values[0, Counter.DECODE_OUTPUTS] == pytest.approx(coverage, abs=0.03)


LLAMA = [
    ("xll-draft-text-code-text", "text", 0.240),
    ("xll-draft-text-code-text", "code", 0.094),
    ("xll-synth-70", "text", 0.441),
    ("xll-synth-70", "random", 0.435),
    ("xll-draft-long-requests", "text", 0.049),
    ("xll-draft-nmax48-bigcounters", "text", 0.021),
    ("xll-ngram-simple-repeat-to-random", "repeat", 0.135),
]


@pytest.mark.parametrize(("run", "phase", "ratio"), LLAMA, ids=lambda value: str(value)[:30])
def test_a_phase_of_llama(run: str, phase: str, ratio: float) -> None:
    """Accepted ÷ draft tokens of a phase is the published one; a request's lump may fall into the next phase."""
    folder = CAPTURES / "llama.cpp-b11549" / run
    steps = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    index = next(index for index, step in enumerate(steps) if step["phase"] == phase)
    begin, end = steps[index]["t_ms"], steps[index + 1]["t_ms"]
    within = {at: path for at, path in pages(folder).items() if begin - SETTLING_MS / 4 <= at <= end}
    first, last = (runs.readings(within[at].read_bytes()) for at in (min(within), max(within)))
    counts = runs.counted(first["/0"], last["/0"])
    accepted, tokens = counts.values[0, [Counter.ACCEPTED_TOKENS, Counter.DRAFT_TOKENS]]
    assert accepted / tokens == pytest.approx(ratio, abs=0.02)


@pytest.mark.parametrize("folder", ["vllm-0.32.0", "llama.cpp-b11549", "lmdeploy-0.18.0"])
def test_every_captured_page_reads(folder: str) -> None:
    """Each page of each run has its one stream, whatever phase it is from."""
    for path in sorted((CAPTURES / folder).rglob("*.prom"))[::10]:
        assert len(runs.readings(path.read_bytes())) == 1, path.name
