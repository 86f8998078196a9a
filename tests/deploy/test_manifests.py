"""Every Kubernetes object of deploy/ is one that Kubernetes and prometheus-operator take."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

import monitor
from tests.deploy import manifests, schemas

VERSIONS = ("1.29", "1.30", "1.31", "1.32", "1.33", "1.34")
OPERATOR = "monitoring.coreos.com/v1"
CRDS = manifests.ROOT.parent / "shared" / "crds"
# The kinds whose operator definitions may lie beside the project, by file.
DEFINITIONS = {"PodMonitor": "crd-podmonitors.yaml", "PrometheusRule": "crd-prometheusrules.yaml"}


def _validate(each: manifests.Manifest, version: str) -> None:
    """Raise unless Kubernetes of this very version knows the kind and every field of the object."""
    used = kubernetes_validate.validate(each, version, strict=True)
    # Where it has no schemas of a version it takes older ones in silence.
    assert used == version


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_objects_are_valid(name: str, version: str) -> None:
    """Kubernetes of each version knows every field of every object that is not the operator's."""
    objects = [each for each in manifests.overlay(name) if each["apiVersion"] != OPERATOR]
    assert objects
    for each in objects:
        _validate(each, version)


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_operator_objects_are_valid(name: str) -> None:
    """The operator's objects have the fields of its reference and no others."""
    objects = [each for each in manifests.overlay(name) if each["apiVersion"] == OPERATOR]
    assert objects
    for each in objects:
        jsonschema.validate(each, schemas.SCHEMAS[each["kind"]])


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_operator_objects_fit_its_own_definitions(name: str) -> None:
    """The operator's objects fit the definitions that the operator ships, closed to unknown fields."""
    if not CRDS.exists():
        pytest.skip("the operator's own definitions are not beside the project (../shared/crds)")
    for each in manifests.overlay(name):
        if each["kind"] in DEFINITIONS:
            jsonschema.validate(each, _definition(each["kind"]))


def _definition(kind: str) -> Any:
    text = (CRDS / DEFINITIONS[kind]).read_text()
    schema = yaml.safe_load(text)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    closed = schemas.closed(schema)
    # Its definition leaves metadata open: that is Kubernetes' own.
    closed["properties"]["metadata"] = {"type": "object"}
    return closed


def _misspelt_field(objects: list[manifests.Manifest]) -> manifests.Manifest:
    found = copy.deepcopy(manifests.workload(objects))
    found["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    return found


def _wrong_type(objects: list[manifests.Manifest]) -> manifests.Manifest:
    found = copy.deepcopy(manifests.workload(objects))
    found["spec"]["replicas"] = "two"
    return found


@pytest.mark.parametrize("broken", [_misspelt_field, _wrong_type])
def test_the_validator_would_notice(broken: Any) -> None:
    """A misspelt field and a wrong type are refused: the tests above are not empty."""
    with pytest.raises(kubernetes_validate.ValidationError):
        _validate(broken(manifests.overlay("fleet")), VERSIONS[-1])


def test_an_unknown_kind_would_be_noticed() -> None:
    """A kind that Kubernetes does not have is an error here, not a warning."""
    with pytest.raises(kubernetes_validate.SchemaNotFoundError):
        _validate({"apiVersion": "apps/v1", "kind": "Deploymint", "metadata": {"name": "x"}}, VERSIONS[-1])


def test_the_operator_schemas_would_notice() -> None:
    """A field that the operator does not have is refused by both kinds of schema."""
    (found,) = manifests.of_kind(manifests.overlay("sidecar-deployment"), "PodMonitor")
    broken = copy.deepcopy(found)
    broken["spec"]["podMetricsEndpoints"][0]["timeout"] = "10s"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schemas.SCHEMAS["PodMonitor"])
    if CRDS.exists():
        jsonschema.validate(found, _definition("PodMonitor"))
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, _definition("PodMonitor"))


@pytest.mark.parametrize("component", manifests.COMPONENTS)
def test_every_component_is_used_or_tried(component: str) -> None:
    """Each component is part of an overlay, of another component, or has a test of its own."""
    others = [
        *(manifests.KUSTOMIZE / "overlays").glob("*/kustomization.yaml"),
        *(manifests.KUSTOMIZE / "components").glob("*/kustomization.yaml"),
    ]
    used = any(
        re.search(rf"- (?:\.\./)+(?:components/)?{component}$", path.read_text(), re.MULTILINE)
        for path in others
    )
    assert used or component == "engine-token"


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_the_image_has_the_version_of_the_package(name: str) -> None:
    """Every overlay runs the version that this repository is."""
    container = manifests.specmon(manifests.pod_spec(manifests.overlay(name)))
    assert container["image"] == f"specmon:{monitor.__version__}"


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_what_is_referred_to_exists(name: str) -> None:
    """ConfigMaps, claims and service accounts that a pod names are made by the same overlay."""
    objects = manifests.overlay(name)
    made = {(each["kind"], each["metadata"]["name"]) for each in objects}
    pod = manifests.pod_spec(objects)
    wanted = {
        ("ConfigMap", volume["configMap"]["name"]) for volume in pod["volumes"] if "configMap" in volume
    } | {
        ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    }
    if "serviceAccountName" in pod:
        wanted.add(("ServiceAccount", pod["serviceAccountName"]))
    assert wanted
    assert wanted <= made


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_monitors_find_the_pods(name: str) -> None:
    """What selects pods or Services (monitors, Services, network policies) selects what the overlay has."""
    objects = manifests.overlay(name)
    pod_labels = manifests.workload(objects)["spec"]["template"]["metadata"]["labels"]
    ports = {port["name"] for port in manifests.specmon(manifests.pod_spec(objects))["ports"]}
    for each in manifests.of_kind(objects, "PodMonitor"):
        assert each["spec"]["selector"]["matchLabels"].items() <= pod_labels.items()
        assert {endpoint["port"] for endpoint in each["spec"]["podMetricsEndpoints"]} <= ports
    for each in manifests.of_kind(objects, "NetworkPolicy"):
        chosen = each["spec"]["podSelector"]["matchLabels"]
        assert chosen
        assert chosen.items() <= pod_labels.items()
    for each in manifests.of_kind(objects, "ServiceMonitor"):
        (service,) = manifests.of_kind(objects, "Service")
        assert each["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert service["spec"]["selector"].items() <= pod_labels.items()
        served = {port["name"] for port in service["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in each["spec"]["endpoints"]} <= served
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_every_dashboard_is_delivered() -> None:
    """Each dashboard but the rules-only tier's is in the ConfigMap that Grafana's sidecar looks for."""
    there = {path.name for path in (manifests.ROOT / "alerts" / "dashboards").glob("*.json")}
    objects = manifests.of_kind(manifests.overlay("fleet"), "ConfigMap")
    (found,) = (each for each in objects if each["metadata"]["name"] == "specmon-dashboards")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert there - {"specmon-rules.json"} == found["data"].keys()


@pytest.mark.parametrize("name", manifests.OVERLAYS)
def test_objects_fit_a_client_side_apply(name: str) -> None:
    """No object is larger than the annotation in which `kubectl apply` keeps it (256 KiB)."""
    sizes = {each["metadata"]["name"]: len(json.dumps(each)) for each in manifests.overlay(name)}
    assert {key: size for key, size in sizes.items() if size > 250_000} == {}
