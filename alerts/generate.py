"""Writes what is generated here, or checks it: `python -m alerts.generate [--check]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import yaml

from alerts import manifests, sources
from alerts.grafana import fleet, rules, selfmonitoring, stream

ROOT = Path(__file__).parent
TIERS = {"rules": "specmon", "rules_only": "specmon-rules-only"}
LINKS = frozenset({"runbooks", "report", "grafana"})


def products(root: Path = ROOT) -> dict[Path, str]:
    """Return the text of every generated file by its path; raise `sources.RefusedError` at a wrong source."""
    site = links(root / "site.yaml")
    found: dict[Path, str] = {}
    for folder, name in TIERS.items():
        groups = manifests.groups(sources.read(root / folder), site, name)
        where = root / "generated" / name
        found[where.with_suffix(".rules.yaml")] = manifests.plain(groups, folder)
        found[where.with_suffix(".prometheusrule.yaml")] = manifests.prometheus_rule(groups, folder, name)
        found[where.with_suffix(".vmrule.yaml")] = manifests.vm_rule(groups, folder, name)
    for module in (fleet, stream, selfmonitoring, rules):
        board = module.dashboard(site)
        found[root / "dashboards" / f"{board.uid}.json"] = board.text()
    return found


def links(path: Path) -> dict[str, str]:
    """Return where links lead, without a last slash."""
    found = yaml.safe_load(path.read_text())
    if not isinstance(found, dict) or found.keys() != LINKS:
        raise sources.RefusedError(f"{path}: expected exactly {', '.join(sorted(LINKS))}")
    return {name: str(value).rstrip("/") for name, value in found.items()}


def stale(found: dict[Path, str]) -> list[Path]:
    """Return the files that differ from `found`, and those that nothing makes any more."""
    folders = {path.parent for path in found}
    present = {path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()}
    differing = {path for path, text in found.items() if path not in present or path.read_text() != text}
    return sorted(differing | (present - found.keys()))


def main(arguments: list[str]) -> int:
    """Write the products, or with --check only say which are stale; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m alerts.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    options = parser.parse_args(arguments)
    try:
        found = products()
    except sources.RefusedError as refused:
        sys.stderr.write(f"alerts.generate: {refused}\n")
        return 2
    behind = stale(found)
    if options.check:
        for path in behind:
            sys.stderr.write(f"{path.relative_to(ROOT.parent)} is stale: python -m alerts.generate\n")
        return 1 if behind else 0
    for path in behind:
        if path in found:
            path.parent.mkdir(exist_ok=True)
            path.write_text(found[path])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
