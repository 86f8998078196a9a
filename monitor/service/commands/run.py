"""`specmon run`: the service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from monitor import settings
from monitor.service import commands, own_log
from monitor.settings import flags

if TYPE_CHECKING:
    import argparse

    from monitor.settings import Settings

INTERVALS_PER_BUCKET = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Every setting as a flag."""
    flags.add(parser)


def run(arguments: argparse.Namespace) -> int:
    """Watch the targets until SIGTERM or SIGINT."""
    effective = read(arguments)
    try:
        _watching(effective)
    except settings.Invalid as error:
        raise commands.Unusable(f"{error}; `specmon demo` needs none") from error
    from monitor.service import assembly
    from monitor.service.commands import serving

    try:
        finders = assembly.providers(effective)
        assembly.shard(effective)
    except assembly.MissingError as error:
        raise commands.Unusable(str(error)) from error
    asyncio.run(
        serving.serve(
            effective,
            assembly.plan(effective),
            assembly.scrape_targets(effective),
            reread=lambda: _watching(flags.read(arguments)),
            finders=finders,
            bucket=min(max(INTERVALS_PER_BUCKET * effective.scrape.interval, 2.0), 60.0),
        )
    )
    return commands.FINE


def _watching(effective: Settings) -> Settings:
    """Return the settings; raises Invalid where they name nothing to watch, as a half-written file does."""
    if effective.targets or effective.discovery.configured or effective.prometheus.url:
        return effective
    expected = "expected --target URL, SPECMON_TARGETS, or `targets`, `discovery` or `prometheus` in the file"
    raise settings.Invalid(f"no target to watch: {expected}")


def read(arguments: argparse.Namespace) -> Settings:
    """Return the settings and start logging with them. Raises Unusable where they are wrong."""
    try:
        effective = flags.read(arguments)
    except (settings.UnreadableFile, settings.Invalid) as error:
        raise commands.Unusable(str(error)) from error
    own_log.start(effective.log.level, effective.log.format)
    return effective
