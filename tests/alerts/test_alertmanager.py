"""The Alertmanager example: it loads, sends each alert to the right people, and holds back what others say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from alerts import generate, sources
from tests.alerts import servers, tools

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.alerts.servers import Server

    Labels = Mapping[str, str]

CONFIG = generate.ROOT / "alertmanager.example.yml"
ALERTS = {
    alert.name: alert for folder in generate.TIERS for alert in sources.read(generate.ROOT / folder).alerts
}
STREAM = {"target": "a:8000", "model_name": "m", "replica": "0", "namespace": "n", "instance": "s:1"}
ONLY_TARGET = {"target": "a:8000", "namespace": "n", "instance": "s:1"}
FLEET = {"model_name": "m", "namespace": "n"}


def labels_of(name: str, **more: str) -> dict[str, str]:
    """Return the labels with which the rules send an alert."""
    alert = ALERTS[name]
    return {
        "alertname": name,
        "severity": alert.severity,
        "scope": alert.scope,
        "trouble": alert.trouble,
        **more,
    }


def test_amtool_accepts() -> None:
    """Alertmanager's own check finds nothing wrong."""
    assert "SUCCESS" in tools.run(tools.program("amtool"), "check-config", CONFIG)


@pytest.mark.parametrize("name", ALERTS)
def test_routes(name: str) -> None:
    """Critical goes to the pager and nothing else does; warnings make tickets, notes stay notes."""
    wanted = {"critical": "pager", "warning": "tickets", "info": "notes"}[ALERTS[name].severity]
    if name == "SpecmonWatchdog":
        wanted = "dead-mans-switch"
    pairs = [f"{key}={value}" for key, value in labels_of(name).items()]
    said = tools.run(tools.program("amtool"), "config", "routes", "test", f"--config.file={CONFIG}", *pairs)
    assert said.splitlines()[0] == wanted


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A real Alertmanager with the example, whose receivers lead nowhere."""
    folder = tmp_path_factory.mktemp("alertmanager")
    text = CONFIG.read_text()
    config = folder / "alertmanager.yml"
    # Nothing is sent in the test: the wait before a group's first notification is longer than it.
    config.write_text(
        text.replace("group_wait: 30s", "group_wait: 1h").replace("group_wait: 0s", "group_wait: 1h")
    )
    with servers.alertmanager(folder / "data", config) as server:
        yield server


def held_back(server: Server, case: str, alerts: list[dict[str, str]]) -> set[str]:
    """Post alerts that belong to one case, and return the names of those that are inhibited."""
    now = datetime.now(UTC)
    marked = [{**labels, "cluster": case, "namespace": case} for labels in alerts]
    ends = (now + timedelta(hours=1)).isoformat()
    server.ask("POST", "/api/v2/alerts", [{"labels": labels, "endsAt": ends} for labels in marked])

    def processed() -> list[dict[str, dict[str, object]]]:
        found = server.ask("GET", f'/api/v2/alerts?filter=cluster%3D"{case}"')
        assert isinstance(found, list)
        ready = [alert for alert in found if alert["status"]["state"] != "unprocessed"]
        return ready if len(ready) == len(alerts) else []

    found = servers.until(processed, "alerts processed")
    return {str(alert["labels"]["alertname"]) for alert in found if alert["status"]["inhibitedBy"]}


CASES: dict[str, tuple[list[dict[str, str]], set[str]]] = {
    "target_over_drift": (
        [labels_of("SpecmonTargetDown", **ONLY_TARGET), labels_of("SpecmonAcceptanceCollapsed", **STREAM)],
        {"SpecmonAcceptanceCollapsed"},
    ),
    "another_target": (
        [
            labels_of("SpecmonTargetDown", **{**ONLY_TARGET, "target": "b:8000"}),
            labels_of("SpecmonAcceptanceCollapsed", **STREAM),
        ],
        set(),
    ),
    "localhost_of_another_pod": (
        [
            labels_of("SpecmonTargetDown", **ONLY_TARGET, pod="p1"),
            labels_of("SpecmonAcceptanceCollapsed", **STREAM, pod="p2"),
        ],
        set(),
    ),
    "fleet_over_replica": (
        [
            labels_of("SpecmonFleetAcceptanceCollapsed", **FLEET),
            labels_of("SpecmonAcceptanceCollapsed", **STREAM),
        ],
        {"SpecmonAcceptanceCollapsed"},
    ),
    "fleet_warning_leaves_the_page": (
        [
            labels_of("SpecmonFleetAcceptanceCollapsed", **FLEET),
            labels_of("SpecmonCollapseSlowsDecoding", **STREAM),
        ],
        set(),
    ),
    "fleet_page_over_everything_below": (
        [
            labels_of("SpecmonFleetCollapseSlowsDecoding", **FLEET),
            labels_of("SpecmonFleetAcceptanceCollapsed", **FLEET),
            labels_of("SpecmonCollapseSlowsDecoding", **STREAM),
            labels_of("SpecmonAcceptanceCollapsed", **STREAM),
        ],
        {"SpecmonFleetAcceptanceCollapsed", "SpecmonCollapseSlowsDecoding", "SpecmonAcceptanceCollapsed"},
    ),
    "fleet_of_another_model": (
        [
            labels_of("SpecmonFleetAcceptanceCollapsed", **{**FLEET, "model_name": "other"}),
            labels_of("SpecmonAcceptanceCollapsed", **STREAM),
        ],
        set(),
    ),
    "fleet_of_another_trouble": (
        [
            labels_of("SpecmonFleetAcceptanceDropped", **FLEET),
            labels_of("SpecmonSpeculationSilent", **STREAM),
        ],
        set(),
    ),
    "page_over_its_warning": (
        [labels_of("SpecmonCollapseSlowsDecoding", **STREAM), labels_of("SpecmonDeadDraft", **STREAM)],
        {"SpecmonDeadDraft"},
    ),
    "collapse_over_drop": (
        [labels_of("SpecmonAcceptanceCollapsed", **STREAM), labels_of("SpecmonAcceptanceDropped", **STREAM)],
        {"SpecmonAcceptanceDropped"},
    ),
    "specmon_over_rules": (
        [
            labels_of("SpecmonAcceptanceCollapsed", **STREAM),
            labels_of("SpecmonRulesAcceptanceFloor", model_name="m", instance="v:8000"),
            labels_of("SpecmonRulesCollapseSlowsDecoding", model_name="m", instance="v:8000"),
        ],
        {"SpecmonRulesAcceptanceFloor"},
    ),
    "monitor_alerts_are_heard": (
        [labels_of("SpecmonTargetDown", **ONLY_TARGET), labels_of("SpecmonStoreNotWriting", instance="s:1")],
        set(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_inhibition(case: str, alertmanager: Server) -> None:
    """Of alerts that fire together, exactly those are held back that another one says better."""
    alerts, expected = CASES[case]
    assert held_back(alertmanager, case, alerts) == expected
