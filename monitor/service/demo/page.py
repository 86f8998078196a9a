"""The page of a simulated engine, shaped as vLLM 0.32's: the same families, labels and buckets."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from monitor.service.demo.engine import CACHED_SHARE, PREFILL_TOKENS_PER_SECOND, STEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    from prometheus_client.metrics_core import Metric

    from monitor.service.demo.engine import SimulatedEngine

TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
FIRST_TOKEN = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
STEP = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0),
    *(50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
BUCKETS: dict[str, Sequence[float]] = {
    "vllm:request_prompt_tokens": TOKENS,
    "vllm:request_generation_tokens": TOKENS,
    "vllm:iteration_tokens_total": STEP_TOKENS,
    "vllm:request_max_num_generation_tokens": TOKENS,
    "vllm:request_params_n": (1, 2, 5, 10, 20),
    "vllm:request_params_max_tokens": TOKENS,
    "vllm:time_to_first_token_seconds": FIRST_TOKEN,
    "vllm:inter_token_latency_seconds": STEP,
    "vllm:request_time_per_output_token_seconds": STEP,
    "vllm:e2e_request_latency_seconds": REQUEST,
    "vllm:request_queue_time_seconds": REQUEST,
    "vllm:request_inference_time_seconds": REQUEST,
    "vllm:request_prefill_time_seconds": REQUEST,
    "vllm:request_decode_time_seconds": REQUEST,
    "vllm:request_num_preemptions": (1, 2, 3, 4, 5, 10, 20),
    "vllm:request_prefill_kv_computed_tokens": TOKENS,
}
STILL = (  # counters that nothing in the simulation moves
    "vllm:estimated_flops_per_gpu",
    "vllm:estimated_read_bytes_per_gpu",
    "vllm:estimated_write_bytes_per_gpu",
    "vllm:external_prefix_cache_queries",
    "vllm:external_prefix_cache_hits",
    "vllm:mm_cache_queries",
    "vllm:mm_cache_hits",
    "vllm:num_preemptions",
)
TOTALS = ("drafts", "steps", "decode_outputs", "decode_seconds", "generation_tokens", "prompt_tokens")
REASONS = ("stop", "length", "abort", "error", "repetition")
CONFIG = {
    "block_size": "16",
    "cache_dtype": "auto",
    "num_gpu_blocks": "41320",
    "enable_prefix_caching": "True",
}


class Histogram:
    """Counts of observations by bucket, kept between pages."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Add `times` observations of one value."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts with their bounds, as an exposition has them."""
        names = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        return list(zip(names, map(float, accumulate(self.counts)), strict=True))


class SimulatedPage(Collector):
    """Renders the page of one engine.

    `started_at`, of its process, and `first_at`, when its live time begins, are in unix seconds.
    """

    def __init__(
        self, engine: SimulatedEngine, model_name: str, started_at: float, first_at: float = 0.0
    ) -> None:
        self._engine = engine
        self._labels = {"engine": "0", "model_name": model_name}
        self._started_at, self.first_at = started_at, first_at
        self._histograms = {name: Histogram(bounds) for name, bounds in BUCKETS.items()}
        self._steps = 0  # the steps and tokens that the histograms have
        self._tokens = 0
        self._counted = engine.totals  # whose observations the histograms have
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def render(self) -> bytes:
        """Return the page as it is now."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Return the families in the order of a real page."""
        self._observe()
        totals = self._engine.totals
        yield _gauge("process_start_time_seconds", {}, self._started_at)
        drafts = float(totals.drafts)
        yield self._counter("vllm:spec_decode_num_drafts", drafts)
        yield self._counter("vllm:spec_decode_num_draft_tokens", drafts * len(totals.accepted))
        yield self._counter("vllm:spec_decode_num_accepted_tokens", float(totals.accepted.sum()))
        positions = {str(position): float(count) for position, count in enumerate(totals.accepted)}
        yield self._counters("vllm:spec_decode_num_accepted_tokens_per_pos", "position", positions)
        yield _gauge("vllm:num_requests_running", self._labels, totals.running)
        yield _gauge("vllm:num_requests_waiting", self._labels, 0)
        yield _gauge("vllm:kv_cache_usage_perc", self._labels, totals.running / 100)
        yield self._counter("vllm:prefix_cache_queries", totals.prompt_tokens)
        yield self._counter("vllm:prefix_cache_hits", float(int(CACHED_SHARE * totals.prompt_tokens)))
        yield self._counter("vllm:prompt_tokens", totals.prompt_tokens)
        yield self._counter("vllm:generation_tokens", totals.generation_tokens)
        for name in STILL:
            yield self._counter(name, 0)
        done = float(sum(self._histograms["vllm:e2e_request_latency_seconds"].counts))
        ends = {reason: done if reason == "stop" else 0.0 for reason in REASONS}
        yield self._counters("vllm:request_success", "finished_reason", ends)
        for name, histogram in self._histograms.items():
            yield self._histogram(name, histogram)
        yield _gauge("vllm:cache_config_info", {"engine": "0", **CONFIG}, 1)

    def counts(self) -> npt.NDArray[np.float64]:
        """Return all that the page counts as one vector: the totals, then the histograms."""
        self._observe()
        totals = self._engine.totals
        scalars = [getattr(totals, name) for name in TOTALS]
        histograms = [(*each.counts, each.sum) for each in self._histograms.values()]
        return np.concatenate([scalars, totals.accepted, *histograms])

    def set_counts(self, vector: npt.NDArray[np.float64]) -> None:
        """Have the page go on from these counts, as `counts` gives them."""
        totals, at = self._engine.totals, len(TOTALS)
        for name, value in zip(TOTALS, vector[:at].tolist(), strict=True):
            setattr(totals, name, type(getattr(totals, name))(value))
        totals.accepted[:] = np.floor(vector[at : at + len(totals.accepted)])
        at += len(totals.accepted)
        for each in self._histograms.values():
            *counts, each.sum = vector[at : at + len(each.counts) + 1].tolist()
            each.counts = [round(count) for count in counts]
            at += len(each.counts) + 1
        self._steps, self._tokens = totals.steps, totals.generation_tokens

    def restarted(self, unix_seconds: float) -> None:
        """Take this time for the start of the engine's process."""
        self._started_at = unix_seconds

    def _begin_anew(self) -> None:
        """After a restart of the engine: the histograms are empty and the process is young."""
        self._histograms = {name: Histogram(bounds) for name, bounds in BUCKETS.items()}
        self._steps = self._tokens = 0
        self._counted = self._engine.totals
        self._started_at = self.first_at + self._engine.began_at

    def _observe(self) -> None:
        """Put into the histograms what has happened since the last page."""
        totals = self._engine.totals
        if self._counted is not totals:
            self._begin_anew()
        for prompt, wait in totals.started:
            self._add(time_to_first_token_seconds=wait, request_prefill_kv_computed_tokens=prompt)
        for prompt, tokens, seconds in totals.finished:
            self._finish(prompt, tokens, seconds)
        totals.started.clear()
        totals.finished.clear()
        outputs = self._histograms["vllm:inter_token_latency_seconds"]
        outputs.observe(STEP_SECONDS, totals.decode_outputs - sum(outputs.counts))
        steps = totals.steps - self._steps
        tokens_per_step = (totals.generation_tokens - self._tokens) / max(steps, 1)
        self._histograms["vllm:iteration_tokens_total"].observe(tokens_per_step, steps)
        self._steps, self._tokens = totals.steps, totals.generation_tokens

    def _finish(self, prompt: float, tokens: float, seconds: float) -> None:
        wait = prompt / PREFILL_TOKENS_PER_SECOND
        self._add(
            request_prompt_tokens=prompt,
            request_generation_tokens=tokens,
            request_max_num_generation_tokens=tokens,
            request_params_n=1,
            request_params_max_tokens=20_000,
            request_time_per_output_token_seconds=seconds / max(tokens - 1, 1),
            e2e_request_latency_seconds=seconds + wait,
            request_queue_time_seconds=0.001,
            request_inference_time_seconds=seconds + wait,
            request_prefill_time_seconds=wait,
            request_decode_time_seconds=seconds,
            request_num_preemptions=0,
        )

    def _add(self, **observed: float) -> None:
        for name, value in observed.items():
            self._histograms[f"vllm:{name}"].observe(value)

    def _counter(self, name: str, value: float) -> Metric:
        family = CounterMetricFamily(name, _help(name), labels=list(self._labels))
        family.add_metric(list(self._labels.values()), value, created=self._started_at)
        return family

    def _counters(self, name: str, label: str, values: Mapping[str, float]) -> Metric:
        family = CounterMetricFamily(name, _help(name), labels=[*self._labels, label])
        for value, count in values.items():
            family.add_metric([*self._labels.values(), value], count, created=self._started_at)
        return family

    def _histogram(self, name: str, histogram: Histogram) -> Metric:
        family = HistogramMetricFamily(name, _help(name), labels=list(self._labels))
        family.add_metric(list(self._labels.values()), histogram.buckets(), histogram.sum)
        family.add_sample(f"{name}_created", self._labels, self._started_at)
        return family


def _gauge(name: str, labels: Mapping[str, str], value: float) -> Metric:
    family = GaugeMetricFamily(name, _help(name), labels=list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _help(name: str) -> str:
    words = name.removeprefix("vllm:").replace("_", " ")
    return f"Simulated by `specmon demo`, not measured: {words}."
