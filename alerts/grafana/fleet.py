"""The fleet at a glance: which streams are in trouble, and what moved everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alerts.grafana import board
from alerts.grafana.board import Board, Row, Variable
from alerts.grafana.panels import Panel, Query, Threshold

if TYPE_CHECKING:
    from collections.abc import Mapping

CHOSEN = 'model_name=~"$model_name",target=~"$target"'
WINDOW = f'window="5m",{CHOSEN}'
TROUBLE = 'state=~"collapsed|silent|drifting|stale"'
REPLICAS = "target, replica, instance, pod"
WORST = "max without (instance, pod, job, namespace, service, endpoint, container)"
RED, ORANGE, GREEN = "red", "orange", "green"


def dashboard(site: Mapping[str, str]) -> Board:
    """Return the dashboard `specmon-fleet`."""
    return Board(
        uid="specmon-fleet",
        title="specmon / Fleet",
        description="Speculative decoding over all engines: who stopped paying, since when, at what cost.",
        variables=(
            Variable("model_name", "specmon_state", "model_name"),
            Variable("target", 'specmon_state{model_name=~"$model_name"}', "target"),
        ),
        rows=(_now(), _table(site), _over_time()),
        links={"Report": f"{site['report']}/report", **board.vllm_dashboard(site["grafana"])},
        notes={"Change": f"specmon_last_change_timestamp_seconds{{{CHOSEN}}} * 1000"},
    )


def _count(state: str) -> Query:
    return Query(f'count(specmon_state{{state="{state}",{CHOSEN}}} == 1)', state, instant=True)


def _now() -> Row:
    states = (
        "collapsed",
        "silent",
        "drifting",
        "improved",
        "ok",
        "warming",
        "idle",
        "off",
        "stale",
        "unsupported",
    )
    return Row(
        "Now",
        (
            Panel(
                "Streams by state",
                "stat",
                [_count(state) for state in states],
                "Each stream is in exactly one state. A state that no stream is in is not shown.",
                width=14,
                height=5,
            ),
            Panel(
                "Open changes",
                "stat",
                [Query(f"count by (kind) (specmon_change_active{{{CHOSEN}}})", "{{kind}}", instant=True)],
                "Events that are open, by kind. No data: none is open.",
                width=6,
                height=5,
                thresholds=(Threshold(None, ORANGE),),
            ),
            Panel(
                "Worst benefit lost",
                "stat",
                [Query(f"max(specmon_benefit_lost_ratio{{{CHOSEN}}})", "worst", instant=True)],
                "(Baseline MAL − MAL) ÷ (baseline MAL − 1) of the stream that lost most.",
                unit="percentunit",
                width=4,
                height=5,
                thresholds=(Threshold(None, GREEN), Threshold(0.25, ORANGE), Threshold(0.5, RED)),
            ),
        ),
    )


def _table(site: Mapping[str, str]) -> Row:
    labels = ("target", "model_name", "replica", "state")
    values = {
        "Value #B": "MAL (5m)",
        "Value #C": "Baseline MAL",
        "Value #D": "Benefit lost",
        "Value #E": "Drift score",
        "Value #F": "Last change",
    }
    key = (
        "${__data.fields.target:percentencode}~${__data.fields.model_name:percentencode}"
        "~${__data.fields.replica:percentencode}"
    )
    stream = (
        "/d/specmon-stream?var-target=${__data.fields.target:percentencode}"
        "&var-model_name=${__data.fields.model_name:percentencode}"
        "&var-replica=${__data.fields.replica:percentencode}"
    )
    queries = (
        f"{WORST} (specmon_state{{{CHOSEN}}} == 1)",
        f'{WORST} (max without (window) (specmon_mean_acceptance_length{{window="5m",{CHOSEN}}}))',
        f"{WORST} (specmon_baseline_mean_acceptance_length{{{CHOSEN}}})",
        f"{WORST} (specmon_benefit_lost_ratio{{{CHOSEN}}})",
        f'{WORST} (max without (direction) (specmon_drift_score{{direction="down",{CHOSEN}}}))',
        f"{WORST} (specmon_last_change_timestamp_seconds{{{CHOSEN}}}) * 1000",
    )
    return Row(
        "Streams",
        (
            Panel(
                "Every stream",
                "table",
                [Query(expr, instant=True) for expr in queries],
                "A click on the target opens the stream's dashboard, on the model its page in the report.",
                width=24,
                height=10,
                decimals=2,
                columns={**{name: name for name in labels}, **values},
                units={"Benefit lost": "percentunit", "Last change": "dateTimeAsIso"},
                links={"target": stream, "model_name": f"{site['report']}/report/{key}"},
            ),
        ),
    )


def _over_time() -> Row:
    accepted = f"sum without ({REPLICAS}) (rate(specmon_accepted_tokens_total{{{CHOSEN}}}[$__rate_interval]))"
    drafts = f"sum without ({REPLICAS}) (rate(specmon_drafts_total{{{CHOSEN}}}[$__rate_interval]))"
    mal = f'specmon_mean_acceptance_length{{window="5m",{CHOSEN}}}'
    return Row(
        "Over time",
        (
            Panel(
                "Mean acceptance length, pooled by model",
                "timeseries",
                [Query(f"1 + {accepted} / ({drafts} > 0)", "{{model_name}}")],
                "1 + accepted tokens ÷ drafts over all replicas: sums first. No traffic is a gap, not 1.",
                decimals=2,
            ),
            Panel(
                "Mean acceptance length across streams",
                "timeseries",
                [
                    Query(f"min by (model_name) ({mal})", "lowest {{model_name}}"),
                    Query(f"quantile by (model_name) (0.5, {mal})", "median {{model_name}}"),
                    Query(f"max by (model_name) ({mal})", "highest {{model_name}}"),
                ],
                "The odd one out shows as a lowest line that leaves the median.",
                decimals=2,
            ),
            Panel(
                "Streams in trouble",
                "timeseries",
                [
                    Query(
                        f"count by (state) (specmon_state{{{TROUBLE},{CHOSEN}}} == 1)",
                        "{{state}}",
                    )
                ],
                "A state that no stream is in is not drawn.",
                minimum=0,
            ),
            Panel(
                "Time per output token",
                "timeseries",
                [
                    Query(
                        f"quantile by (model_name) (0.5, specmon_implied_tpot_seconds{{{WINDOW}}})",
                        "implied, median {{model_name}}",
                    ),
                    Query(
                        f"quantile by (model_name) (0.5, specmon_observed_tpot_seconds{{{WINDOW}}})",
                        "observed, median {{model_name}}",
                    ),
                ],
                "Implied: step time ÷ tokens per step, at once. Observed: from finished requests, so later.",
                unit="s",
            ),
            Panel(
                "Drafts per second",
                "timeseries",
                [Query(drafts, "{{model_name}}")],
                "The evidence that everything else here stands on.",
                unit="cps",
                minimum=0,
            ),
            Panel(
                "Speed-up of speculation",
                "timeseries",
                [
                    Query(
                        f"quantile by (model_name) (0.5, specmon_speculation_speedup_ratio{{{WINDOW}}})",
                        "median {{model_name}}",
                    )
                ],
                "Plain step time ÷ implied time per output token; below 1 speculation costs time.",
                decimals=2,
                thresholds=(Threshold(None, RED), Threshold(1, GREEN)),
                line_at_threshold=True,
            ),
        ),
    )
