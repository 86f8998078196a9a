"""`specmon rules`: what an installed package has of `alerts/`, and its links."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING

import yaml

from alerts import generate
from monitor import __main__ as program
from monitor.service import commands
from monitor.service.commands import rules
from tests.alerts import tools

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SITE = generate.links(generate.ROOT / "site.yaml")


def test_it_prints_the_generated_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a name it is the plain rule file, to the byte; with one it is that file."""
    assert program.main(["rules"]) == commands.FINE
    assert capsys.readouterr().out == (tools.GENERATED / rules.PLAIN).read_text()
    assert program.main(["rules", "specmon-fleet.json"]) == commands.FINE
    assert json.loads(capsys.readouterr().out)["uid"] == "specmon-fleet"


def test_links_lead_where_people_say(capsys: pytest.CaptureFixture[str]) -> None:
    """An address is put in the place of its own alone: the runbooks' begins like the report's and stays."""
    assert program.main(["rules", "--report-url", "https://mine.test/specmon/"]) == commands.FINE
    said = capsys.readouterr().out
    assert "https://mine.test/specmon/report/events/" in said
    assert f"{SITE['report']}/report" not in said
    assert f"{SITE['runbooks']}/SpecmonDown.md" in said
    yaml.safe_load(said)


def test_all_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--write` makes the folder and writes each file that `--list` names."""
    folder = tmp_path / "new"
    assert program.main(["rules", "--list"]) == commands.FINE
    names = capsys.readouterr().out.split()
    assert program.main(["rules", "--write", str(folder)]) == commands.FINE
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert {rules.PLAIN, rules.EXAMPLE, "specmon-stream.json", "SpecmonDown.md"} <= set(names)


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that is none of a file is one line and exit code 2."""
    assert program.main(["rules", "specmon.rules.yml"]) == commands.UNUSABLE
    expected = "specmon: read 'specmon.rules.yml', expected one that `specmon rules --list` names\n"
    assert capsys.readouterr().err == expected


def test_the_wheel_has_what_is_printed() -> None:
    """Each folder and file that the command reads is put into the wheel, and into what the wheel is built from."""
    targets = tomllib.loads((tools.ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    wanted = [*rules.FOLDERS, rules.EXAMPLE, "site.yaml"]
    assert targets["wheel"]["force-include"] == {
        f"alerts/{name}": f"monitor/alerts/{name}" for name in wanted
    }
    assert "alerts" in targets["sdist"]["include"]
