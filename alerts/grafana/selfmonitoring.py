"""specmon itself: can it read its targets, does it keep up, does it save and deliver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alerts.grafana.board import Board, Row, Variable
from alerts.grafana.panels import Panel, Query, Threshold

if TYPE_CHECKING:
    from collections.abc import Mapping

JOB = 'job=~"$job"'
FAILURES = f"specmon_target_scrape_failures_total{{{JOB}}}"
RED, ORANGE, GREEN = "red", "orange", "green"
UP = (Threshold(None, RED), Threshold(1, GREEN))


def dashboard(site: Mapping[str, str]) -> Board:
    """Return the dashboard `specmon-self`."""
    return Board(
        uid="specmon-self",
        title="specmon / Itself",
        description="Whether the watcher watches: scrapes, state, notifications, memory.",
        variables=(Variable("job", "specmon_build_info", "job"),),
        rows=(_now(), _targets(site), _process()),
        links={"Targets": f"{site['report']}/targets", "Settings": f"{site['report']}/config"},
    )


def _now() -> Row:
    return Row(
        "Now",
        (
            Panel(
                "Running",
                "stat",
                [Query(f"specmon_build_info{{{JOB}}}", "{{version}} {{revision}}", instant=True)],
                "Builds that Prometheus reads. No data: none.",
                unit="none",
                width=6,
                height=4,
                thresholds=(Threshold(None, GREEN),),
            ),
            Panel(
                "Targets read",
                "stat",
                [
                    Query(f"sum(specmon_target_up{{{JOB}}})", "read", instant=True),
                    Query(f"count(specmon_target_up{{{JOB}}} == 0)", "not read", instant=True),
                ],
                "Targets whose last scrape gave a page, and those whose did not.",
                width=6,
                height=4,
            ),
            Panel(
                "Configuration",
                "stat",
                [Query(f"min(specmon_config_last_reload_successful{{{JOB}}})", "loaded", instant=True)],
                "1: the last load succeeded. 0: the old settings are in force.",
                width=4,
                height=4,
                thresholds=UP,
                mappings={"1": "in force", "0": "refused"},
            ),
            Panel(
                "Notifications waiting",
                "stat",
                [Query(f"sum(specmon_notify_queue_length{{{JOB}}})", "waiting", instant=True)],
                "Notifications not yet delivered. No data: specmon delivers none itself.",
                width=4,
                height=4,
            ),
            Panel(
                "State saved",
                "stat",
                [
                    Query(
                        f"max(time() - specmon_store_last_write_timestamp_seconds{{{JOB}}})",
                        "ago",
                        instant=True,
                    )
                ],
                "Time since the state was last written. No data: it is kept in memory only.",
                unit="s",
                width=4,
                height=4,
                thresholds=(Threshold(None, GREEN), Threshold(300, ORANGE), Threshold(600, RED)),
            ),
        ),
    )


def _targets(site: Mapping[str, str]) -> Row:
    return Row(
        "Targets",
        (
            Panel(
                "Scrapes that failed, by reason",
                "timeseries",
                [
                    Query(
                        f"sum by (reason) (rate({FAILURES}[$__rate_interval]))",
                        "{{reason}}",
                    )
                ],
                "`connection` while an engine loads its model is normal.",
                unit="cps",
                minimum=0,
            ),
            Panel(
                "Scrapes per second",
                "timeseries",
                [Query(f"sum(rate(specmon_target_scrapes_total{{{JOB}}}[$__rate_interval]))", "scrapes")],
                "0 while targets are configured: specmon has stopped working.",
                unit="cps",
                minimum=0,
            ),
            Panel(
                "Slowest scrapes",
                "timeseries",
                [Query(f"topk(5, specmon_target_scrape_duration_seconds{{{JOB}}})", "{{target}}")],
                "How long the engines took to answer.",
                unit="s",
                minimum=0,
            ),
            Panel(
                "Targets that are not read",
                "table",
                [
                    Query(f"specmon_target_up{{{JOB}}} == 0", instant=True),
                    Query(
                        f"(time() - specmon_target_last_success_timestamp_seconds{{{JOB}}})"
                        f" and on (target, instance, job) (specmon_target_up{{{JOB}}} == 0)",
                        instant=True,
                    ),
                ],
                "A click shows the last error in specmon. Without an age, there has never been a good page.",
                width=24,
                height=7,
                columns={"target": "target", "instance": "instance", "Value #B": "Last good page"},
                units={"Last good page": "s"},
                links={"target": f"{site['report']}/targets"},
            ),
        ),
    )


def _process() -> Row:
    return Row(
        "Process",
        (
            Panel(
                "Memory",
                "timeseries",
                [Query(f"process_resident_memory_bytes{{{JOB}}}", "{{instance}}")],
                "Resident memory.",
                unit="bytes",
                minimum=0,
            ),
            Panel(
                "Processor",
                "timeseries",
                [Query(f"rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval])", "{{instance}}")],
                "Share of one core.",
                unit="percentunit",
                minimum=0,
            ),
            Panel(
                "Store",
                "timeseries",
                [Query(f"specmon_store_size_bytes{{{JOB}}}", "{{instance}}")],
                "Size of the file that holds state, history and events.",
                unit="bytes",
                minimum=0,
            ),
            Panel(
                "Writes and notifications that failed",
                "timeseries",
                [
                    Query(
                        f"increase(specmon_store_write_failures_total{{{JOB}}}[$__rate_interval])", "store"
                    ),
                    Query(
                        f"increase(specmon_notify_failures_total{{{JOB}}}[$__rate_interval])", "{{receiver}}"
                    ),
                ],
                "Each is tried again; a failure that lasts is an alert.",
                minimum=0,
            ),
        ),
    )
