"""README says what the code does: its tables are current, what it names exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from monitor import settings
from monitor.service import commands
from tests import readme

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def text() -> str:
    """README.md as it is."""
    return readme.README.read_text()


def test_generated_parts_are_current(text: str) -> None:
    """README's tables are what the code makes now (`make format` writes them)."""
    assert sorted(readme.parts(text)) == sorted(readme.PARTS)
    assert readme.up_to_date(text) == text


def test_every_setting_is_described(text: str) -> None:
    """Each setting is a row of README's table, says what it means, and no row is left of one that is gone."""
    known = {setting.name: setting for setting in settings.describe()}
    rows = re.findall(r"^\| `([a-z_.\[\]]+)` \| ", readme.settings_table(), re.MULTILINE)
    assert readme.settings_table() in text
    assert rows == list(known)
    assert [name for name, setting in known.items() if not setting.description.endswith(".")] == []


def test_settings_named_in_the_text_exist(text: str) -> None:
    """A flag or variable that README names is one of specmon's."""
    plain = [setting.name for setting in settings.describe() if not setting.nested]
    flags, variables = zip(*map(readme.names, plain), strict=True)
    named_variables = set(re.findall(r"SPECMON_[A-Z_]+[A-Z]", text))
    named_flags = set(re.findall(r"(?<![\w-])--[a-z]+\.[a-z.-]+[a-z]", text))
    assert named_variables <= {*variables, "SPECMON_CONFIG"}
    assert named_flags <= set(flags)


def test_commands_named_in_the_text_exist(text: str) -> None:
    """Each command of specmon is in README, and README's `specmon …` commands exist."""
    named = set(re.findall(r"`specmon ([a-z-]+)", text))
    assert named == set(commands.COMMANDS)


def test_make_targets_named_in_the_text_exist(text: str) -> None:
    """README's `make …` commands are targets of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)) <= targets


def test_dependencies_are_justified(text: str) -> None:
    """README says why each dependency is here, and of no other one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = {extra: lines for extra, lines in project["optional-dependencies"].items() if extra != "dev"}
    required = [(_name(line), "") for line in project["dependencies"]]
    required += [(_name(line), extra) for extra, lines in optional.items() for line in lines]
    _, _, section = text.partition("## Why each dependency is here")
    assert re.findall(r"^- `([^`]+)`(?: \(`specmon\[(\w+)\]`\))?: \S", section, re.MULTILINE) == required


def _name(requirement: str) -> str:
    return re.split(r"[<>=~!\[; ]", requirement)[0]


def test_exit_codes_are_documented(text: str) -> None:
    """The exit codes of README are those of the code."""
    said = {int(code) for code in re.findall(r"\*\*(\d)\*\*", text)}
    assert said == {commands.FINE, commands.FOUND, commands.UNUSABLE, commands.UNDECIDED}


def test_each_fault_names_a_test_that_exists(text: str) -> None:
    """README's table of faults: what specmon does is shown by a test of that name, in the file that is named."""
    rows = re.findall(r"^\| .+ \| .+ \| `(tests/[a-z_/0-9]+\.py)::(test_\w+)` \|$", text, re.MULTILINE)
    assert len(rows) == text.partition("| fault | ")[2].partition("\n\n")[0].count("\n| ") - 1 > 20
    missing = [
        f"{file}::{name}"
        for file, name in rows
        if f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert missing == []
