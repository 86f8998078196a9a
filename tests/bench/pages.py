"""The pages that benchmarks read."""

from __future__ import annotations

from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"


def real_page() -> bytes:
    """Return a whole page of vLLM 0.32.0 with one model and four speculative tokens."""
    return (FIXTURES / "vllm" / "ngram_k4_prose.prom").read_bytes()
