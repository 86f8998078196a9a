"""Each alert on series of the product: it fires in the situations that it is about, and in no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from alerts import generate, sources
from tests.alerts import recording, situations, tools

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

ALERTS = {alert.name: alert for alert in sources.read(generate.ROOT / "rules").alerts}
# About specmon itself, on which no engine has a say: a running one meets each trouble in `e2e/test_monitor_alerts.py`.
OF_THE_MONITOR = {name for name, alert in ALERTS.items() if alert.scope == "monitor"} - {"SpecmonStuck"}
# It needs a reference that people set, which these situations have not: its scenario is in `promtool`.
WRITTEN = {"SpecmonBelowReference"}
SCRAPED = {"instance": "s:10101", "job": "specmon"}


def labels_of(name: str, who: int | str) -> Mapping[str, str]:
    """Return the labels with which an alert fires about an engine, or about the model."""
    alert = ALERTS[name]
    found = {"severity": alert.severity, "scope": alert.scope, "trouble": alert.trouble}
    if who == "fleet":
        return {**found, "job": "specmon", "model_name": situations.MODEL}
    found |= SCRAPED
    if who == "monitor":
        return found
    found |= {"target": f"engine-{who}:8000"}
    if alert.scope == "replica":
        found |= {"model_name": situations.MODEL, "replica": "0"}
    if name == "SpecmonDataQuality":
        found |= {"model_name": situations.MODEL, "replica": "0", "check": "positions_sum"}
    if name == "SpecmonUnknownPage":
        found |= {"reason": "html"}
    return found


@pytest.mark.parametrize("name", situations.SITUATIONS)
def test_alerts(name: str, tmp_path: Path) -> None:
    """At each minute that is looked at, the alerts of the situation are open, of those it names, and no other."""
    checks = [
        {
            "eval_time": f"{minute}m",
            "alertname": alert,
            "exp_alerts": [{"exp_labels": dict(labels_of(alert, who))} for who in open_.get(alert, ())],
        }
        for minute, open_ in situations.SITUATIONS[name].open.items()
        for alert in ALERTS
        if alert not in OF_THE_MONITOR
    ]
    tools.play(name, recording.series(name), checks, tmp_path)


@pytest.mark.parametrize("name", situations.SITUATIONS)
def test_the_product_says_the_same_again(name: str) -> None:
    """A recording is what the product says now (`python -m tests.alerts.recording` records it anew)."""
    assert recording.path(name).read_text() == recording.written(name)


def test_every_alert_but_those_about_specmon_itself_has_a_situation() -> None:
    """An alert that no situation opens was never seen to fire on series of the product."""
    opened = {
        alert for each in situations.SITUATIONS.values() for open_ in each.open.values() for alert in open_
    }
    assert opened == ALERTS.keys() - OF_THE_MONITOR - WRITTEN
