"""Reads the sources of the rules: one YAML file per alert, one per group of recording rules.

A tier is a folder: `rules` for those who run specmon, `rules_only` for those who do not. A source that misses
a field, or has one too many, is refused with its path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Severity = Literal["critical", "warning", "info"]
Scope = Literal["replica", "fleet", "target", "monitor"]

PREFIX = "Specmon"
_REQUIRED = frozenset({"severity", "scope", "trouble", "for", "expr", "summary", "description"})
_OPTIONAL = frozenset({"keep_firing_for", "after_deploy"})
_PLACE = re.compile(r"<<(\w+)>>")


class RefusedError(ValueError):
    """A source that says something else than a source should; the message begins with its path."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert as its source has it; `after_deploy` is its severity in a young regime, if it differs."""

    name: str
    expr: str
    severity: Severity
    scope: Scope
    trouble: str
    pending: str
    keep_firing_for: str
    summary: str
    description: str
    after_deploy: Severity | None


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording rule with the labels that it adds."""

    record: str
    expr: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Recordings:
    """A group of recording rules; an empty interval is the server's own."""

    name: str
    interval: str
    rules: tuple[Recording, ...]


@dataclass(frozen=True, slots=True)
class Tier:
    """Everything that one rule file holds: recordings first, because the alerts stand on them."""

    recordings: tuple[Recordings, ...]
    alerts: tuple[Alert, ...]


def read(folder: Path) -> Tier:
    """Return the sources in `folder` by name; raise `RefusedError` at the first wrong one."""
    recordings = tuple(_recordings(path) for path in sorted((folder / "recording").glob("*.yaml")))
    alerts = tuple(_alert(path) for path in sorted(folder.glob("*.yaml")))
    if not alerts:
        raise RefusedError(f"{folder}: expected one YAML file per alert, found none")
    return Tier(recordings, alerts)


def fill(text: str, values: Mapping[str, str], path: str) -> str:
    """Return `text` with each `<<name>>` replaced; a name without a value is refused."""
    unknown = {name for name in _PLACE.findall(text) if name not in values}
    if unknown:
        raise RefusedError(f"{path}: <<{min(unknown)}>> has no value; known are {', '.join(sorted(values))}")
    return _PLACE.sub(lambda match: values[match[1]], text)


def _alert(path: Path) -> Alert:
    found = _mapping(path)
    missing, excess = _REQUIRED - found.keys(), found.keys() - _REQUIRED - _OPTIONAL
    if missing or excess:
        raise RefusedError(f"{path}: misses {sorted(missing)}, does not know {sorted(excess)}")
    if not re.fullmatch(rf"{PREFIX}([A-Z][a-z]+)+", path.stem):
        raise RefusedError(f"{path}: expected a name in CamelCase that begins with {PREFIX}")
    after = found.get("after_deploy")
    return Alert(
        name=path.stem,
        expr=found["expr"].strip(),
        severity=_severity(path, found["severity"]),
        scope=_scope(path, found["scope"]),
        trouble=found["trouble"],
        pending=found["for"],
        keep_firing_for=found.get("keep_firing_for", ""),
        summary=found["summary"].strip(),
        description=found["description"].strip(),
        after_deploy=None if after is None else _severity(path, after),
    )


def _severity(path: Path, text: str) -> Severity:
    for known in get_args(Severity):
        if text == known:
            result: Severity = known
            return result
    raise RefusedError(f"{path}: severity {text!r}, expected one of {get_args(Severity)}")


def _scope(path: Path, text: str) -> Scope:
    for known in get_args(Scope):
        if text == known:
            result: Scope = known
            return result
    raise RefusedError(f"{path}: scope {text!r}, expected one of {get_args(Scope)}")


def _mapping(path: Path) -> dict[str, str]:
    found = yaml.safe_load(path.read_text())
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise RefusedError(f"{path}: expected a mapping of text to text")
    return found


def _recordings(path: Path) -> Recordings:
    found = yaml.safe_load(path.read_text())
    if not isinstance(found, dict) or not {"rules"} <= found.keys() <= {"rules", "interval"}:
        raise RefusedError(f"{path}: expected `rules` and at most an `interval` beside it")
    rules = tuple(rule for entry in found["rules"] for rule in _repeated(path, entry))
    return Recordings(path.stem, found.get("interval", ""), rules)


def _repeated(path: Path, entry: Mapping[str, object]) -> Iterator[Recording]:
    """Yield the rule once, or once for every mapping in `each` with its values filled in."""
    rounds = entry.get("each", [{}])
    labels = entry.get("labels", {})
    if not isinstance(rounds, list) or not isinstance(labels, dict) or not {"record", "expr"} <= entry.keys():
        raise RefusedError(
            f"{path}: expected record, expr, at most labels (a mapping) and each (a list): {entry}"
        )
    for given in rounds:
        values = {name: str(value) for name, value in given.items()}
        yield Recording(
            record=fill(str(entry["record"]), values, str(path)),
            expr=fill(str(entry["expr"]).strip(), values, str(path)),
            labels={name: fill(str(value), values, str(path)) for name, value in labels.items()},
        )
