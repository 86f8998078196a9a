"""Targets from a URL that answers with Prometheus's target groups as JSON (http_sd)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.sources import http, targets
from monitor.sources.discovery import Failed, Found, MalformedError, target_groups

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from monitor.sources.targets import Target


@dataclass(frozen=True, slots=True)
class Url:
    """The list behind the URL of `source`, asked for every `source.interval` seconds."""

    source: Target
    clock: Callable[[], float]
    kind: str = "http"

    async def news(self) -> AsyncGenerator[tuple[Found, ...] | Failed, None]:
        """Tell what each look finds."""
        while True:
            yield await self._look()
            await asyncio.sleep(self.source.interval)

    async def _look(self) -> tuple[Found, ...] | Failed:
        scrape = await http.fetch_once(self.source, self.clock)
        if scrape.body is None:
            return Failed(scrape.failure.detail if scrape.failure else "no answer")
        where = targets.shown(self.source.url)
        try:
            return target_groups.found(json.loads(scrape.body))
        except MalformedError as error:
            return Failed(f"{where}: {error}")
        except (ValueError, RecursionError):
            return Failed(f"{where}: read {scrape.body[:40]!r}, expected JSON with target groups")
