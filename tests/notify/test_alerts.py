"""What a notification says: names and labels of the rules, sizes, time, cost, causes and links."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from monitor.core import events
from monitor.core.detectors.base import Level
from monitor.core.events import event_records
from monitor.core.events.attribution import Attribution
from monitor.core.pages import scrapes
from monitor.core.vocabulary import EVENT_KINDS
from monitor.notify import alerts
from monitor.notify.plan import LinkBases, NotifyPlan, Receiver
from tests.notify.made import CLOSED, LABELS, RAISED, event, fleet_event

if TYPE_CHECKING:
    from monitor.core.vocabulary import Severity

ROOT = Path(__file__).parents[2]
SITE = LinkBases("https://specmon.example.com", "https://example.com/runbooks")
NAMINGS = sorted({*alerts.NAMES.values(), *alerts.FLEET_NAMES.values()}, key=lambda naming: naming.name)

GOLDEN = {
    "labels": {
        "team": "search",
        "severity": "critical",
        "alertname": "SpecmonAcceptanceCollapsed",
        "scope": "replica",
        "trouble": "acceptance",
        "kind": "collapse",
        "target": "vllm-3:8000",
        "model_name": "meta/llama-70b",
        "replica": "0",
    },
    "annotations": {
        "summary": (
            "Speculation stopped paying: meta/llama-70b on vllm-3:8000 (replica 0): MAL 3.16 → 1.07, "
            "a token takes 2.3× as long."
        ),
        "description": (
            "meta/llama-70b on vllm-3:8000 (replica 0): mean acceptance length 3.16 (3.10 to 3.22) before, "
            "1.07 (1.05 to 1.09) after, since 2023-11-14 22:13:20 UTC; 97 % of speculation's benefit is lost, "
            "a token takes 2.3× as long; likely causes: draft (weight 0.80: draft_model went from eagle-1 to "
            "eagle-2), unknown (weight 0.20: no cause is exported)."
        ),
        "runbook_url": "https://example.com/runbooks/SpecmonAcceptanceCollapsed.md",
        "report_url": "https://specmon.example.com/report/events/a1b2c3d4e5f60718",
    },
    "startsAt": "2023-11-14T22:13:50Z",
    "endsAt": "2023-11-14T22:18:20Z",
    "generatorURL": "https://specmon.example.com/report/events/a1b2c3d4e5f60718",
}


def test_the_alert_of_an_open_event() -> None:
    """Golden: an open collapse, posted half a minute after it was raised, for four resend intervals."""
    assert alerts.alert(event(), LABELS, SITE, RAISED + 30, lifetime=240.0) == GOLDEN


def test_a_closed_event_ends_its_alert() -> None:
    """The labels stay, the end is that of the event, and the text says from when to when."""
    made = alerts.alert(event(closed_at=CLOSED), LABELS, SITE, CLOSED + 99, lifetime=240.0)
    assert made["labels"] == GOLDEN["labels"]
    assert made["endsAt"] == "2023-11-14T22:25:50Z"
    assert "from 2023-11-14 22:13:20 UTC to 2023-11-14 22:25:50 UTC, over" in str(made["annotations"])


def test_what_is_told_late_is_shown_for_a_while() -> None:
    """An event that nobody was told of while it lasted is shown as firing, and its text says that it is over."""
    made = alerts.alert(event(closed_at=CLOSED), LABELS, SITE, CLOSED + 60, lifetime=240.0, late=True)
    assert (made["startsAt"], made["endsAt"]) == ("2023-11-14T22:13:50Z", "2023-11-14T22:31:50Z")
    assert ", over;" in str(made["annotations"])


def test_nothing_leads_nowhere() -> None:
    """Without an address of ours and of the runbooks there are no links, rather than broken ones."""
    made = alerts.alert(event(), {}, LinkBases(), RAISED, lifetime=240.0)
    assert "generatorURL" not in made
    assert "_url" not in str(made)


def test_the_alert_of_a_fleet() -> None:
    """Many replicas are one alert, named as the rules name it, without target and replica."""
    made = alerts.alert(fleet_event(), {}, SITE, RAISED, lifetime=240.0)
    assert made["labels"] == {
        "alertname": "SpecmonFleetAcceptanceCollapsed",
        "severity": "critical",
        "scope": "fleet",
        "trouble": "acceptance",
        "kind": "collapse",
        "model_name": "meta/llama-70b",
    }
    assert "meta/llama-70b on 2 replicas: mean acceptance" in str(made["annotations"])


def test_the_body_for_a_webhook() -> None:
    """A webhook gets the event as the API has it, and beside it the target's labels, the texts and the links."""
    made = alerts.body(event(), LABELS, SITE)
    assert {name: made[name] for name in event()} == event()
    assert made["labels"] == LABELS
    assert {name: made[name] for name in ("summary", "description", "runbook_url", "report_url")} == GOLDEN[
        "annotations"
    ]


