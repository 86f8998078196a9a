"""The places that settings come from: flags, environment and file.

A layer is a nested dictionary plus the way back from a setting's name to the words that the operator used.
pydantic-settings accepts a misspelt `SPECMON_` variable and a missing file in silence; here both are errors.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.settings import documents

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

ENVIRONMENT_PREFIX = "SPECMON_"
CONFIG_VARIABLE = "SPECMON_CONFIG"

# Kubernetes puts these into every container beside a Service named specmon or specmon-something.
_SERVICE_LINK = re.compile(
    r"SPECMON(_[A-Z0-9]+)*?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9]+)*|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)


class Invalid(Exception):  # noqa: N818 - read aloud: `except settings.Invalid`
    """Settings that were refused; the text has one line per problem, each with its path."""


class UnreadableFile(Invalid):
    """A settings file that could not be read at all."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one place says: `values` nested by section, `source` from a setting's name to its name there."""

    values: Mapping[str, object]
    source: Callable[[str], str]

    def has(self, name: str) -> bool:
        """Whether this place sets the setting `name`."""
        *sections, key = name.split(".")
        inner: object = self.values
        for section in sections:
            inner = inner.get(section) if isinstance(inner, dict) else None
        return isinstance(inner, dict) and key in inner


def variable(name: str) -> str:
    """The environment variable of the setting `name`: `web.route_prefix` is SPECMON_WEB__ROUTE_PREFIX."""
    return ENVIRONMENT_PREFIX + name.upper().replace(".", "__")


def flag(name: str) -> str:
    """The flag of the setting `name`: `web.route_prefix` is --web.route-prefix, `targets` is --target."""
    return "--target" if name == "targets" else "--" + name.replace("_", "-")


def from_flags(arguments: Mapping[str, str | list[str]]) -> Layer:
    """The layer of the command line; `arguments` are by name of the setting."""
    return Layer(_nested(arguments), flag)


def from_environment(environment: Mapping[str, str], names: Collection[str]) -> Layer:
    """The layer of the `SPECMON_` variables of `environment`; raises Invalid for one that is no setting."""
    settings = {variable(name): name for name in names}
    given = {}
    problems = []
    for key, text in environment.items():
        if key in settings:
            given[settings[key]] = text
        elif (
            key.startswith(ENVIRONMENT_PREFIX) and key != CONFIG_VARIABLE and not _is_service_link(key, text)
        ):
            problems.append(f"{key}: no such setting{suggestion(key, settings)}")
    if problems:
        raise Invalid("\n".join(problems))
    return Layer(_nested(given), variable)


def from_file(file: str | None) -> Layer:
    """The layer of the YAML file at `file`, empty for None; raises Invalid, or UnreadableFile."""
    if file is None:
        return Layer({}, str)
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise UnreadableFile(f"{file}: {reason.lower()}; expected a YAML file with settings") from error
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            f"{file}: not UTF-8 at byte {error.start}; expected a YAML file with settings"
        ) from error
    return Layer(_mapping(file, text), lambda name: f"{file}: {name}")


def of_a_container(environment: Mapping[str, str]) -> Layer:
    """The lowest layer: a loopback interface that nobody can reach is of no use inside a container."""
    inside = bool(environment.get("container"))
    return Layer({"web": {"listen_address": [":10101"]}} if inside else {}, str)


def _is_service_link(key: str, text: str) -> bool:
    # SPECMON_WEB_PORT=9000 is somebody's mistake, SPECMON_WEB_PORT=tcp://10.0.0.1:80 is Kubernetes.
    bare = key.endswith("_PORT") and not key.endswith(
        ("_SERVICE_PORT", "_TCP_PORT", "_UDP_PORT", "_SCTP_PORT")
    )
    return _SERVICE_LINK.fullmatch(key) is not None and ("://" in text or not bare)


def suggestion(word: str, known: Collection[str]) -> str:
    """`; did you mean …?` with the known word that is nearest, or nothing."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _nested(given: Mapping[str, str | list[str]]) -> dict[str, object]:
    nested: dict[str, object] = {}
    for name, value in given.items():
        *sections, key = name.split(".")
        inner = nested
        for section in sections:
            below = inner.setdefault(section, {})
            assert isinstance(below, dict)  # noqa: S101 - a section never has a value of its own
            inner = below
        inner[key] = value
    return nested


def _mapping(file: str, text: str) -> dict[str, object]:
    try:
        read = documents.read(text)
    except documents.NotYaml as error:
        raise Invalid(f"{file}: {error}") from error
    if read is None:
        return {}
    if not isinstance(read, dict):
        raise Invalid(f"{file}: read {type(read).__name__}, expected a mapping of sections")
    return read
