"""Every setting as a flag of a command, made from the settings' own description."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from monitor import settings
from monitor.settings import layers

if TYPE_CHECKING:
    from collections.abc import Collection

    from monitor.settings import Setting, Settings

_DESTINATION = "setting "


def add(parser: argparse.ArgumentParser, without: Collection[str] = ()) -> None:
    """Give the parser `--config FILE` and a flag per setting, those named in `without` aside.

    Secrets get none: a command line is readable by everybody on the machine.
    """
    parser.add_argument(
        "--config",
        metavar="FILE",
        default=os.environ.get(layers.CONFIG_VARIABLE),
        help=f"YAML file with settings (environment: {layers.CONFIG_VARIABLE})",
    )
    group = parser.add_argument_group(
        "settings", "each also as SPECMON_… in the environment and in the YAML file"
    )
    for setting in settings.describe():
        written = setting.kind != "list of mapping"  # those are for the file: one word cannot say a mapping
        if written and not (setting.nested or setting.secret or setting.name in without):
            _add(group, setting)


def read(arguments: argparse.Namespace) -> Settings:
    """The settings that a parser's `arguments`, the environment and the file make; raises Invalid."""
    given = {
        key.removeprefix(_DESTINATION): value
        for key, value in vars(arguments).items()
        if key.startswith(_DESTINATION)
    }
    return settings.load(given, os.environ, arguments.config)


def _add(group: argparse._ArgumentGroup, setting: Setting) -> None:
    text = setting.description.replace("%", "%%")
    default = (setting.default or "").strip('[]"')
    metavar = (
        setting.kind.removeprefix("list of ")
        .removesuffix(" or mapping")
        .replace(" or ", "|")
        .replace(" ", "_")
    )
    # SUPPRESS: a flag that was not given leaves no trace, so that environment and file can speak.
    group.add_argument(
        layers.flag(setting.name),
        dest=_DESTINATION + setting.name,
        action="append" if setting.repeatable else "store",
        default=argparse.SUPPRESS,
        nargs="?" if setting.switch else None,
        const="true" if setting.switch else None,
        metavar=metavar if "|" in metavar else metavar.upper(),
        help=text if default in {"", "null"} else f"{text} [{default}]",
    )
