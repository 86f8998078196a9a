"""The unit for machines without Kubernetes: systemd knows every key, little can be done from inside it."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from monitor import settings
from monitor.service import commands
from tests.deploy import manifests

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = manifests.ROOT / "deploy" / "systemd"
UNIT = (FOLDER / "specmon.service").read_text()
# systemd's own scale of exposure goes from 0 to 100 in tenths: below 20 it says OK.
MOST_EXPOSED = 15


def _complaints(unit: Path) -> list[str]:
    """What `systemd-analyze verify` says about the unit, not about others of this machine."""
    return [
        line for line in _analyze("verify", "--man=no", str(unit)).stderr.splitlines() if unit.name in line
    ]


def _analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    tool = shutil.which("systemd-analyze")
    if tool is None:
        pytest.skip("systemd-analyze is not on PATH: the unit was not checked")
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=False, timeout=60)


def test_systemd_knows_every_key(tmp_path: Path) -> None:
    """The manager finds no unknown key, no wrong value and no missing dependency."""
    unit = tmp_path / "specmon.service"
    unit.write_text(UNIT.replace("/opt/specmon/bin/specmon", "/bin/true"))
    assert _complaints(unit) == []


def test_a_misspelt_key_would_be_noticed(tmp_path: Path) -> None:
    """A key that systemd does not know is only a warning; the test above sees it."""
    unit = tmp_path / "specmon.service"
    unit.write_text(
        UNIT.replace("/opt/specmon/bin/specmon", "/bin/true").replace("ProtectHome", "ProtectHomes")
    )
    assert any("ProtectHomes" in line for line in _complaints(unit))


def test_little_is_exposed() -> None:
    """By systemd's own measure the service could do little."""
    done = _analyze(
        "security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(FOLDER / "specmon.service")
    )
    assert done.returncode == 0, done.stdout[-300:]


def test_its_commands_exist() -> None:
    """What it starts are commands of specmon with flags that they have."""
    started = re.findall(r"^Exec\w+=/opt/specmon/bin/specmon (\S+)((?: .*)?)$", UNIT, re.MULTILINE)
    assert [command for command, _ in started] == ["check-config", "run"]
    assert {command for command, _ in started} <= set(commands.COMMANDS)
    assert all(rest == " --config ${CONFIGURATION_DIRECTORY}/specmon.yaml" for _, rest in started)


def test_its_settings_are_taken() -> None:
    """The example file and the unit's variables are settings of specmon."""
    (line,) = re.findall(r"^Environment=(.*)$", UNIT, re.MULTILINE)
    variables = dict(pair.split("=", 1) for pair in line.split())
    found = settings.load({}, variables, str(FOLDER / "specmon.yaml"))
    assert [target.label for target in found.targets] == ["127.0.0.1:8000"]
    state = re.findall(r"^StateDirectory=(.*)$", UNIT, re.MULTILINE)
    assert found.store.path.startswith(f"/var/lib/{state[0]}/")


def test_a_usage_error_is_not_tried_again() -> None:
    """The exit code that the unit does not restart on is specmon's code for usage."""
    assert f"RestartPreventExitStatus={commands.UNUSABLE}\n" in UNIT
