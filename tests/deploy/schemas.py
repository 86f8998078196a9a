"""Schemas of prometheus-operator's objects, written for these tests from the operator's API reference.

They cover the fields that specmon uses and refuse all others: a field that is not here is a misspelling or
has to be read up first. Where the operator's own definitions are at hand, the objects are checked with these, too.
"""

from __future__ import annotations

from typing import Any

_NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}
_DURATION = {
    "type": "string",
    "pattern": r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$",
    "minLength": 1,
}
_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
_SELECTOR = {
    "type": "object",
    "additionalProperties": False,
    "minProperties": 1,
    "properties": {"matchLabels": {**_STRINGS, "minProperties": 1}},
}
_ENDPOINT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["port"],
    "properties": {
        "port": {"type": "string", "maxLength": 15},
        "path": {"type": "string", "pattern": "^/"},
        "interval": _DURATION,
        "scrapeTimeout": _DURATION,
        "honorLabels": {"type": "boolean"},
    },
}
_RULE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["expr"],
    "oneOf": [{"required": ["alert"]}, {"required": ["record"]}],
    "properties": {
        "alert": {"type": "string", "minLength": 1},
        "record": {"type": "string", "pattern": r"^[a-zA-Z_:][a-zA-Z0-9_:]*$"},
        "expr": {"type": ["string", "integer"]},
        "for": _DURATION,
        "keep_firing_for": _DURATION,
        "labels": _STRINGS,
        "annotations": _STRINGS,
    },
}
_GROUP = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "rules"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "interval": _DURATION,
        "rules": {"type": "array", "items": _RULE, "minItems": 1},
    },
}


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["apiVersion", "kind", "metadata", "spec"],
        "properties": {
            "apiVersion": {"const": "monitoring.coreos.com/v1"},
            "kind": {"const": kind},
            "metadata": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {
                    "name": _NAME,
                    "namespace": _NAME,
                    "labels": _STRINGS,
                    "annotations": _STRINGS,
                },
            },
            "spec": {"type": "object", "additionalProperties": False, **spec},
        },
    }


SCHEMAS = {
    "PodMonitor": _object(
        "PodMonitor",
        {
            "required": ["selector", "podMetricsEndpoints"],
            "properties": {
                "selector": _SELECTOR,
                "podMetricsEndpoints": {"type": "array", "items": _ENDPOINT, "minItems": 1},
            },
        },
    ),
    "ServiceMonitor": _object(
        "ServiceMonitor",
        {
            "required": ["selector", "endpoints"],
            "properties": {
                "selector": _SELECTOR,
                "endpoints": {"type": "array", "items": _ENDPOINT, "minItems": 1},
            },
        },
    ),
    "PrometheusRule": _object(
        "PrometheusRule",
        {
            "required": ["groups"],
            "properties": {"groups": {"type": "array", "items": _GROUP, "minItems": 1}},
        },
    ),
}


def closed(schema: Any) -> Any:
    """A definition of the operator's with every object closed to fields that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: closed(value) for key, value in schema.items()}
    if "properties" in kept and "additionalProperties" not in kept:
        kept["additionalProperties"] = False
    if kept.pop("x-kubernetes-int-or-string", False):
        kept.pop("anyOf", None)
        kept["type"] = ["integer", "string"]
    if isinstance(kept.get("pattern"), str):
        # Go takes a flag anywhere, Python at the beginning only.
        kept["pattern"] = kept["pattern"].replace("^(?i)", "(?i)^")
    return kept
