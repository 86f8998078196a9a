"""Puts scrapes that were taken at the same time into one batch, so that the pipeline steps once for all."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from monitor.core.pages.engines.base import Reading
    from monitor.core.pages.scrapes import Scrape

LARGEST_BATCH = 1024


def same_time(scrapes: Iterable[Scrape]) -> Iterator[list[Scrape]]:
    """Return lists of neighbouring scrapes with the same `at`, each of another target, at most LARGEST_BATCH.

    Readings of one target at one time that came one by one (its models and replicas) become one scrape, of
    at most LARGEST_BATCH readings.
    """
    batch: dict[str, _Looks] = {}
    at = 0.0
    for scrape in scrapes:
        known = batch.get(scrape.target) if scrape.at == at else None
        if known is not None and known.join(scrape):
            continue
        if batch and (scrape.at != at or known is not None or len(batch) >= LARGEST_BATCH):
            yield [looks.scrape() for looks in batch.values()]
            batch = {}
        at = scrape.at
        batch[scrape.target] = _Looks(scrape)
    if batch:
        yield [looks.scrape() for looks in batch.values()]


class _Looks:
    """What came of one target at one time."""

    __slots__ = ("_first", "_readings")

    def __init__(self, first: Scrape) -> None:
        self._first = first
        self._readings: dict[tuple[str, str], Reading] = {}

    def join(self, scrape: Scrape) -> bool:
        """Add a scrape's readings; False where it was seen twice, is a page, or is one too many."""
        if self._first.readings is None or scrape.readings is None:
            return False
        readings = self._readings or _by_stream(self._first.readings)
        more = _by_stream(scrape.readings)
        if len(readings) >= LARGEST_BATCH or not readings.keys().isdisjoint(more):
            return False
        readings.update(more)
        self._readings = readings
        return True

    def scrape(self) -> Scrape:
        """Return all of it as one scrape."""
        if not self._readings:
            return self._first
        return dataclasses.replace(self._first, readings=tuple(self._readings.values()))


def _by_stream(readings: Iterable[Reading]) -> dict[tuple[str, str], Reading]:
    return {(reading.model_name, reading.replica): reading for reading in readings}
