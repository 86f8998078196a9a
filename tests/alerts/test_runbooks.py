"""Runbooks: one per alert, each with what a person who was just woken needs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from alerts import generate, sources
from monitor.notify import alerts as notices
from monitor.service import commands

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = generate.ROOT / "runbooks"
RUNBOOKS = sorted(FOLDER.glob("*.md"))
ALERTS = {
    alert.name: alert for folder in generate.TIERS for alert in sources.read(generate.ROOT / folder).alerts
}


def test_one_per_alert() -> None:
    """Every alert has a runbook, and no runbook is left of an alert that is gone."""
    assert {path.stem for path in RUNBOOKS} == set(ALERTS)


def test_notifications_of_specmon_itself_have_one() -> None:
    """What specmon sends without Prometheus carries the names and troubles of the rules, and links to runbooks."""
    for kind, naming in [*notices.NAMES.items(), *notices.FLEET_NAMES.items()]:
        assert not naming.runbook or naming.name in ALERTS, kind
        assert naming.name not in ALERTS or ALERTS[naming.name].trouble == naming.trouble, kind


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_form(path: Path) -> None:
    """A runbook has the four parts of the common template, and something in each."""
    parts = re.split(r"^#+ (.+)\n", path.read_text(), flags=re.MULTILINE)
    assert parts[0] == ""
    assert parts[1::2] == [path.stem, "Meaning", "Impact", "Diagnosis", "Mitigation"]
    assert all(len(text.strip()) > 20 for text in parts[4::2])


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_what_it_names_exists(path: Path) -> None:
    """Alerts, files, dashboards and commands that a runbook names are there."""
    text = path.read_text()
    assert set(re.findall(r"`(Specmon[A-Za-z]+)`", text)) <= set(ALERTS)
    assert [link for link in re.findall(r"\]\(([^):]+)\)", text) if not (FOLDER / link).is_file()] == []
    boards = {path.stem for path in (generate.ROOT / "dashboards").glob("*.json")}
    assert set(re.findall(r"`(specmon-[a-z]+)`", text)) <= boards
    assert set(re.findall(r"`specmon ([a-z-]+)", text)) <= set(commands.COMMANDS)
    files = re.findall(r"`((?:generated|rules|rules_only)/[^`]+)`", text)
    assert [name for name in files if not (generate.ROOT / name).is_file()] == []
