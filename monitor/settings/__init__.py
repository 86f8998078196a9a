"""All configuration: what can be set, what it means, in which unit, and what it is when nobody sets it.

One name everywhere: `web.listen_address` in YAML, SPECMON_WEB__LISTEN_ADDRESS in the environment,
--web.listen-address as a flag. A flag wins over the environment, that over the file, that over the default;
a list replaces a list. The help texts and README's table are made from the fields in `sections`.
"""

from __future__ import annotations

import functools
import hashlib
import json
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr, ValidationError

from monitor.settings import layers, refusals, values
from monitor.settings.layers import Invalid, UnreadableFile
from monitor.settings.sections import Settings, TargetSettings
from monitor.settings.values import Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Invalid",
    "Setting",
    "Settings",
    "TargetSettings",
    "UnreadableFile",
    "describe",
    "digest",
    "load",
    "masked",
]


def load(
    arguments: Mapping[str, str | list[str]], environment: Mapping[str, str], config_file: str | None = None
) -> Settings:
    """The settings that flags, environment and YAML file make together.

    `arguments` are texts by name of the setting (`web.listen_address`), `environment` is all of it.
    In a container, which says so by a variable `container`, the default is to listen on every interface.
    Raises Invalid with a line per problem, UnreadableFile when the file cannot be read.
    """
    known = {setting.name: setting for setting in describe()}
    given = (
        layers.from_flags(arguments),
        layers.from_environment(environment, [name for name in known if not known[name].nested]),
        layers.from_file(config_file),
        layers.of_a_container(environment),
    )
    values: dict[str, Any] = {"layers": given}
    try:
        return Settings(**values)
    except ValidationError as error:
        raise Invalid("\n".join(refusals.lines(error, given, known))) from None


@functools.cache
def describe() -> tuple[Setting, ...]:
    """Every setting there is, in the order of the configuration file."""
    return tuple(values.describe(Settings, Settings().model_dump(mode="json")))


def masked(settings: Settings) -> str:
    """The effective settings as YAML that could be loaded again, but for the secrets, which are masked."""
    import yaml  # noqa: PLC0415 - half a megabyte that a monitor without a file does not need

    text: str = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return text


def digest(settings: Settings) -> str:
    """A short fingerprint that differs when any setting does.

    Secrets change it too, so it is for comparing and not for showing.
    """
    whole = json.dumps(settings.model_dump(mode="python"), sort_keys=True, default=_revealed)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _revealed(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)
