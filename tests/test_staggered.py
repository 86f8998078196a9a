"""Replicas that are scraped one after the other, as a scraper does, are one event where they fall together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from monitor.core import pipeline
from monitor.core.pages.scrapes import Scrape
from tests.e2e import farm

if TYPE_CHECKING:
    from monitor.core.events import Event

BEGAN = 1_700_000_000.0
WATCHED = 900.0
AFTER = 90.0


@pytest.mark.parametrize("seed", [1, 2])
def test_one_event_of_the_model(seed: int) -> None:
    """8 replicas collapse between their scrapes: the model's event within 30 s, at most one replica beside it.

    Whoever is scraped first may be told of before anybody knows of the others.
    """
    engines = farm.Farm(lambda: BEGAN)
    for number in range(8):
        engines.add(f"many-{number}", "org/many")
    random = np.random.default_rng(seed)
    phases = {name: float(random.uniform(0.0, farm.INTERVAL)) for name in engines.engines}
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    turned = BEGAN + WATCHED + float(random.uniform(0.0, farm.INTERVAL))
    rounds = int((WATCHED + AFTER) / farm.INTERVAL)
    times = sorted(
        (BEGAN + farm.INTERVAL * n + phase, name) for n in range(rounds) for name, phase in phases.items()
    )
    found: list[Event] = []
    for at, name in times:
        if at >= turned:
            engines.turn("org/many", farm.DEAD)
        found += pipeline.step(plan, state, [Scrape(name, at, body=engines.engines[name].page(at))]).events
    opened = [event for event in found if event.updates == 0 and event.status == "open"]
    (fleet,) = (event for event in opened if event.scope == "fleet")
    assert fleet.kind == "collapse"
    assert fleet.raised_at - turned <= 30.0
    assert len(fleet.streams) == 8
    assert len(opened) <= 2
