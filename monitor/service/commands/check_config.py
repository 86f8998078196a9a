"""`specmon check-config`: the effective settings, or what is wrong in them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from monitor import settings
from monitor.service import commands
from monitor.settings import flags

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The same flags as `specmon run`, so that the very same command line can be checked."""
    flags.add(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the effective settings as YAML; FOUND where one is wrong, with its path on standard error."""
    try:
        effective = flags.read(arguments)
    except settings.UnreadableFile as error:
        raise commands.Unusable(str(error)) from error
    except settings.Invalid as error:
        print(error, file=sys.stderr)
        return commands.FOUND
    sys.stdout.write(settings.masked(effective))
    return commands.FINE
