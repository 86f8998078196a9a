"""Pages over HTTP for the commands that look once."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor import settings
from monitor.core.pages import engines
from monitor.service import commands
from monitor.settings import values
from monitor.sources import http, targets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.pages.scrapes import Scrape


def pages(urls: Sequence[str], *, wait: float, timeout: float) -> list[Scrape]:
    """Return the page of each URL, read `wait` seconds apart. Raises Unusable where one cannot be read."""
    try:
        wanted = [targets.Target(_label(url), url, interval=2 * timeout, timeout=timeout) for url in urls]
    except ValueError as error:
        raise commands.Unusable(str(error)) from error
    return asyncio.run(_read(wanted, wait))


def _label(url: str) -> str:
    try:
        return settings.TargetSettings(url=url).label
    except ValueError:  # pydantic's own words fill several lines
        shown = values.without_secrets(url)
        raise commands.Unusable(
            f"read {shown!r}, expected a URL such as http://engine-0:8000/metrics"
        ) from None


async def _read(wanted: Sequence[targets.Target], wait: float) -> list[Scrape]:
    found: list[Scrape] = []
    for target in wanted:
        if found:
            await asyncio.sleep(wait)
        scrape = await http.fetch_once(target, time.time)
        schema = engines.recognise(scrape.body or b"")
        if schema is not None and (beside := (*schema.engine.beside, *schema.engine.identity)):
            pages = tuple(targets.Beside(path) for path in beside)
            scrape = await http.fetch_once(replace(target, beside=pages), time.time)
        if scrape.failure is not None:
            raise commands.Unusable(scrape.failure.detail)
        found.append(scrape)
    return found
