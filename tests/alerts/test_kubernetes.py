"""The objects for operators: they have the form that their definitions ask for, and Kustomize takes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from alerts import generate
from tests.alerts import tools

if TYPE_CHECKING:
    from pathlib import Path

DEFINITIONS = tools.ROOT.parent / "shared" / "crds" / "crd-prometheusrules.yaml"
# Our own schema of a rule group, from the documentation of both operators: what they have in common.
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_DURATION = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d|w|y))+$"}
_RULE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["expr"],
    "oneOf": [{"required": ["alert", "annotations", "for"]}, {"required": ["record"]}],
    "properties": {
        "alert": {"type": "string", "pattern": "^Specmon[A-Za-z]+$"},
        "record": {"type": "string"},
        "expr": {"type": "string", "minLength": 1},
        "for": _DURATION,
        "keep_firing_for": _DURATION,
        "labels": _TEXTS,
        "annotations": _TEXTS,
    },
}
GROUPS = {
    "type": "array",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "required": ["name", "rules"],
        "properties": {
            "name": {"type": "string"},
            "interval": _DURATION,
            "rules": {"type": "array", "minItems": 1, "items": _RULE},
        },
    },
}
OBJECTS = {
    f"{name}.{form}": tools.GENERATED / f"{name}.{form}.yaml"
    for name in generate.TIERS.values()
    for form in ("prometheusrule", "vmrule")
}
VERSIONS = {"PrometheusRule": "monitoring.coreos.com/v1", "VMRule": "operator.victoriametrics.com/v1beta1"}


@pytest.mark.parametrize("path", OBJECTS.values(), ids=OBJECTS)
def test_form(path: Path) -> None:
    """Kind and version belong together, groups have unique names and only fields that operators know."""
    made = yaml.safe_load(path.read_text())
    assert set(made) == {"apiVersion", "kind", "metadata", "spec"}
    assert made["apiVersion"] == VERSIONS[made["kind"]]
    jsonschema.validate(made["spec"]["groups"], GROUPS)
    names = [group["name"] for group in made["spec"]["groups"]]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", generate.TIERS.values())
def test_definition(name: str) -> None:
    """The operator's own definition of a PrometheusRule, which is not part of this repository, accepts ours."""
    if not DEFINITIONS.is_file():
        pytest.skip(f"no {DEFINITIONS.name} in ../shared/crds")
    schema = yaml.safe_load(DEFINITIONS.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    jsonschema.validate(
        yaml.safe_load((tools.GENERATED / f"{name}.prometheusrule.yaml").read_text()), closed(schema)
    )


def closed(schema: object) -> object:
    """Return a schema that refuses fields it does not name, as an API server with strict validation does."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(each) for name, each in schema.items()}
    # A Go pattern may begin with flags; Python wants them before the anchor.
    if isinstance(pattern := found.get("pattern"), str):
        found["pattern"] = pattern.replace("^(?i)", "(?i)^")
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        found["additionalProperties"] = False
    return found


def test_kustomize() -> None:
    """The base brings the rules and the dashboards, the latter with the label that Grafana's sidecar looks for."""
    rendered = tools.run(tools.program_or_skip("kubectl"), "kustomize", generate.ROOT)
    found = {made["kind"]: made for made in yaml.safe_load_all(rendered)}
    assert set(found) == {"PrometheusRule", "ConfigMap"}
    assert found["ConfigMap"]["metadata"]["labels"]["grafana_dashboard"] == "1"
    boards = {name: json.loads(text)["uid"] for name, text in found["ConfigMap"]["data"].items()}
    assert boards == {f"{uid}.json": uid for uid in ("specmon-fleet", "specmon-stream", "specmon-self")}
    assert len(rendered) < 1 << 20
