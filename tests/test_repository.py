"""What is in the repository: nothing that only works on one machine, nothing unpinned."""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = (".ci/requirements.lock", ".ci/requirements-dev.lock")
TOP_LEVEL = frozenset(
    {
        "pyproject.toml",
        "monitor",
        "alerts",
        "deploy",
        "tests",
        "README.md",
        "Makefile",
        "CHANGELOG.md",
        "LICENSE",
    }
)
_ABSOLUTE = re.compile(r"(?<![\w.:/-])/(?:work|root|Users)/\w")


@cache
def files() -> tuple[Path, ...]:
    """Every file that is committed or would be."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is not a clone: no list of files")
    return tuple(
        path for name in listed.stdout.decode().split("\0") if name and (path := ROOT / name).is_file()
    )


def test_the_top_level_is_small() -> None:
    """Beside dotfiles the top level holds the agreed entries only."""
    found = {path.relative_to(ROOT).parts[0] for path in files()}
    assert {name for name in found if not name.startswith(".")} <= TOP_LEVEL


def test_no_path_of_one_machine() -> None:
    """No source, script or document names a folder of the machine that it was written on."""
    fixtures = ROOT / "tests" / "fixtures"
    texts = {path: path.read_bytes() for path in files() if not path.is_relative_to(fixtures)}
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path, body in texts.items()
        if b"\0" not in body
        for match in _ABSOLUTE.finditer(body.decode())
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_pin_versions_and_nothing_else(lock: str) -> None:
    """A lock file has a version and hashes per package, no registry and no option of a package tool."""
    text = (ROOT / lock).read_text()
    entries = text.replace("\\\n", "").splitlines()
    assert entries
    assert [
        line for line in entries if not re.match(r"[a-z0-9._-]+==[^ ]+ (; [^\\]+ )?+ *--hash=sha256:", line)
    ] == []
    assert "://" not in text


def test_locks_cover_what_is_required() -> None:
    """Every dependency is pinned, and tests run with the versions that users get."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run, dev = (_pinned(ROOT / lock) for lock in LOCKS)
    optional = project["optional-dependencies"]
    every = [*project["dependencies"], *optional["dns"], *optional["kubernetes"]]
    assert {_name(line) for line in every} <= {name for name, _ in run}
    assert {_name(line) for line in optional["dev"]} <= {name for name, _ in dev}
    assert run <= dev


def test_shell_scripts_are_strict() -> None:
    """Every shell script stops at the first command that fails and can be run."""
    scripts = [path for path in files() if path.read_bytes().startswith(b"#!/usr/bin/env bash")]
    assert scripts
    assert [path for path in scripts if "set -euo pipefail" not in path.read_text()] == []
    assert [path for path in scripts if not path.stat().st_mode & 0o100] == []


def _pinned(lock: Path) -> set[tuple[str, str]]:
    return set(re.findall(r"^([a-z0-9._-]+)==([^ ]+)", lock.read_text(), re.MULTILINE))


def _name(requirement: str) -> str:
    return re.split(r"[<>=~!\[; ]", requirement)[0].lower().replace("_", "-")
