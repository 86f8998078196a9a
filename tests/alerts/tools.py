"""Runs the real tools of the field over rules and configurations, or skips by name where one is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from alerts import generate, manifests, sources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
GENERATED = generate.ROOT / "generated"
TIERS = {"specmon": "specmon.rules.yaml", "rules-only": "specmon-rules-only.rules.yaml"}


def program(*names: str) -> str:
    """Return the first of `names` that is installed; skip where none is, except in CI, where that is an error."""
    for name in names:
        if found := shutil.which(name):
            return found
    if os.environ.get("CI") == "true":
        pytest.fail(f"{names[0]} is not installed; .ci/system-packages brings it")
    pytest.skip(f"{names[0]} is not installed")


def program_or_skip(name: str) -> str:
    """Return a program that no package of the test set-up brings; skip where it is missing, in CI too."""
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


def run(*command: str | Path) -> str:
    """Return what a command prints; fail with it where the exit code is not 0."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=300, check=False
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def rule_groups(tier: str) -> list[dict[str, object]]:
    """Return the groups of a generated rule file."""
    groups: list[dict[str, object]] = yaml.safe_load((GENERATED / TIERS[tier]).read_text())["groups"]
    return groups


def without_annotations(tier: str, folder: Path) -> Path:
    """Write a tier's rules without annotations, which promtool would have every expected alert repeat in full."""
    groups = rule_groups(tier)
    for group in groups:
        rules = group["rules"]
        assert isinstance(rules, list)
        for rule in rules:
            rule.pop("annotations", None)
    path = folder / f"{tier}.yaml"
    path.write_text(yaml.safe_dump({"groups": groups}, sort_keys=False))
    return path


def with_annotations(tier: str, folder: Path) -> Path:
    """Write a tier's rules as they are, with links that do not depend on `site.yaml`."""
    site = {name: f"https://{name}.example" for name in generate.LINKS}
    path = folder / f"{tier}.yaml"
    sourced = dict(zip(TIERS, generate.TIERS, strict=True))[tier]
    groups = manifests.groups(sources.read(generate.ROOT / sourced), site, tier)
    path.write_text(manifests.plain(groups, sourced))
    return path


def ready_scenarios(scenarios: Path, folder: Path, *, annotations: bool = False) -> Path:
    """Write scenarios whose `rule_files` are names of tiers, or of files beside them, as the tools want them."""
    written_by = with_annotations if annotations else without_annotations
    found = yaml.safe_load(scenarios.read_text())
    found["rule_files"] = [
        str(written_by(name, folder) if name in TIERS else scenarios.parent / name)
        for name in found["rule_files"]
    ]
    written = folder / scenarios.name
    written.write_text(yaml.safe_dump(found, sort_keys=False))
    return written


def promtool_test(scenarios: Path) -> None:
    """Let promtool play the scenarios; fail with what it says."""
    assert "SUCCESS" in run(program("promtool"), "test", "rules", scenarios)


def play(
    name: str, series: Iterable[Mapping[str, str]], checks: Sequence[Mapping[str, object]], folder: Path
) -> None:
    """Let promtool play specmon's rules over series of a value a minute, and check which alerts are open when."""
    scenario = {"name": name, "interval": "1m", "input_series": [dict(each) for each in series]}
    content = {
        "rule_files": [str(without_annotations("specmon", folder))],
        "evaluation_interval": "1m",
        "tests": [{**scenario, "alert_rule_test": [dict(check) for check in checks]}],
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    promtool_test(path)


def vmalert_test(scenarios: Path) -> None:
    """Let vmalert's test tool play the scenarios; values of expressions are left out, it extrapolates otherwise."""
    tool = program_or_skip("vmalert-tool")
    found = yaml.safe_load(scenarios.read_text())
    for scenario in found["tests"]:
        scenario.pop("promql_expr_test", None)
    scenarios.write_text(yaml.safe_dump(found, sort_keys=False))
    run(tool, "unittest", f"--files={scenarios}", "-disableAlertgroupLabel")
