"""The compose file: what it mounts is there, what it starts is restricted, what it configures is right."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import monitor
from monitor import settings
from tests.deploy import manifests

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = manifests.ROOT / "deploy" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
# The keys of the compose specification that are used here; another one has to be read up first.
KEYS = {
    "build",
    "cap_drop",
    "command",
    "environment",
    "extra_hosts",
    "image",
    "mem_limit",
    "ports",
    "read_only",
    "restart",
    "security_opt",
    "user",
    "volumes",
}


def _mounts(service: str) -> list[tuple[str, str]]:
    return [tuple(volume.split(":")[:2]) for volume in SERVICES[service]["volumes"]]


@pytest.mark.parametrize("service", SERVICES)
def test_every_key_is_known(service: str) -> None:
    """Top level and services have keys of the compose specification only."""
    assert COMPOSE.keys() == {"name", "services", "volumes"}
    assert SERVICES[service].keys() <= KEYS


@pytest.mark.parametrize("service", SERVICES)
def test_it_is_restricted(service: str) -> None:
    """Each service has a read-only root, no capability, no way to gain one, and listens on this machine only."""
    found = SERVICES[service]
    assert found["read_only"] is True
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in found["ports"])


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_mounted_exists(service: str) -> None:
    """Each mount is a named volume or a file that is there, read-only."""
    for source, _ in _mounts(service):
        if source.startswith("."):
            assert (FOLDER / source).is_file(), source
        else:
            assert source in COMPOSE["volumes"]
    assert all(each.endswith(":ro") for each in SERVICES[service]["volumes"] if each.startswith("."))


@pytest.mark.parametrize("service", SERVICES)
def test_versions_are_pinned(service: str) -> None:
    """No image floats, and specmon's is this repository's version, built from it."""
    image = SERVICES[service]["image"]
    assert re.search(r":v?\d+\.\d+\.\d+$", image)
    if service == "specmon":
        assert image == f"specmon:{monitor.__version__}"
        assert (FOLDER / SERVICES[service]["build"]["context"]).resolve() == manifests.ROOT


def test_specmon_takes_its_settings() -> None:
    """The monitor takes its file and variables, and its state is on the volume."""
    found = settings.load({}, SERVICES["specmon"]["environment"], str(FOLDER / "specmon.yaml"))
    assert found.targets
    assert found.store.path.startswith(dict(_mounts("specmon"))["specmon-state"])
    (address,) = found.web.listen_address
    assert SERVICES["specmon"]["ports"] == [f"127.0.0.1{address}{address}"]


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    """`promtool` accepts the configuration with the alerts where the container finds them."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not on PATH: Prometheus' configuration was not checked")
    for source, target in _mounts("prometheus"):
        if source.startswith("."):
            shutil.copy(FOLDER / source, tmp_path / target.rpartition("/")[2])
    done = subprocess.run(
        [promtool, "check", "config", str(tmp_path / "prometheus.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"SUCCESS: \d+ rules found", done.stdout), done.stdout


def test_alertmanager_takes_its_configuration() -> None:
    """`amtool` accepts the configuration that is mounted."""
    amtool = shutil.which("amtool")
    if amtool is None:
        pytest.skip("amtool is not on PATH: Alertmanager's configuration was not checked")
    (source,) = (source for source, _ in _mounts("alertmanager") if source.startswith("."))
    done = subprocess.run(
        [amtool, "check-config", str(FOLDER / source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_services_know_each_other() -> None:
    """Prometheus scrapes specmon and alerts Alertmanager under the names and ports that compose gives them."""
    found = yaml.safe_load((FOLDER / "prometheus.yaml").read_text())
    (scrape,) = found["scrape_configs"]
    (alerting,) = found["alerting"]["alertmanagers"]
    named = [
        target
        for each in (scrape, alerting)
        for config in each["static_configs"]
        for target in config["targets"]
    ]
    inside = {
        f"{name}:{port.rpartition(':')[2]}" for name, each in SERVICES.items() for port in each["ports"]
    }
    assert set(named) <= inside
