"""The pods do no harm: least rights, no claim on the engine's readiness, its quality of service or its token."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import pytest

from tests.deploy import manifests

if TYPE_CHECKING:
    from pathlib import Path

ENGINE = ("examples/vllm-deployment", "examples/vllm-statefulset")
UID = 65532
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
DISCOVERING = ("fleet-kubernetes", "fleet-shards")
# The volume types that the restricted profile of the Pod Security Standards allows.
ALLOWED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def restricted(container: manifests.Manifest) -> list[str]:
    """What keeps a container out of the restricted profile (and off a read-only root), one word per problem."""
    context = container.get("securityContext", {})
    capabilities = context.get("capabilities", {})
    problems = {
        "root": context.get("runAsNonRoot") is not True,
        "uid": not context.get("runAsUser"),
        "escalation": context.get("allowPrivilegeEscalation") is not False,
        "capabilities": capabilities.get("drop") != ["ALL"] or "add" in capabilities,
        "seccomp": context.get("seccompProfile", {}).get("type") != "RuntimeDefault",
        "privileged": bool(context.get("privileged")),
        "writable": context.get("readOnlyRootFilesystem") is not True,
        "hostPort": any("hostPort" in port for port in container.get("ports", ())),
    }
    return [problem for problem, there in problems.items() if there]


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_the_container_is_restricted(name: str) -> None:
    """The monitor's container meets the restricted Pod Security Standard by itself and has a read-only root."""
    container = manifests.specmon(manifests.pod_spec(manifests.overlay(name)))
    assert restricted(container) == []
    assert container["securityContext"]["runAsUser"] == container["securityContext"]["runAsGroup"] == UID


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (("securityContext", "runAsUser"), 0, "uid"),
        (("securityContext", "runAsNonRoot"), False, "root"),
        (("securityContext", "privileged"), True, "privileged"),
        (("securityContext", "capabilities"), {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, "capabilities"),
        (("securityContext", "seccompProfile"), {"type": "Unconfined"}, "seccomp"),
        (("securityContext", "readOnlyRootFilesystem"), False, "writable"),
        (("ports",), [{"containerPort": 10101, "hostPort": 10101}], "hostPort"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_check_would_notice(path: tuple[str, ...], value: object, problem: str) -> None:
    """Each right too many is noticed by the check of the test above."""
    container = copy.deepcopy(manifests.specmon(manifests.pod_spec(manifests.overlay("fleet"))))
    place = container
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert restricted(container) == [problem]


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_the_pod_is_restricted(name: str) -> None:
    """No pod shares a namespace of its node or mounts one of its folders."""
    pod = manifests.pod_spec(manifests.overlay(name))
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    kinds = {key for volume in pod["volumes"] for key in volume if key != "name"}
    assert kinds <= ALLOWED_VOLUMES


def test_the_fleet_namespace_enforces_it() -> None:
    """The fleet monitor's namespace lets nothing else in."""
    (namespace,) = manifests.of_kind(manifests.overlay("fleet"), "Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_requests_are_limits(name: str) -> None:
    """Every container has CPU and memory requests equal to its limits, so that the pod is Guaranteed."""
    for container in manifests.containers(manifests.pod_spec(manifests.overlay(name))):
        resources = container["resources"]
        assert resources["requests"] == resources["limits"], container["name"]
        assert {"cpu", "memory"} <= resources["limits"].keys(), container["name"]


@pytest.mark.parametrize("name", manifests.SIDECARS)
def test_a_sidecar_has_liveness_only(name: str) -> None:
    """No readiness probe (it would count for the pod), no startup probe or hook (it would hold the engine back)."""
    container = manifests.specmon(manifests.pod_spec(manifests.overlay(name)))
    assert {key for key in container if key.endswith("Probe")} == {"livenessProbe"}
    assert "lifecycle" not in container
    probe = container["livenessProbe"]
    assert probe["httpGet"]["path"] == "/-/healthy"
    # Minutes, not seconds, until a restart: nobody loses an engine over a slow monitor.
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 120


@pytest.mark.parametrize("name", manifests.SIDECARS)
def test_a_sidecar_cannot_get_the_pod_evicted(name: str) -> None:
    """No limit whose excess evicts the pod instead of restarting the container, but a bound on its volume."""
    pod = manifests.pod_spec(manifests.overlay(name))
    container = manifests.specmon(pod)
    assert "ephemeral-storage" not in container["resources"]["limits"]
    (state,) = (volume for volume in pod["volumes"] if volume["name"] == "specmon-state")
    assert state["emptyDir"]["sizeLimit"].endswith("Gi")


@pytest.mark.parametrize("name", [name for name in manifests.OVERLAYS if name not in DISCOVERING])
def test_no_access_to_the_api(name: str) -> None:
    """No role is given, and the monitor's container gets no token of a service account."""
    objects = manifests.overlay(name)
    assert not manifests.of_kind(objects, "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    pod = manifests.pod_spec(objects)
    mounts = {mount["mountPath"] for mount in manifests.specmon(pod)["volumeMounts"]}
    assert pod.get("automountServiceAccountToken") is False or TOKEN_PATH in mounts


@pytest.mark.parametrize("name", DISCOVERING)
def test_discovery_may_read_pods_and_nothing_else(name: str) -> None:
    """Where the monitor finds pods, its account may get, list and watch them in the engines' namespace only."""
    objects = manifests.overlay(name)
    assert not manifests.of_kind(objects, "ClusterRole", "ClusterRoleBinding")
    (role,) = manifests.of_kind(objects, "Role")
    (binding,) = manifests.of_kind(objects, "RoleBinding")
    (account,) = manifests.of_kind(objects, "ServiceAccount")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "llm"
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) == (
        account["metadata"]["name"],
        account["metadata"]["namespace"],
    )
    pod = manifests.pod_spec(objects)
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (subject["name"], True)


def test_the_native_sidecar_is_one() -> None:
    """In a Deployment and in a StatefulSet it is an init container that is restarted for ever."""
    for name in ("sidecar-deployment", "sidecar-statefulset"):
        pod = manifests.pod_spec(manifests.overlay(name))
        (container,) = (each for each in pod["initContainers"] if each["name"] == "specmon")
        assert container["restartPolicy"] == "Always"


def test_the_plain_container_is_the_same_one() -> None:
    """The variant for old clusters has the same container, last, and no init container left of it."""
    native = manifests.specmon(manifests.pod_spec(manifests.overlay("sidecar-deployment")))
    pod = manifests.pod_spec(manifests.overlay("sidecar-plain"))
    assert pod["containers"][-1] == {key: value for key, value in native.items() if key != "restartPolicy"}
    assert not pod["initContainers"]


@pytest.mark.parametrize("example", ENGINE)
def test_the_engine_is_left_alone(example: str) -> None:
    """A patched workload differs from the original by the monitor's container, volumes and one label only."""
    before = manifests.workload(manifests.render(manifests.KUSTOMIZE / example))
    after = copy.deepcopy(manifests.workload(manifests.overlay(example.replace("examples/vllm", "sidecar"))))
    template = after["spec"]["template"]
    pod = template["spec"]
    del after["metadata"]["namespace"]
    assert template["metadata"]["labels"].pop("specmon") == "sidecar"
    pod["initContainers"].remove(manifests.specmon(pod))
    pod["volumes"] = [volume for volume in pod["volumes"] if not volume["name"].startswith("specmon-")]
    for key in ("initContainers", "volumes"):
        if not pod[key]:
            del pod[key]
    assert after == before


def test_only_labelled_workloads_are_patched(tmp_path: Path) -> None:
    """A workload without the label `specmon: sidecar` stays as it was."""
    unlabelled = {
        "patch": '[{"op": "remove", "path": "/metadata/labels/specmon"}]',
        "target": {"kind": "Deployment"},
    }
    plain = {"resources": ["examples/vllm-deployment"], "patches": [unlabelled]}
    before = manifests.composed(tmp_path / "plain", plain)
    # The label has to be gone one layer below: kustomize applies components before patches.
    after = {"resources": [str((tmp_path / "plain").resolve())], "components": ["components/sidecar"]}
    found = manifests.composed(tmp_path / "after", after)
    assert manifests.workload(found) == manifests.workload(before)


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_the_image_can_be_replaced(name: str, tmp_path: Path) -> None:
    """An `images` entry in the user's kustomization reaches the monitor wherever it stands."""
    image = {"name": "specmon", "newName": "registry.example/team/specmon", "digest": f"sha256:{'0' * 64}"}
    objects = manifests.composed(tmp_path / "overlay", {"resources": [f"overlays/{name}"], "images": [image]})
    container = manifests.specmon(manifests.pod_spec(objects))
    assert container["image"] == f"{image['newName']}@{image['digest']}"
