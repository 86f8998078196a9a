"""Where a command gets recorded history from: files, or a range of a Prometheus-compatible API."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from monitor.service import commands
from monitor.sources import LATEST

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from monitor.core.pages.scrapes import Scrape


@dataclass(frozen=True, slots=True)
class Span:
    """What is asked of a URL, as it was typed: from when until when, how often, of whom.

    `config` is the file whose `prometheus` has selector, headers and token; a `selector` here goes before it.
    """

    start: str = ""
    end: str = ""
    step: str = ""
    config: str = ""
    selector: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is asked where the source is a URL."""
    queried = parser.add_argument_group("a URL: Prometheus, Thanos, Mimir or VictoriaMetrics")
    queried.add_argument("--start", metavar="TIME", default="", help="RFC 3339 or unix seconds")
    queried.add_argument("--end", metavar="TIME", default="", help="RFC 3339 or unix seconds (default: now)")
    queried.add_argument(
        "--step", metavar="DURATION", default="", help="from one look to the next (default: scrape.interval)"
    )
    queried.add_argument(
        "--config",
        metavar="FILE",
        default="",
        help="YAML file (environment: SPECMON_CONFIG), whose `prometheus` has selector, headers, token",
    )


def is_url(source: str) -> bool:
    """Return whether a source is the address of a query API."""
    return source.startswith(("http://", "https://"))


def batches(
    source: str, span: Span, progress: Callable[[float], None] | None = None
) -> Iterator[list[Scrape]]:
    """Return the scrapes of a source as batches in time order. Raises Unusable."""
    if is_url(source):
        return _queried(source, span, progress)
    if span.start or span.end or span.step or span.selector:
        raise commands.Unusable(f"--start, --end and --step: read with {source}, expected a URL")
    from monitor.sources import files

    return files.replay(source, progress)


def _queried(source: str, span: Span, progress: Callable[[float], None] | None) -> Iterator[list[Scrape]]:
    from monitor import settings
    from monitor.service import assembly
    from monitor.settings import layers
    from monitor.sources import prometheus

    if not span.start:
        raise commands.Unusable("--start: read nothing, expected the time to begin at, for a URL")
    start = _time("--start", span.start)
    end = _time("--end", span.end) if span.end else math.floor(time.time())
    if not start < end:
        raise commands.Unusable(f"--start {start:.0f} and --end {end:.0f}: expected the start to be earlier")
    given: dict[str, str | list[str]] = {"prometheus.url": source}
    if span.step:
        given["scrape.interval"] = span.step
    if span.selector:
        given["prometheus.selector"] = span.selector
    config = span.config or os.environ.get(layers.CONFIG_VARIABLE)
    try:
        effective = settings.load(given, os.environ, config)
    except (settings.UnreadableFile, settings.Invalid) as error:
        raise commands.Unusable(str(error)) from error
    return prometheus.replay(assembly.queries_wanted(effective), start, end, progress)


def _time(flag: str, text: str) -> float:
    """Return unix seconds."""
    try:
        at = float(text)
    except ValueError:
        try:
            told = datetime.fromisoformat(text)
        except ValueError:
            told = None
        if told is None or len(text) < len("2026-01-01"):
            expected = "expected a time such as 2026-11-29T12:00:00Z or unix seconds"
            raise commands.Unusable(f"{flag}: read {text!r}, {expected}") from None
        return (told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp()
    if not 0 < at < LATEST:
        raise commands.Unusable(f"{flag}: read {text!r}, expected seconds since 1970, not milliseconds")
    return at
