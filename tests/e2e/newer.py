"""Unpacks the Prometheus and Alertmanager of a newer Debian beside the system: `python -m tests.e2e.newer FOLDER`.

Nothing is installed. apt works on lists and a cache of its own in FOLDER, with the mirror of this machine; then
`NEWER_GENERATION=FOLDER` has the end-to-end tests run with them too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SUITE = "trixie"
PACKAGES = ("prometheus", "prometheus-alertmanager")
SKIPPED = "there is no newer generation to be had here"


def unpack(folder: Path) -> None:
    """Download and unpack the packages into `folder`; exits with a sentence where that is not possible."""
    listed = _run(
        "apt-get", "indextargets", "--format", "$(REPO_URI)|$(COMPONENT)|$(SIGNED_BY)", folder=folder
    )
    mirrors = [line.split("|") for line in listed.splitlines() if "security" not in line and "|main|" in line]
    if not mirrors:
        sys.exit(f"{SKIPPED}: apt knows no mirror with a component main")
    mirror, _, key = mirrors[0]
    signed = f"[signed-by={key}] " if key.startswith("/") else ""
    source = folder / "sources.list"
    source.write_text(f"deb {signed}{mirror} {SUITE} main\n")
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    own = [
        *("-o", f"Dir::Etc::sourcelist={source}"),
        *("-o", "Dir::Etc::sourceparts=-"),
        *("-o", f"Dir::State::lists={folder / 'lists'}"),
        *("-o", f"Dir::Cache={folder / 'cache'}"),
        *("-o", "APT::Sandbox::User=root"),
    ]
    _run("apt-get", *own, "update", folder=folder)
    _run("apt-get", *own, "download", *PACKAGES, folder=folder)
    for package in sorted(folder.glob("*.deb")):
        _run("dpkg-deb", "-x", str(package), str(folder), folder=folder)


def _run(*command: str, folder: Path) -> str:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"{SKIPPED}: no {command[0]}")
    if done.returncode:
        sys.exit(f"{SKIPPED}: {' '.join(command)}: {done.stderr.strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.e2e.newer FOLDER")
    made = Path(sys.argv[1]).resolve()
    made.mkdir(parents=True, exist_ok=True)
    unpack(made)
    print(f"NEWER_GENERATION={made}")
