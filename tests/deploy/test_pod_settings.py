"""The monitor in each pod takes the settings that its pod gives it."""

from __future__ import annotations

import contextlib
import http
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from monitor import settings
from monitor.settings.values import host_and_port
from monitor.sources.discovery import shards
from tests.deploy import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _settings(
    objects: list[manifests.Manifest], folder: Path, beside: dict[str, str] | None = None
) -> settings.Settings:
    """What the monitor in the pod makes of its arguments, its variables and its mounted file."""
    pod = manifests.pod_spec(objects)
    container = manifests.specmon(pod)
    command, flag, path = container["args"]
    assert (command, flag) == ("run", "--config")
    (mount,) = (each for each in container["volumeMounts"] if path.startswith(each["mountPath"] + "/"))
    (volume,) = (each for each in pod["volumes"] if each["name"] == mount["name"])
    (config,) = (
        each
        for each in manifests.of_kind(objects, "ConfigMap")
        if each["metadata"]["name"] == volume["configMap"]["name"]
    )
    file = folder / "specmon.yaml"
    file.write_text(config["data"][path.rpartition("/")[2]])
    return settings.load({}, {**manifests.environment(container), **(beside or {})}, str(file))


@pytest.mark.parametrize("name", manifests.SIDECARS)
def test_a_sidecar_reads_its_settings(name: str, tmp_path: Path) -> None:
    """The monitor takes the variables and the file, watches its own engine and calls it by its pod's name."""
    found = _settings(manifests.overlay(name), tmp_path)
    (target,) = found.targets
    assert target.url == "http://127.0.0.1:8000/metrics"
    assert target.label == manifests.POD["metadata.name"]
    assert target.labels == {"namespace": "llm", "node": "gpu-node-7", "revision": "5c9f8d7b6"}
    assert found.store.path == "/var/lib/specmon/specmon.db"


def test_the_fleet_reads_its_settings(tmp_path: Path) -> None:
    """The fleet monitor takes its file and watches every pod by a name of its own."""
    found = _settings(manifests.overlay("fleet"), tmp_path)
    assert [target.label for target in found.targets] == ["vllm-0", "vllm-1"]
    assert found.store.path == "/var/lib/specmon/specmon.db"


def test_the_fleet_that_finds_pods_reads_its_settings(tmp_path: Path) -> None:
    """It looks in the namespaces that give it the role, at the port that its network policy lets it reach."""
    objects = manifests.overlay("fleet-kubernetes")
    (pods,) = _settings(objects, tmp_path).discovery.kubernetes
    assert [role["metadata"]["namespace"] for role in manifests.of_kind(objects, "Role")] == [
        *pods.namespaces
    ]
    (policy,) = manifests.of_kind(objects, "NetworkPolicy")
    ports = [port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]]
    assert ports == [53, 53, int(pods.port), 443, 6443]


def test_the_shards_read_their_settings(tmp_path: Path) -> None:
    """There are as many pods as shards, each knows its number by its name, and each has a volume of its own."""
    objects = manifests.overlay("fleet-shards")
    found = _settings(objects, tmp_path)
    workload = manifests.workload(objects)
    total = found.shards.total
    assert (workload["kind"], workload["spec"]["replicas"]) == ("StatefulSet", total)
    told = [shards.told(found.shards.ordinal, total, f"specmon-{index}") for index in range(total)]
    assert told == [shards.Shard(index, total) for index in range(total)]
    (claim,) = workload["spec"]["volumeClaimTemplates"]
    mounts = {
        each["name"]: each["mountPath"]
        for each in manifests.specmon(manifests.pod_spec(objects))["volumeMounts"]
    }
    assert found.store.path.startswith(mounts[claim["metadata"]["name"]])
    assert not manifests.of_kind(objects, "PersistentVolumeClaim", "Deployment")
    (service,) = manifests.of_kind(objects, "Service")
    assert (workload["spec"]["serviceName"], service["spec"]["clusterIP"]) == (
        service["metadata"]["name"],
        "None",
    )


