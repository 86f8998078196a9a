"""For those who run the rules alone: the engines' own counters in one vocabulary, against the week before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alerts.grafana import board
from alerts.grafana.board import Board, Row, Variable
from alerts.grafana.panels import Panel, Query

if TYPE_CHECKING:
    from collections.abc import Mapping

CHOSEN = 'model_name=~"$model_name",instance=~"$instance"'
STREAM = "{{model_name}} {{instance}} {{replica}}"


def dashboard(site: Mapping[str, str]) -> Board:
    """Return the dashboard `specmon-rules`."""
    return Board(
        uid="specmon-rules",
        title="specmon / Rules only",
        description="Speculative decoding from recording rules over the engines' counters, without specmon.",
        variables=(
            # llama.cpp names no model: "All" has to match an absent label too.
            Variable("model_name", "stream:spec_drafts:increase15m", "model_name"),
            Variable("instance", 'stream:spec_drafts:increase15m{model_name=~"$model_name"}', "instance"),
        ),
        rows=(_acceptance(), _evidence()),
        links=board.vllm_dashboard(site["grafana"]),
    )


def _acceptance() -> Row:
    return Row(
        "Acceptance",
        (
            Panel(
                "Mean acceptance length",
                "timeseries",
                [
                    Query(f"stream:spec_mean_acceptance_length:judged15m{{{CHOSEN}}}", STREAM),
                    Query(f"stream:spec_mean_acceptance_length:usual{{{CHOSEN}}}", f"usual {STREAM}"),
                ],
                "1 + accepted tokens ÷ drafts over 15 minutes, where there are 500 drafts or more.",
                width=12,
                decimals=2,
            ),
            Panel(
                "Benefit lost against the week before",
                "timeseries",
                [Query(f"stream:spec_benefit_lost:ratio{{{CHOSEN}}}", STREAM)],
                "Says nothing while the number of draft tokens differs from the usual one.",
                width=12,
                unit="percentunit",
            ),
            Panel(
                "Conditional acceptance by position",
                "timeseries",
                [
                    Query(
                        f"stream:spec_position_conditional_acceptance:ratio15m{{{CHOSEN}}}",
                        f"position {{{{position}}}} {STREAM}",
                    )
                ],
                "Accepted at a position of those accepted at the one before; from the second position on.",
                width=12,
                unit="percentunit",
                minimum=0,
                maximum=1,
            ),
            Panel(
                "Time per output token",
                "timeseries",
                [
                    Query(f"stream:spec_tpot_seconds:mean15m{{{CHOSEN}}}", STREAM),
                    Query(f"stream:spec_tpot_seconds:usual{{{CHOSEN}}}", f"usual {STREAM}"),
                ],
                "Per token, not per step.",
                width=12,
                unit="s",
            ),
        ),
    )


def _evidence() -> Row:
    return Row(
        "Evidence",
        (
            Panel(
                "Drafts in 15 minutes",
                "timeseries",
                [Query(f"stream:spec_drafts:increase15m{{{CHOSEN}}}", STREAM)],
                "Below 500 nothing is judged.",
                width=12,
                minimum=0,
            ),
            Panel(
                "Draft tokens per draft",
                "timeseries",
                [Query(f"stream:spec_draft_length:ratio15m{{{CHOSEN}}}", STREAM)],
                "The number of speculative tokens in effect.",
                width=12,
                decimals=2,
                minimum=0,
            ),
        ),
    )
