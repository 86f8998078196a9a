"""States, kinds of event, severities, detectors and secrets are each listed once; all other places follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.core import vocabulary
from monitor.core.events.attribution import likelihoods
from monitor.core.vocabulary import EVENT_KINDS
from monitor.notify import alerts
from monitor.web import guidance, sentences

if TYPE_CHECKING:
    from collections.abc import Collection

# Where each kind of event must be known; a new kind fails here by the name of the place that misses it.
PLACES: dict[str, Collection[str]] = {
    "vocabulary.DIRECTION_OF": vocabulary.DIRECTION_OF,
    "web.sentences.KIND_WORDS": sentences.KIND_WORDS,
    "web.guidance.BY_KIND": guidance.BY_KIND,
    "notify.alerts.NAMES": alerts.NAMES,
    "notify.alerts.FLEET_NAMES": alerts.FLEET_NAMES,
}


@pytest.mark.parametrize("place", PLACES)
def test_every_kind_of_event_is_known_everywhere(place: str) -> None:
    """No table misses a kind, and none has one that is no more."""
    assert set(PLACES[place]) == set(EVENT_KINDS)


def test_every_cause_has_its_advice() -> None:
    """Each cause but the unknown has a first step, and causes that are learnt are causes."""
    assert {*guidance.BY_CAUSE, "unknown"} == set(vocabulary.CAUSES)
    assert set(likelihoods.LEARNT) <= set(vocabulary.CAUSES)
