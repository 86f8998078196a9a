"""`specmon rules`: alert rules, dashboards and runbooks of this version, with your addresses in them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import monitor
from monitor.service import commands

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

PLAIN = "specmon.rules.yaml"
EXAMPLE = "alertmanager.example.yml"
FOLDERS = ("generated", "dashboards", "runbooks")
_SITE = "site.yaml"
_LINKS = {
    "runbooks": "the runbooks are published: links lead to URL/<Alert>.md",
    "report": "people reach specmon (its web.external_url)",
    "grafana": "people reach Grafana",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which file, and where links in it are to lead."""
    parser.add_argument(
        "name", metavar="NAME", nargs="?", default=PLAIN, help=f"one that --list names (default: {PLAIN})"
    )
    several = parser.add_mutually_exclusive_group()
    several.add_argument("--list", action="store_true", help="print the names of all files instead")
    several.add_argument("--write", metavar="FOLDER", type=Path, help="write all files into it instead")
    for name, meaning in _LINKS.items():
        parser.add_argument(f"--{name}-url", metavar="URL", help=f"where {meaning}")


def run(arguments: argparse.Namespace) -> int:
    """Print one file, the names of all, or write all."""
    folder = _folder()
    found = _files(folder)
    if arguments.list:
        print("\n".join(found))
        return commands.FINE
    wanted = list(found) if arguments.write else [arguments.name]
    if not found.keys() >= set(wanted):
        raise commands.Unusable(f"read {arguments.name!r}, expected one that `specmon rules --list` names")
    addresses = _addresses(folder, arguments)
    for name in wanted:
        text = _linked(found[name].read_text(encoding="utf-8"), addresses)
        if arguments.write:
            _write(arguments.write / name, text)
        else:
            sys.stdout.write(text)
    return commands.FINE


def _folder() -> Path:
    """Where the files are: within an installed package, beside it in a checkout."""
    package = Path(monitor.__file__).parent
    installed = package / "alerts"
    return installed if installed.is_dir() else package.parent / "alerts"


def _files(folder: Path) -> dict[str, Path]:
    """Every file by its name."""
    paths = [path for name in FOLDERS for path in sorted((folder / name).iterdir())]
    return {path.name: path for path in (*paths, folder / EXAMPLE)}


def _addresses(folder: Path, arguments: argparse.Namespace) -> dict[str, str]:
    """What links lead to as the files come → where they are to lead."""
    from monitor.settings import documents

    site = cast("Mapping[str, str]", documents.read((folder / _SITE).read_text(encoding="utf-8")))
    return {site[name]: getattr(arguments, f"{name}_url") or site[name] for name in _LINKS}


def _linked(text: str, addresses: Mapping[str, str]) -> str:
    """The text with other addresses; of two that begin alike the longer one is meant where it stands."""
    known = "|".join(re.escape(address) for address in sorted(addresses, key=len, reverse=True))
    return re.sub(known, lambda found: addresses[found[0]].rstrip("/"), text)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise commands.Unusable(f"{path}: {error.strerror}") from error
