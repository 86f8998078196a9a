"""The families of our own /metrics: the names of the contract, what is absent, what promtool says of it."""

from __future__ import annotations

import dataclasses
import math
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from monitor import metrics
from monitor.metrics import changes, selfmetrics, textformat
from tests.metric_tables import loss_table, open_change, stream_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric
    from prometheus_client.samples import Sample

    from monitor.metrics.textformat import Family

STREAM = {
    "target": "vllm-0000.serving:8000",
    "model_name": "meta-llama/Llama-3.3-70B-Instruct",
    "replica": "0",
}

# Name on the page -> its labels beside those of a stream, as the design fixes them.
CONTRACT = {
    "specmon_target_info": {
        "engine",
        "engine_version",
        "draft_model",
        "method",
        "num_speculative_tokens",
        "regime",
    },
    "specmon_drafts_total": set(),
    "specmon_draft_tokens_total": set(),
    "specmon_accepted_tokens_total": set(),
    "specmon_position_accepted_tokens_total": {"position"},
    "specmon_mean_acceptance_length": {"window"},
    "specmon_position_acceptance_ratio": {"position", "window"},
    "specmon_position_conditional_acceptance_ratio": {"position", "window"},
    "specmon_draft_token_acceptance_ratio": {"window"},
    "specmon_acceptance_alpha": {"window"},
    "specmon_draft_coverage_ratio": {"window"},
    "specmon_baseline_mean_acceptance_length": set(),
    "specmon_mean_acceptance_length_low": set(),
    "specmon_mean_acceptance_length_high": set(),
    "specmon_step_seconds": {"window"},
    "specmon_implied_tpot_seconds": {"window"},
    "specmon_observed_tpot_seconds": {"window"},
    "specmon_speculation_speedup_ratio": {"window"},
    "specmon_drift_score": {"direction"},
    "specmon_state": {"state"},
    "specmon_change_active": {"kind", "severity", "scope"},
    "specmon_change_info": {"event", "report"},
    "specmon_change_mean_acceptance_length_before": set(),
    "specmon_change_mean_acceptance_length_after": set(),
    "specmon_change_start_timestamp_seconds": set(),
    "specmon_change_slowdown_ratio": set(),
    "specmon_change_cause_ratio": {"cause"},
    "specmon_changes_total": {"kind", "direction"},
    "specmon_last_change_timestamp_seconds": set(),
    "specmon_benefit_lost_ratio": set(),
    "specmon_data_quality_violations_total": {"check"},
    "specmon_tokens_per_second_lost": set(),
    "specmon_extra_gpu_seconds_per_million_tokens": set(),
    "specmon_extra_gpus": set(),
    "specmon_extra_cost_per_day": set(),
    "specmon_change_tokens_lost": set(),
    "specmon_change_gpu_seconds": set(),
    "specmon_change_cost": set(),
    "specmon_tpot_change_log_share": {"share"},
}
FLEET: dict[str, set[str]] = {
    "specmon_fleet_change_active": {"kind", "severity", "scope"},
    "specmon_fleet_change_info": {"event", "report"},
    "specmon_fleet_change_affected_replicas": set(),
    "specmon_fleet_change_mean_acceptance_length_before": set(),
    "specmon_fleet_change_mean_acceptance_length_after": set(),
    "specmon_fleet_change_start_timestamp_seconds": set(),
    "specmon_fleet_change_benefit_lost_ratio": set(),
    "specmon_fleet_change_slowdown_ratio": set(),
    "specmon_fleet_change_cause_ratio": {"cause"},
}
TARGETS = [
    metrics.TargetRow("a:8000", up=True, duration=0.012, last_success_at=1.7e9, scrapes=12, failures={}),
    metrics.TargetRow(
        "b:8000", up=False, duration=math.nan, last_success_at=math.nan, scrapes=3, failures={"timeout": 3}
    ),
]


def one_stream() -> list[Family]:
    """Return the families of one stream with an open collapse, and of its model with another."""
    table = dataclasses.replace(stream_table(1), losses=loss_table())
    model = textformat.labels({"model_name": STREAM["model_name"]})
    return [
        *metrics.stream_families(table),
        *changes.families([open_change(table.labels[0])], [open_change(model, "fleet")]),
    ]


