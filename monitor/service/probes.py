"""One scrape of one listed target, judged by itself: what `/probe?target=` shows."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from monitor.core import pipeline
from monitor.service import snapshot
from monitor.service.locking import StateLock
from monitor.sources import http

if TYPE_CHECKING:
    from monitor.core.pipeline import Plan
    from monitor.service.snapshot import Snapshot, SnapshotParts
    from monitor.sources.targets import Target


async def probed(facts: SnapshotParts, plan: Plan, target: Target, seconds: float | None) -> Snapshot:
    """Return a look at what one scrape of `target` shows, within `seconds`, the service untouched."""
    if seconds is not None:
        target = dataclasses.replace(target, timeout=min(target.timeout, seconds))
    scrape = await http.fetch_once(target, time.time)
    state = pipeline.begin(plan)
    await asyncio.to_thread(pipeline.step, plan, state, [scrape])  # a page may be megabytes of garbage
    alone = dataclasses.replace(
        facts,
        plan=plan,
        state=state,
        lock=StateLock(),
        urls={target.name: target.url},
    )
    return snapshot.Snapshot(alone, scrape.at)
