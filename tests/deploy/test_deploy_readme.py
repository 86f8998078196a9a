"""deploy/README.md names what is there: overlays, components, settings, metrics, limits."""

from __future__ import annotations

import re

from monitor import settings
from monitor.service import commands
from tests.deploy import manifests

PAGE = manifests.ROOT / "deploy" / "README.md"
TEXT = PAGE.read_text()


def test_every_overlay_is_named() -> None:
    """Each overlay says in the table whom it is for, and none is named that is not there."""
    assert set(re.findall(r"`overlays/([\w-]+)`", TEXT)) == set(manifests.OVERLAYS)


def test_every_component_is_named() -> None:
    """Each component has its row, and none is left of one that is gone."""
    _, _, table = TEXT.partition("| component | what it adds |")
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == sorted(manifests.COMPONENTS)


def test_links_lead_somewhere() -> None:
    """Each link to a file of the repository leads to one."""
    targets = [found for found in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in found]
    assert targets
    assert [found for found in targets if not (PAGE.parent / found).exists()] == []


def test_settings_and_commands_exist() -> None:
    """The settings and commands that the page names are specmon's."""
    known = {setting.name for setting in settings.describe()}
    sections = {name.partition(".")[0] for name in known}
    named = {name for name in re.findall(r"`([a-z_]+\.[a-z_]+)`", TEXT) if name.partition(".")[0] in sections}
    assert named <= known
    assert set(re.findall(r"specmon (check-[a-z]+)", TEXT)) <= set(commands.COMMANDS)


def test_limits_are_those_of_the_manifests() -> None:
    """The limits that the page explains are those that the manifests set."""
    for name in ("sidecar-deployment", "fleet"):
        limits = manifests.specmon(manifests.pod_spec(manifests.overlay(name)))["resources"]["limits"]
        assert f"({limits['cpu']}, {limits['memory']}" in TEXT


def test_there_are_figures() -> None:
    """The sizing table holds measured rows, from one target to a thousand, that fit the limits."""
    rows = re.findall(r"^\| ([\d,]+) \| (\d+) MiB \| ([\d.]+)m \|", TEXT, re.MULTILINE)
    assert [count for count, _, _ in rows] == ["1", "10", "100", "1,000"]
    limits = {
        name: manifests.specmon(manifests.pod_spec(manifests.overlay(name)))["resources"]["limits"]
        for name in ("sidecar-deployment", "fleet")
    }
    for row, name in ((rows[0], "sidecar-deployment"), (rows[-1], "fleet")):
        assert float(row[1]) < float(limits[name]["memory"].removesuffix("Mi"))
        assert float(row[2]) < float(limits[name]["cpu"].removesuffix("m"))
