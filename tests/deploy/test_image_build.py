"""The build steps of the Dockerfile, run in an empty folder: they work, and what they make runs.

No container engine is here, so the paths of the image lie below a folder of the test. What this leaves out:
the base image, the layers, the platform.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import monitor
from tests.deploy import dockerfile, manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

OFFLINE = re.compile(
    r"NewConnectionError|NameResolutionError|Temporary failure|ProxyError|Network is unreachable"
)
FILE = dockerfile.parse((manifests.ROOT / "deploy" / "Dockerfile").read_text())


def _moved(text: str, root: Path) -> str:
    """The text with the image's absolute paths placed below `root`."""
    return re.sub(r"(?<![\w./-])/(?=(?:opt|src)\b)", f"{root}/", text)


def _environment(root: Path) -> dict[str, str]:
    """The environment of a build: this one without what names another Python environment."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    kept["PATH"] = f"{root / 'bin'}:/usr/bin:/bin"
    for each in FILE.stages[0].of("ENV"):
        kept.update((name, value) for name, _, value in (pair.partition("=") for pair in each.arguments))
    return kept


def _copy(instruction: dockerfile.Instruction, folder: Path) -> None:
    *sources, target = instruction.arguments
    for source in map(Path, sources):
        into = folder / target / source.name if target.endswith("/") else folder / target
        into.parent.mkdir(parents=True, exist_ok=True)
        if (manifests.ROOT / source).is_dir():
            shutil.copytree(manifests.ROOT / source, into, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(manifests.ROOT / source, into)


def _run(text: str, root: Path, folder: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-ec", _moved(text, root)],
        cwd=folder,
        env=_environment(root),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode and OFFLINE.search(done.stderr):
        pytest.skip("the package index cannot be reached: the image's build steps were not run")
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A folder in which all steps of the build stage were run."""
    with tempfile.TemporaryDirectory(prefix="specmon-image-") as name:
        root = Path(name).resolve()
        (root / "bin").mkdir()
        # The base Python, as the base image has it: not the environment that the tests run in.
        (root / "bin" / "python").symlink_to(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
        folder = root
        for each in FILE.stages[0].instructions:
            if each.word == "WORKDIR":
                folder = Path(_moved(each.text, root))
                folder.mkdir(parents=True)
            elif each.word == "COPY":
                _copy(each, folder)
            elif each.word == "RUN":
                _run(each.text, root, folder)
        yield root


def _specmon(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the image's entry point answers; nothing of this process's environment reaches it."""
    (entry,) = FILE.final.of("ENTRYPOINT")
    return subprocess.run(
        [*(_moved(word, root) for word in entry.arguments), *arguments],
        cwd=root / "opt" / "state",
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _everything(root: Path) -> dict[Path, int]:
    return {path: path.lstat().st_mtime_ns for path in root.rglob("*")}


def test_the_entry_point_runs(root: Path) -> None:
    """The installed command knows its version, without the project's folder."""
    done = _specmon(root, "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"specmon {monitor.__version__}")


def test_the_default_command_exists(root: Path) -> None:
    """The command that the image starts is one of specmon's."""
    (command,) = FILE.final.of("CMD")
    done = _specmon(root, *command.arguments, "--help")
    assert done.returncode == 0, done.stderr


def test_settings_can_be_checked(root: Path) -> None:
    """`check-config` has all that it needs and writes nothing: the root may be read-only."""
    before = _everything(root)
    done = _specmon(root, "check-config", "--target", "http://engine-0:8000/metrics")
    assert done.returncode == 0, done.stderr
    assert "http://engine-0:8000/metrics" in done.stdout
    assert _everything(root) == before


def test_rules_and_dashboards_are_in_it(root: Path) -> None:
    """`specmon rules` prints the alert rules of this project without the project's folder."""
    done = _specmon(root, "rules")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (manifests.ROOT / "alerts" / "generated" / "specmon.rules.yaml").read_text()


def test_what_the_final_stage_takes_exists(root: Path) -> None:
    """Everything that is copied out of the build stage was made by it."""
    copied = [each.arguments for stage in FILE.stages for each in stage.of("COPY") if "--from" in each.text]
    sources = [words[-2] for words in copied]
    assert sources
    assert [path for path in sources if not Path(_moved(path, root)).exists()] == []


def test_the_image_has_no_installer(root: Path) -> None:
    """What runs has neither pip nor a build tool, and its bytecode is there: nothing is left to write."""
    packages = next((root / "opt" / "specmon" / "lib").glob("python3.*/site-packages"))
    installed = {path.name.partition("-")[0] for path in packages.glob("*.dist-info")}
    assert "specmon" in installed
    assert not installed & {"pip", "setuptools", "hatchling", "cyclonedx_bom"}
    assert any((packages / "monitor").rglob("*.pyc"))


def test_the_list_of_contents_is_complete(root: Path) -> None:
    """The SBOM names every installed package with its version, and specmon as what they are for."""
    found = json.loads((root / "opt" / "sbom" / "specmon.cdx.json").read_text())
    assert found["bomFormat"] == "CycloneDX"
    assert found["metadata"]["component"]["name"] == "specmon"
    packages = next((root / "opt" / "specmon" / "lib").glob("python3.*/site-packages"))
    installed = {tuple(path.stem.split("-")) for path in packages.glob("*.dist-info")}
    listed = {
        (re.sub(r"[-.]+", "_", each["name"]).lower(), each["version"]) for each in found["components"]
    } | {("specmon", monitor.__version__)}
    assert {(re.sub(r"[-.]+", "_", name).lower(), version) for name, version in installed} <= listed