UNKNOWN = Level(math.nan, math.nan, math.nan, (), 0.0)


def test_unknown_values_are_left_out() -> None:
    """A note without levels, cost and causes is a sentence still, and never has a None or a NaN in it."""
    key = scrapes.StreamKey("a:1", "", "0")
    note = events.noted("s", key, "speculation_off", RAISED, Attribution((), ()))
    made = alerts.texts(event_records.as_json(note), LinkBases())
    assert made["summary"] == "The model on a:1 (replica 0) no longer speculates."
    assert made["description"] == "the model on a:1 (replica 0): at 2023-11-14 22:13:50 UTC."
    half = alerts.description(event(after=UNKNOWN))
    assert "3.16 (3.10 to 3.22) before, – after, since" in half
    assert not {"None", "nan"} & set(half.split())


@pytest.mark.parametrize("kind", EVENT_KINDS)
@pytest.mark.parametrize("names", [alerts.NAMES, alerts.FLEET_NAMES], ids=["replica", "fleet"])
def test_every_kind_has_a_name(kind: str, names: dict[str, alerts.Naming]) -> None:
    """No event is without an alert."""
    assert names[kind].name.startswith("Specmon")


@pytest.mark.parametrize("naming", NAMINGS, ids=lambda naming: naming.name)
def test_names_are_those_of_the_rules(naming: alerts.Naming) -> None:
    """A rule of that name has the same `trouble` and a runbook; where there is none, no runbook is linked."""
    rule = ROOT / "alerts" / "rules" / f"{naming.name}.yaml"
    assert rule.exists() == naming.runbook
    assert (ROOT / "alerts" / "runbooks" / f"{naming.name}.md").exists() == naming.runbook
    if rule.exists():
        source = yaml.safe_load(rule.read_text())
        scope = "fleet" if "Fleet" in naming.name else naming.scope
        assert (source["trouble"], source["scope"]) == (naming.trouble, scope)


@pytest.mark.parametrize(
    ("least", "told"),
    [
        ("info", ["info", "warning", "critical"]),
        ("warning", ["warning", "critical"]),
        ("critical", ["critical"]),
    ],
)
def test_the_least_severity(least: Severity, told: list[str]) -> None:
    """What is less severe than the setting is not told."""
    plan = NotifyPlan(min_severity=least)
    assert [each for each in ("info", "warning", "critical") if plan.covers(each)] == told


@pytest.mark.parametrize(
    ("kind", "url", "shown"),
    [
        ("alertmanager", "http://user:hunter2@am:9093/prefix", "http://am:9093/prefix"),
        ("webhook", "https://hooks.example.com/services/hunter2?key=hunter2", "https://hooks.example.com/…"),
    ],
)
def test_a_log_shows_no_secret(kind: str, url: str, shown: str) -> None:
    """Passwords, and the paths of webhooks, are not shown."""
    assert Receiver("webhook" if kind == "webhook" else "alertmanager", "a", url).shown == shown
