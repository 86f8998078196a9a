"""Nothing is promised that is not there: settings do something, and what texts tell people to use exists."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from monitor import settings
from monitor.service import commands
from monitor.web import app
from tests import readme

ROOT = Path(__file__).parents[1]
SHELL = [
    path
    for path in (ROOT / "monitor").rglob("*.py")
    if not path.is_relative_to(ROOT / "monitor" / "settings")
]
TEXTS = sorted(
    [
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "alerts").rglob("*.md"),
        *(ROOT / "deploy").rglob("*.md"),
    ]
)
PAGES = sorted((ROOT / "monitor" / "web").rglob("*.py"))
# Read through a property of their section, which the shell asks: the setting, and that property.
ASKED_AS = {"web.listen_address": "sockets", "web.allowed_hosts": "hosts"}
# The first word of each of our paths, and where others' begin alike: of engines, of Prometheus, of receivers.
OURS = re.compile(r"(?<![\w./}-])(/(?:-|api|report|probe|targets|config)(?:/[\w.{}/-]*)?)(?=[`?\s)\"'#,;]|$)")


@cache
def _read_outside_settings() -> frozenset[str]:
    """The names of all attributes that modules outside the settings' room read."""
    return frozenset(
        node.attr
        for path in SHELL
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )


@pytest.mark.parametrize("name", [setting.name for setting in settings.describe()])
def test_every_setting_is_read(name: str) -> None:
    """A setting that nobody reads promises what does not happen; each is read where something is done with it."""
    parts = name.replace("[]", "").split(".")
    if name in ASKED_AS:
        parts[-1] = ASKED_AS[name]
    assert [part for part in parts if part not in _read_outside_settings()] == []


@cache
def _paths() -> tuple[re.Pattern[str], ...]:
    """What each route of the server takes, a stream or an event being any text."""
    served = app.application(lambda: pytest.fail("no request is made"))
    found = {route.resource.canonical for route in served.router.routes() if route.resource is not None}
    return tuple(re.compile(re.sub(r"\\{[^}]*\\}", ".+", re.escape(path))) for path in found)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_named_for_people_are_served(path: Path) -> None:
    """A path of specmon that a text names is one of the server's."""
    spans = re.findall(r"`[^`\n]*`", path.read_text())
    named = {match[1] for span in spans for match in OURS.finditer(span)} - {"/api/v1"}  # all of them
    assert [each for each in named if not any(route.fullmatch(each) for route in _paths())] == []


def _flags() -> frozenset[str]:
    flags = {readme.names(setting.name)[0] for setting in settings.describe() if not setting.nested}
    for name in commands.COMMANDS:
        parser = argparse.ArgumentParser()
        module = importlib.import_module(f"monitor.service.commands.{name.replace('-', '_')}")
        module.add_arguments(parser)
        flags |= set(parser._option_string_actions)
    return frozenset(flags | {"--version", "--help"})


@pytest.mark.parametrize("path", [*TEXTS, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_flags_named_for_people_exist(path: Path) -> None:
    """Each `specmon …` in a text or on a page is a command, with flags that it takes."""
    spans = re.findall(r"`(specmon [^`]*)`", path.read_text())
    calls = [span.split() for span in spans]
    assert [call for call in calls if call[1] not in {*commands.COMMANDS, "--version", "--help"}] == []
    given = {word.split("=")[0] for call in calls for word in call[2:] if re.match("--[a-z]", word)}
    assert given <= _flags()