def test_the_fleet_on_prometheus_reads_its_settings(tmp_path: Path) -> None:
    """It scrapes nothing, and its network policy lets it reach the query API and not the engines."""
    objects = manifests.overlay("on-prometheus")
    found = _settings(objects, tmp_path)
    assert (found.targets, found.discovery.configured) == ((), False)
    url = urlsplit(found.prometheus.url)
    (policy,) = manifests.of_kind(objects, "NetworkPolicy")
    names, api = policy["spec"]["egress"]
    assert {port["port"] for port in names["ports"]} == {53}
    assert [port["port"] for port in api["ports"]] == [url.port]
    (peer,) = api["to"]
    assert (url.hostname or "").split(".")[1] in peer["namespaceSelector"]["matchLabels"].values()


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_state_is_written_where_a_volume_is(name: str, tmp_path: Path) -> None:
    """The root is read-only; the state's file is on a volume that can be written."""
    objects = manifests.overlay(name)
    mounts = manifests.specmon(manifests.pod_spec(objects))["volumeMounts"]
    (mount,) = (
        each for each in mounts if _settings(objects, tmp_path).store.path.startswith(each["mountPath"] + "/")
    )
    assert not mount.get("readOnly")


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_ports_agree(name: str, tmp_path: Path) -> None:
    """The container's port is the one that the monitor listens on."""
    objects = manifests.overlay(name)
    (port,) = manifests.specmon(manifests.pod_spec(objects))["ports"]
    (address,) = _settings(objects, tmp_path).web.listen_address
    assert host_and_port(address) == (None, port["containerPort"])


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_config_is_a_folder(name: str) -> None:
    """No file is mounted by subPath: such a file never follows its ConfigMap."""
    for container in manifests.containers(manifests.pod_spec(manifests.overlay(name))):
        assert not any("subPath" in mount for mount in container.get("volumeMounts", ()))


def test_a_sidecar_setting_does_not_roll_the_engines() -> None:
    """The sidecars' ConfigMap keeps its name when its content changes; the fleet's does not."""
    names = {
        name: [each["metadata"]["name"] for each in manifests.of_kind(manifests.overlay(name), "ConfigMap")]
        for name in manifests.OVERLAYS
    }
    assert all("specmon-sidecar" in names[name] for name in manifests.SIDECARS)
    assert "specmon" not in names["fleet"]


def test_the_engine_token_is_a_file(tmp_path: Path) -> None:
    """The component gives the token by a mounted file, which the settings take, and by no variable."""
    wanted = {"resources": ["overlays/fleet"], "components": ["components/engine-token"]}
    objects = manifests.composed(tmp_path / "overlay", wanted)
    container = manifests.specmon(manifests.pod_spec(objects))
    variables = manifests.environment(container)
    path = variables.pop("SPECMON_SCRAPE__BEARER_TOKEN_FILE")
    assert "secretKeyRef" not in json.dumps(container)
    assert any(path.startswith(mount["mountPath"] + "/") for mount in container["volumeMounts"])
    token = tmp_path / "token"
    token.write_text("a token")
    found = _settings(objects, tmp_path, {"SPECMON_SCRAPE__BEARER_TOKEN_FILE": str(token)})
    assert found.scrape.bearer_token_file == str(token)


@contextlib.contextmanager
def _running(objects: list[manifests.Manifest], folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The pod's monitor as a process of this machine, and the address that it prints."""
    container = manifests.specmon(manifests.pod_spec(objects))
    own = {
        "SPECMON_WEB__LISTEN_ADDRESS": "127.0.0.1:0",
        "SPECMON_STORE__PATH": str(folder / "specmon.db"),
        "PATH": os.defpath,
    }
    _settings(objects, folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "monitor", "run", "--config", str(folder / "specmon.yaml")],
        cwd=manifests.ROOT,
        env={**manifests.environment(container), **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        address = re.search(r"http://[\d.:]+", said)
        assert address is not None, said
        yield process, address[0]
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", ["sidecar-deployment", "fleet", "on-prometheus"])
def test_probes_are_answered(name: str, tmp_path: Path) -> None:
    """With no engine there yet, the monitor of the pod answers its probes, serves metrics and ends in time."""
    objects = manifests.overlay(name)
    container = manifests.specmon(manifests.pod_spec(objects))
    paths = [each["httpGet"]["path"] for key, each in container.items() if key.endswith("Probe")]
    monitors = manifests.of_kind(objects, "PodMonitor", "ServiceMonitor")
    paths += [endpoint["path"] for each in monitors for endpoint in _endpoints(each)]
    with _running(objects, tmp_path) as (process, address):
        for path in paths:
            with urllib.request.urlopen(address + path, timeout=10) as answer:  # noqa: S310 - our own
                assert answer.status == http.HTTPStatus.OK
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=5) == 0
    assert (tmp_path / "specmon.db").exists()


def _endpoints(each: manifests.Manifest) -> list[manifests.Manifest]:
    found: list[manifests.Manifest] = each["spec"].get("endpoints") or each["spec"]["podMetricsEndpoints"]
    return found
