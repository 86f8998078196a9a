"""One stream: its acceptance against its baseline, by position, and what it does to speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alerts.grafana import board
from alerts.grafana.board import Board, Row, Variable
from alerts.grafana.panels import Panel, Query, Threshold

if TYPE_CHECKING:
    from collections.abc import Mapping

CHOSEN = 'target="$target",model_name="$model_name",replica="$replica"'
WINDOW = f'window="5m",{CHOSEN}'
RED, GREEN = "red", "green"


def dashboard(site: Mapping[str, str]) -> Board:
    """Return the dashboard `specmon-stream`."""
    key = "${target:percentencode}~${model_name:percentencode}~${replica:percentencode}"
    return Board(
        uid="specmon-stream",
        title="specmon / Stream",
        description="One model on one engine: did acceptance change, where in the draft, at what cost.",
        variables=(
            Variable("target", "specmon_state", "target", all_values=False),
            Variable("model_name", 'specmon_state{target="$target"}', "model_name", all_values=False),
            Variable(
                "replica",
                'specmon_state{target="$target",model_name="$model_name"}',
                "replica",
                all_values=False,
            ),
        ),
        rows=(_now(), _acceptance(), _speed(), _evidence()),
        links={"Report": f"{site['report']}/report/{key}", **board.vllm_dashboard(site["grafana"])},
        notes={"Change": f"specmon_last_change_timestamp_seconds{{{CHOSEN}}} * 1000"},
    )


def _stat(title: str, query: Query, description: str, unit: str = "short", width: int = 4) -> Panel:
    return Panel(title, "stat", [query], description, unit=unit, width=width, height=4, decimals=2)


def _now() -> Row:
    info = ("engine", "engine_version", "method", "draft_model", "num_speculative_tokens", "regime")
    return Row(
        "Now",
        (
            _stat(
                "State",
                Query(f"specmon_state{{{CHOSEN}}} == 1", "{{state}}", instant=True),
                "The state it is in.",
                "none",
            ),
            _stat(
                "Mean acceptance length",
                Query(f"specmon_mean_acceptance_length{{{WINDOW}}}", "5m", instant=True),
                "1 + accepted tokens ÷ drafts over 5 minutes, the bonus token included.",
            ),
            _stat(
                "Baseline",
                Query(f"specmon_baseline_mean_acceptance_length{{{CHOSEN}}}", "baseline", instant=True),
                "What it is in control in this regime. It never follows a fall.",
            ),
            _stat(
                "Benefit lost",
                Query(f"specmon_benefit_lost_ratio{{{CHOSEN}}}", "lost", instant=True),
                "(Baseline MAL − MAL) ÷ (baseline MAL − 1), while a change is open.",
                "percentunit",
            ),
            _stat(
                "Open change",
                Query(f"specmon_change_active{{{CHOSEN}}}", "{{kind}}", instant=True),
                "The event that is open. No data: none is.",
            ),
            _stat(
                "Last change",
                Query(f"specmon_last_change_timestamp_seconds{{{CHOSEN}}} * 1000", "raised", instant=True),
                "When the last change was raised.",
                "dateTimeFromNow",
            ),
            Panel(
                "Runs on",
                "table",
                [Query(f"specmon_target_info{{{CHOSEN}}}", instant=True)],
                "Another value here is another regime: a release is compared with the one before.",
                width=24,
                height=4,
                columns={name: name for name in info},
            ),
        ),
    )


def _acceptance() -> Row:
    return Row(
        "Acceptance",
        (
            Panel(
                "Mean acceptance length",
                "timeseries",
                [
                    Query(f"specmon_mean_acceptance_length{{{CHOSEN}}}", "{{window}}"),
                    Query(f"specmon_mean_acceptance_length_low{{{CHOSEN}}}", "low end of the 95 % interval"),
                    Query(
                        f"specmon_mean_acceptance_length_high{{{CHOSEN}}}", "high end of the 95 % interval"
                    ),
                    Query(f"specmon_baseline_mean_acceptance_length{{{CHOSEN}}}", "baseline"),
                ],
                "No traffic is a gap. An interval that is wide says that few requests are behind the number.",
                width=12,
                decimals=2,
            ),
            Panel(
                "Drift score",
                "timeseries",
                [Query(f"specmon_drift_score{{{CHOSEN}}}", "{{direction}}")],
                "Evidence of a change in units of the limit: above 1 is an alarm.",
                width=6,
                decimals=2,
                minimum=0,
                thresholds=(Threshold(None, GREEN), Threshold(1, RED)),
                line_at_threshold=True,
            ),
            Panel(
                "State over time",
                "state-timeline",
                [Query(f"specmon_state{{{CHOSEN}}} == 1", "{{state}}")],
                "Idle, off, silent and stale are four different things.",
                width=6,
                unit="none",
                mappings={"1": "yes"},
            ),
            Panel(
                "Conditional acceptance by position",
                "timeseries",
                [
                    Query(
                        f"specmon_position_conditional_acceptance_ratio{{{WINDOW}}}", "position {{position}}"
                    )
                ],
                "Accepted at a position of those accepted at the one before (first: of all drafts). "
                "All positions down: traffic or target model. Only later ones: the draft.",
                unit="percentunit",
                minimum=0,
                maximum=1,
            ),
            Panel(
                "Marginal acceptance by position",
                "timeseries",
                [Query(f"specmon_position_acceptance_ratio{{{WINDOW}}}", "position {{position}}")],
                "Accepted at a position of all drafts.",
                unit="percentunit",
                minimum=0,
                maximum=1,
            ),
            Panel(
                "Constant acceptance α and coverage",
                "timeseries",
                [
                    Query(f"specmon_acceptance_alpha{{{WINDOW}}}", "α (model value)"),
                    Query(f"specmon_draft_coverage_ratio{{{WINDOW}}}", "steps with a draft"),
                ],
                "α: the constant conditional acceptance with the same MAL, a model value.",
                unit="percentunit",
                minimum=0,
                maximum=1,
            ),
        ),
    )


def _speed() -> Row:
    return Row(
        "Speed",
        (
            Panel(
                "Time per output token",
                "timeseries",
                [
                    Query(f"specmon_implied_tpot_seconds{{{WINDOW}}}", "implied"),
                    Query(f"specmon_observed_tpot_seconds{{{WINDOW}}}", "observed"),
                ],
                "Implied: step time ÷ tokens per step. Observed: from latencies of finished requests.",
                unit="s",
            ),
            Panel(
                "Step time",
                "timeseries",
                [Query(f"specmon_step_seconds{{{WINDOW}}}", "step")],
                "One engine step, draft and verification included. It rises with load, not with acceptance.",
                unit="s",
            ),
            Panel(
                "Tokens per step and speed-up",
                "timeseries",
                [
                    Query(f"specmon_tokens_per_step{{{WINDOW}}}", "tokens per step"),
                    Query(f"specmon_speculation_speedup_ratio{{{WINDOW}}}", "speed-up"),
                ],
                "The speed-up needs the plain step time in the settings.",
                decimals=2,
            ),
        ),
    )


def _evidence() -> Row:
    length = f"rate(specmon_draft_tokens_total{{{CHOSEN}}}[$__rate_interval])"
    drafts = f"rate(specmon_drafts_total{{{CHOSEN}}}[$__rate_interval])"
    return Row(
        "Evidence",
        (
            Panel(
                "Drafts per second",
                "timeseries",
                [Query(drafts, "drafts")],
                "Few drafts, wide intervals, late alarms.",
                unit="cps",
                minimum=0,
            ),
            Panel(
                "Draft tokens per draft",
                "timeseries",
                [Query(f"{length} / ({drafts} > 0)", "draft tokens per draft")],
                "The number of speculative tokens in effect. Where it moves, MAL moves without any fault.",
                decimals=2,
                minimum=0,
            ),
            Panel(
                "Counters that contradict each other",
                "timeseries",
                [Query(f"increase(specmon_data_quality_violations_total{{{CHOSEN}}}[1h])", "{{check}}")],
                "Pages per hour that violate an identity between the engine's own counters.",
                minimum=0,
            ),
        ),
    )
