"""`specmon run` with discovery: targets come, go and come back while it runs, and a reload changes who is asked."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from monitor import settings
from monitor.service import assembly
from tests import test_service as processes

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = "discovery: {{files: ['{0}'], interval: 1s}}\nscrape: {{interval: 0.5s}}\n"


def write(path: Path, *names: str) -> None:
    """Write a list with targets of these names, at which nobody listens."""
    groups = [
        {"targets": [f"127.0.0.1:{number + 1}"], "labels": {"__specmon_name": name}}
        for number, name in enumerate(names)
    ]
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(groups))
    fresh.rename(path)


def watched(address: str) -> set[str]:
    """The targets that the service has among its metrics."""
    page = processes.read(f"{address}/metrics")
    return {line.split('"')[1] for line in page.splitlines() if line.startswith("specmon_target_up{")}


def test_targets_come_and_go(tmp_path: Path) -> None:
    """A target is among the metrics from when it is found until it is not any more, and the report follows."""
    file, found = tmp_path / "specmon.yml", tmp_path / "targets.json"
    write(found, "a", "b")
    file.write_text(SETTINGS.format(found))
    with processes.process("--config", str(file)) as (_, address):
        processes.waited_for(lambda: watched(address) == {"a", "b"})
        assert 'specmon_discovery_targets{provider="file"} 2' in processes.read(f"{address}/metrics")
        write(found, "b", "c")
        processes.waited_for(lambda: watched(address) == {"b", "c"})
        found.write_text("{")
        failed = 'specmon_discovery_failures_total{provider="file"} '
        processes.waited_for(lambda: f"{failed}0" not in processes.read(f"{address}/metrics"))
        assert watched(address) == {"b", "c"}
        listed = json.loads(processes.read(f"{address}/targets?format=json"))
        assert {each["name"] for each in listed["targets"]} == {"b", "c"}


def test_a_reload_changes_who_is_asked(tmp_path: Path) -> None:
    """SIGHUP takes new files and listed targets; a name that is listed is not taken from what is found."""
    file, one, other = tmp_path / "specmon.yml", tmp_path / "one.json", tmp_path / "other.json"
    write(one, "a")
    write(other, "b", "static")
    file.write_text(SETTINGS.format(one))
    with processes.process("--config", str(file)) as (started, address):
        processes.waited_for(lambda: watched(address) == {"a"})
        listed = "targets: [{url: 'http://127.0.0.1:9/metrics', name: static}]\n"
        file.write_text(listed + SETTINGS.format(other))
        started.send_signal(signal.SIGHUP)
        processes.waited_for(lambda: watched(address) == {"b", "static"})
        assert 'specmon_targets_dropped{reason="name_taken"} 1' in processes.read(f"{address}/metrics")
        assert str(other) in processes.read(f"{address}/config")


def test_a_library_that_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that need an extra which is not installed are refused with the command that installs it."""
    monkeypatch.setitem(assembly.EXTRAS, "kubernetes", "no_such_module")
    wanted = settings.load({"discovery.kubernetes": '[{"selector": "app=vllm"}]'}, {})
    with pytest.raises(assembly.MissingError) as raised:
        assembly.providers(wanted)
    assert str(raised.value) == (
        "discovery.kubernetes: the library 'no_such_module' is not installed, "
        "expected it: pip install 'specmon[kubernetes]'"
    )


def test_settings_become_providers() -> None:
    """There is one provider for the files, one for the names, one per URL and one per namespace."""
    wanted = settings.load(
        {
            "discovery.files": ["/etc/specmon/*.yml", "b.json"],
            "discovery.http": '[{"url": "http://a:1/list", "bearer_token": "t"}, "https://b/list"]',
            "discovery.dns": "_http._tcp.a,_http._tcp.b",
            "discovery.kubernetes": '[{"selector": "app=vllm", "namespaces": "x,y"}, {"selector": "app=sglang"}]',
        },
        {},
    )
    made = assembly.providers(wanted)
    assert [provider.kind for provider in made] == ["file", "http", "http", "dns", *["kubernetes"] * 3]
    assert made == assembly.providers(wanted)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"selector": " "}, "selector: read ' ', expected a label selector such as app=vllm"),
        ({}, "selector: missing"),
        (
            {"selector": "a", "port": "no_name"},
            "port: read 'no_name', expected a port such as 8000, or the name of one",
        ),
        (
            {"selector": "a", "port": 70000},
            "port: read 70000, expected a port such as 8000, or the name of one",
        ),
        ({"selector": "a", "path": "metrics"}, "path: read 'metrics', expected a path such as /metrics"),
        ({"selector": "a", "namespaces": ["*", "b"]}, "namespaces: read a list, expected * alone or names"),
        ({"selector": "a", "labels": {}}, "labels: no such setting"),
    ],
    ids=["empty", "none", "name", "number", "path", "all-and-one", "unknown"],
)
def test_wrong_settings(entry: dict[str, object], said: str) -> None:
    """What is wrong with an entry is said with its path."""
    with pytest.raises(settings.Invalid) as raised:
        settings.load({"discovery.kubernetes": json.dumps([entry])}, {})
    assert str(raised.value).startswith(f"--discovery.kubernetes[0].{said}")