def test_costs_are_in_base_units() -> None:
    """Twelve GPU-hours a day are half a GPU; an hour so far is 3,600 GPU-seconds; no open change, no sample."""
    page = textformat.render(one_stream()).decode()
    values = {
        sample.name: sample.value
        for family in parser.text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert values["specmon_extra_gpus"] == 0.5
    assert values["specmon_change_gpu_seconds"] == 3600.0
    quiet = textformat.render(metrics.stream_families(stream_table(1))).decode()
    assert "specmon_extra_gpus{" not in quiet


def whole_page(*, openmetrics: bool) -> bytes:
    """Return a page with everything that we write."""
    own = selfmetrics.registry()
    families = [
        selfmetrics.build_family("0.1.0", "abc"),
        *selfmetrics.reload_families(successful=True, succeeded_at=1.7e9),
        *one_stream(),
        *metrics.target_families(TARGETS),
    ]
    process = selfmetrics.process_text(own, openmetrics=openmetrics)
    return textformat.render(families, openmetrics=openmetrics, appended=process)


def samples_of(name: str) -> list[Sample]:
    """Return the samples of one name on the page of one stream."""
    page = textformat.render(one_stream()).decode()
    families = parser.text_string_to_metric_families(page)
    return [sample for family in families for sample in family.samples if sample.name == name]


@pytest.mark.parametrize("name", FLEET)
def test_a_models_change_has_series_of_its_own(name: str) -> None:
    """What is told of a whole model names the model, and none of its replicas."""
    samples = samples_of(name)
    assert [set(sample.labels) for sample in samples] == [{"model_name"} | FLEET[name]]


@pytest.mark.parametrize("name", CONTRACT)
def test_contract(name: str) -> None:
    """Each metric of the contract is there with exactly its labels."""
    samples = samples_of(name)
    assert samples
    for sample in samples:
        assert set(sample.labels) == CONTRACT[name] | set(STREAM)
        assert {key: sample.labels[key] for key in STREAM} == STREAM


def test_values_stand_at_their_window_and_position() -> None:
    """A value of one window and one position appears under those labels and no others."""
    table = stream_table(2, window_names=("5m", "1h"))
    page = textformat.render(metrics.stream_families(table)).decode()
    ratio = float(table.windows[1].conditional[1, 3])
    assert (
        'specmon_position_conditional_acceptance_ratio{target="vllm-0001.serving:8000",'
        'model_name="meta-llama/Llama-3.3-70B-Instruct",replica="0",position="3",'
        f'window="1h"}} {ratio:.12g}\n'
    ) in page


def test_every_state_is_told() -> None:
    """All ten states are on the page, 1 for the current one: absence is never the signal."""
    page = textformat.render(one_stream()).decode()
    states = {
        sample.labels["state"]: sample.value
        for family in parser.text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == "specmon_state"
    }
    assert len(states) == 10
    assert {state for state, value in states.items() if value == 1} == {"ok"}


def test_closed_change_vanishes() -> None:
    """A change that is not open has no sample, and its counter stays with its zero."""
    page = textformat.render([*metrics.stream_families(stream_table(1)), *changes.families([], [])]).decode()
    assert "specmon_change_active" not in page
    assert "specmon_fleet" not in page
    assert 'kind="collapse",direction="down"} 0\n' in page


def test_two_open_events_of_a_stream_are_no_series_twice() -> None:
    """Of a drop and a net loss both are active, and the numbers are the drop's: no scrape has one series twice."""
    drop = open_change(textformat.labels(STREAM))
    loss = dataclasses.replace(drop, event="other", kind="net_loss", before=math.nan, after=math.nan)
    for several in ([drop, loss], [loss, drop]):
        page = textformat.render(changes.families(several, [])).decode()
        series = [line.rsplit(" ", 1)[0] for line in page.splitlines() if not line.startswith("#")]
        assert len(series) == len(set(series))
        assert sum(name.startswith("specmon_change_active{") for name in series) == 2
        assert f"specmon_change_mean_acceptance_length_after{{{drop.labels}}} {drop.after}\n" in page


def test_unknown_estimates_are_absent() -> None:
    """A stream without drafts has totals and a state, and no estimate at all."""
    table = stream_table(1)
    unknown = np.full(1, math.nan)
    by_position = np.full((1, 4), math.nan)
    rest = [unknown] * 8
    window = metrics.WindowTable("5m", unknown, unknown, unknown, unknown, by_position, by_position, *rest)
    page = textformat.render(metrics.stream_families(dataclasses.replace(table, windows=[window]))).decode()
    assert "window=" not in page
    assert "nan" not in page.lower()
    assert "specmon_drafts_total{" in page


def test_unknown_window_is_refused() -> None:
    """An interval whose window is not among the windows is a mistake of the caller, said at once."""
    table = dataclasses.replace(stream_table(1), window="2h")
    with pytest.raises(ValueError, match="the interval's window is '2h', expected one of"):
        list(metrics.stream_families(table))


def test_targets() -> None:
    """A target without a good scrape is down with its failures by reason, and has no invented times."""
    page = textformat.render(metrics.target_families(TARGETS)).decode()
    assert 'specmon_target_up{target="b:8000"} 0\n' in page
    assert 'specmon_target_scrape_failures_total{target="b:8000",reason="timeout"} 3\n' in page
    assert 'specmon_target_scrape_duration_seconds{target="b:8000"}' not in page
    assert 'specmon_target_last_success_timestamp_seconds{target="a:8000"} 1700000000\n' in page


def test_alpha_is_not_a_ratio_of_counters() -> None:
    """Nothing on the page calls accepted over drafted by the model's name, or by `acceptance_rate`."""
    page = whole_page(openmetrics=False).decode()
    help_lines = [line for line in page.splitlines() if line.startswith("# HELP") and "alpha" in line]
    assert len(help_lines) == 2
    assert any("is not alpha" in line for line in help_lines)
    assert any(line.startswith("# HELP specmon_acceptance_alpha Model value") for line in help_lines)
    assert "acceptance_rate" not in page


def test_both_formats_parse() -> None:
    """The client library's parsers accept the whole page in both formats, with the same specmon samples."""
    plain = parser.text_string_to_metric_families(whole_page(openmetrics=False).decode())
    strict = openmetrics_parser.text_string_to_metric_families(  # type: ignore[no-untyped-call]
        whole_page(openmetrics=True).decode()
    )

    def ours(families: Iterable[Metric]) -> list[tuple[str, str, float]]:
        return [
            (sample.name, str(sorted(sample.labels.items())), sample.value)
            for family in families
            for sample in family.samples
            if sample.name.startswith("specmon_")
        ]

    assert ours(plain) == ours(strict)


def test_process_families_are_there() -> None:
    """The client library's process and Python families keep their names, in both formats."""
    for openmetrics in (False, True):
        page = whole_page(openmetrics=openmetrics)
        assert b"\nprocess_resident_memory_bytes " in page
        assert b"\npython_info{" in page
        assert page.count(b"# EOF") == openmetrics


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian package prometheus)"
)
def test_promtool_finds_nothing() -> None:
    """`promtool check metrics` has nothing to say of the whole page."""
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=whole_page(openmetrics=False),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_labels_of_what_is_gone_are_forgotten() -> None:
    """Names that come and go leave no more label blocks behind than a few times those that are there."""
    metrics.forget_labels(0, 0)
    for number in range(5000):
        metrics.stream_labels("target", f"made-up-{number}", "0")
        metrics.target_labels(f"made-up-{number}")
        if number % 100 == 0:
            metrics.forget_labels(20, 20)
    most = 2 * 20 + metrics.LABELS_SPARE + 100
    assert 0 < metrics.stream_labels.cache_info().currsize <= most
    assert 0 < metrics.target_labels.cache_info().currsize <= most


def test_labels_of_a_fleet_stay() -> None:
    """As long as there are as many streams as label blocks they are made once."""
    first = [metrics.stream_labels("target", f"model-{number}", "0") for number in range(2000)]
    metrics.forget_labels(2000, 2000)
    assert all(
        metrics.stream_labels("target", f"model-{number}", "0") is block for number, block in enumerate(first)
    )
