"""Prometheus's target groups (file_sd, http_sd) -> found targets.

A group is `{"targets": ["host:port", …], "labels": {…}}`. Labels that begin with `__` are not kept, as in
Prometheus; of them `__scheme__`, `__metrics_path__` and `__param_<name>` have their usual meaning, and
`__specmon_name`, `__specmon_draft_model`, `__specmon_method`, `__specmon_num_speculative_tokens` and
`__specmon_revision` say what a page cannot. So one file serves Prometheus and specmon.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from monitor.core.pages.engines import base
from monitor.sources.discovery import TAKEN_LABELS, Found, MalformedError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN = "__specmon_"
_OWN_LABELS = frozenset(
    _OWN + name for name in ("name", "draft_model", "method", "num_speculative_tokens", "revision")
)
_PARAM = "__param_"
_SCHEMES = ("http", "https")


def found(document: object) -> tuple[Found, ...]:
    """Return the targets of a parsed document, each once; raises MalformedError with the place."""
    if not isinstance(document, list):
        raise MalformedError(f"read {_shown(document)}, expected a list of target groups")
    every = [target for index, group in enumerate(document) for target in _group(f"[{index}]", group)]
    return tuple({target.name: target for target in every}.values())


def _group(place: str, group: object) -> list[Found]:
    if not isinstance(group, dict) or not set(group) <= {"targets", "labels"}:
        read = f"the keys {', '.join(map(str, group))}" if isinstance(group, dict) else _shown(group)
        raise MalformedError(f"{place}: read {read}, expected a mapping with `targets` and `labels`")
    labels = _labels(f"{place}.labels", group.get("labels") or {})
    addresses = group.get("targets") or []
    if not isinstance(addresses, list):
        raise MalformedError(f"{place}.targets: read {_shown(addresses)}, expected a list of host:port")
    if len(addresses) > 1 and f"{_OWN}name" in labels:
        raise MalformedError(f"{place}: one {_OWN}name for {len(addresses)} targets, expected one target")
    return [
        _target(f"{place}.targets[{index}]", address, labels, _tokens(f"{place}.labels", labels))
        for index, address in enumerate(addresses)
    ]


def _labels(place: str, given: object) -> dict[str, str]:
    if not isinstance(given, dict):
        raise MalformedError(f"{place}: read {_shown(given)}, expected a mapping of names to texts")
    for name, value in given.items():
        if not isinstance(name, str) or not _LABEL.fullmatch(name):
            raise MalformedError(f"{place}: read {name!r}, expected a label name: letters, digits and _")
        if not isinstance(value, str) or not _is_text(value):
            raise MalformedError(f"{place}.{name}: read {_shown(value)}, expected a text")
        if name.startswith(_OWN) and name not in _OWN_LABELS:
            raise MalformedError(f"{place}: read {name!r}, expected one of {', '.join(sorted(_OWN_LABELS))}")
    if given.get("__scheme__", "http") not in _SCHEMES:
        raise MalformedError(f"{place}.__scheme__: read {given['__scheme__']!r}, expected http or https")
    return given


def _tokens(place: str, labels: Mapping[str, str]) -> int:
    text = labels.get(f"{_OWN}num_speculative_tokens", "")
    if text and base.index(text) < 1:
        raise MalformedError(
            f"{place}.{_OWN}num_speculative_tokens: read {_shown(text)}, expected a whole number above 0"
        )
    return int(text or 0)


def _target(place: str, address: object, labels: Mapping[str, str], tokens: int) -> Found:
    scheme = labels.get("__scheme__", "http")
    path = labels.get("__metrics_path__", "/metrics")
    query = urlencode(
        {name.removeprefix(_PARAM): value for name, value in labels.items() if name.startswith(_PARAM)}
    )
    authority = _authority(place, address, scheme)
    shown = "" if path == "/metrics" else path
    revision = labels.get(f"{_OWN}revision", "")
    return Found(
        name=labels.get(f"{_OWN}name") or f"{authority}{shown}",
        url=f"{scheme}://{authority}{path}{'?' + query if query else ''}",
        labels=tuple(
            (name, value)
            for name, value in sorted(labels.items())
            if value and not name.startswith("__") and name not in TAKEN_LABELS
        ),
        draft_model=labels.get(f"{_OWN}draft_model", ""),
        method=labels.get(f"{_OWN}method", ""),
        num_speculative_tokens=tokens,
        facts=(("revision", revision),) if revision else (),
    )


def _authority(place: str, address: object, scheme: str) -> str:
    """Return host:port; the scheme's own port where none is given."""
    try:
        parts = urlsplit(f"//{address}" if isinstance(address, str) else "")
        port = parts.port or {"http": 80, "https": 443}[scheme]
        host = parts.hostname or ""
        good = bool(host) and parts.netloc == address and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        good = False
    if not good or any(letter.isspace() or not letter.isprintable() for letter in str(address)):
        raise MalformedError(f"{place}: read {_shown(address)}, expected host:port")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_text(value: str) -> bool:
    """Return whether no output would choke on it: JSON can say half a character."""
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return repr(value)[:80]
