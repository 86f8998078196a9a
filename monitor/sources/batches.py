"""Puts scrapes that were taken at the same time into one batch, so that the pipeline steps once for all."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from monitor.scrapes import Scrape

LARGEST_BATCH = 1024


def same_time(scrapes: Iterable[Scrape]) -> Iterator[list[Scrape]]:
    """Return lists of neighbouring scrapes with the same `at`, each of another target, at most LARGEST_BATCH.

    Readings of one target at one time that came one by one (its models and replicas) become one scrape.
    """
    batch: dict[str, Scrape] = {}
    at = 0.0
    for scrape in scrapes:
        known = batch.get(scrape.target) if scrape.at == at else None
        joined = None if known is None else _joined(known, scrape)
        if joined is not None:
            batch[scrape.target] = joined
            continue
        if batch and (scrape.at != at or known is not None or len(batch) >= LARGEST_BATCH):
            yield list(batch.values())
            batch = {}
        at = scrape.at
        batch[scrape.target] = scrape
    if batch:
        yield list(batch.values())


def _joined(first: Scrape, second: Scrape) -> Scrape | None:
    """Return both as one scrape, None where they do not belong together: it was seen twice, or is a page."""
    if first.readings is None or second.readings is None:
        return None
    known = {(reading.model_name, reading.replica) for reading in first.readings}
    if any((reading.model_name, reading.replica) in known for reading in second.readings):
        return None
    return dataclasses.replace(first, readings=(*first.readings, *second.readings))
