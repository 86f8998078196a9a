"""No secret of the settings is in a page, a metric, the log, the store or the list of processes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests import real_engine, test_service

if TYPE_CHECKING:
    import subprocess

SECRET = "hunter2"
PAGES = (
    "/", "/metrics", "/report", "/report?format=json", "/targets", "/targets?format=json", "/config", "/-/ready",
    "/api/v1/streams", "/api/v1/events", "/api/v1/openapi.json", "/probe?target=user", "/probe?target=nowhere",
    "/nowhere", "/report/nowhere", "/api/v1/history/nowhere",
)  # fmt: skip


def settings(folder: Path) -> dict[str, object]:
    """Settings with a secret, told apart by its number, wherever one may stand; nothing listens anywhere."""
    at = f"127.0.0.1:{real_engine.free_port()}"
    bearer = folder / "bearer"
    bearer.write_text(f"{SECRET}-1")
    return {
        "targets": [
            {"name": "user", "url": f"http://name:{SECRET}-2@{at}/metrics"},
            {"name": "lone", "url": f"http://{SECRET}-3@{at}/metrics"},
            {"name": "query", "url": f"http://{at}/metrics?token={SECRET}-4&b={SECRET}-5"},
            {"name": "header", "url": f"http://{at}/metrics", "headers": {"X-Key": f"{SECRET}-6"}},
            {"name": "token", "url": f"http://{at}/metrics", "bearer_token": f"{SECRET}-7"},
            {"name": "file", "url": f"http://{at}/metrics", "bearer_token_file": str(bearer)},
            {"name": "host", "url": f"http://name:{SECRET}-8@{at}"},
        ],
        "scrape": {"interval": "0.5s", "timeout": "0.4s", "bearer_token": f"{SECRET}-9"},
        "web": {"admin_token": f"{SECRET}-10", "enable_reload": True},
        "store": {"path": str(folder / "kept.db")},
        "log": {"level": "debug"},
        "notify": {
            "webhooks": [{"name": "hook", "url": f"http://{at}/hooks/{SECRET}-11?k={SECRET}-12"}],
            "alertmanagers": [{"url": f"http://name:{SECRET}-13@{at}", "bearer_token": f"{SECRET}-14"}],
        },
        "prometheus": {"url": f"http://name:{SECRET}-15@{at}", "headers": {"X-Key": f"{SECRET}-16"}},
        "discovery": {"http": [{"url": f"http://name:{SECRET}-17@{at}/sd?token={SECRET}-18"}]},
    }


def shown(started: subprocess.Popen[str], address: str, folder: Path) -> dict[str, str]:
    """Everything that a running process shows of itself, by where."""
    test_service.waited_for(
        lambda: test_service.read(f"{address}/targets?format=json").count("no connection") >= 6
    )
    found = {page: test_service.read(f"{address}{page}") for page in PAGES}
    found["list of processes"] = Path(f"/proc/{started.pid}/cmdline").read_text(encoding="utf-8")
    started.terminate()
    _, found["log"] = started.communicate(timeout=test_service.PATIENCE)
    for file in folder.glob("kept.db*"):
        found[file.name] = file.read_bytes().decode("latin-1")
    return found


def test_no_secret_is_anywhere(tmp_path: Path) -> None:
    """Each of eighteen secrets, in URLs too, is in nothing that others can read, while every connection fails."""
    config = tmp_path / "specmon.yaml"
    config.write_text(json.dumps(settings(tmp_path)))
    with test_service.process("--config", str(config)) as (started, address):
        found = shown(started, address, tmp_path)
    assert len(found["log"]) > 100
    assert "kept.db" in found
    seen = {where: re.findall(rf"{SECRET}-\d+", text) for where, text in found.items()}
    assert {where: secrets for where, secrets in seen.items() if secrets} == {}
