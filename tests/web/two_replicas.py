"""A look at a real service: two simulated replicas of one model went through the pipeline, one collapsed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import pipeline
from monitor.core.pages.scrapes import Scrape
from monitor.service import snapshot
from monitor.service.demo import page as simulated
from monitor.service.demo import story
from monitor.service.demo.engine import WARM_UP_SECONDS, Phase, Scenario, SimulatedEngine
from monitor.store import Store
from tests import made

if TYPE_CHECKING:
    from collections.abc import Sequence

START = 1.7e9
SECONDS = 70


@cache
def collapsed() -> snapshot.Snapshot:
    """Return a look at two streams of one model that ran through the pipeline; the second collapsed."""
    return looked_at((("m/model", None), ("m/model", 25.0)))


def looked_at(models: Sequence[tuple[str, float | None]]) -> snapshot.Snapshot:
    """Return a look at targets `t0`, `t1`, … of these models, each collapsing after so many seconds or never."""
    plan = pipeline.Plan(windows=(10.0, 60.0, 300.0))
    state, kept = pipeline.begin(plan), Store("")
    pages = [_page(number, *each) for number, each in enumerate(models)]
    for second in range(SECONDS):
        for engine, _ in pages:
            engine.advance(float(second))
        batch = [Scrape(f"t{n}", START + second, body=page.render()) for n, (_, page) in enumerate(pages)]
        step = pipeline.step(plan, state, batch)
        kept.save({}, step.events, [])
    urls = {f"t{number}": f"http://t{number}/metrics" for number in range(len(models))}
    parts = made.parts(plan, state, urls, kept, started_at=START)
    return snapshot.Snapshot(parts, START + SECONDS)


def _page(
    number: int, model_name: str, collapses_after: float | None
) -> tuple[SimulatedEngine, simulated.SimulatedPage]:
    phases = [Phase(-WARM_UP_SECONDS, story.GOOD)]
    phases += [] if collapses_after is None else [Phase(collapses_after, story.BROKEN)]
    scenario = Scenario(f"t{number}", model_name, tuple(phases))
    engine = SimulatedEngine(scenario, np.random.default_rng(number))
    return engine, simulated.SimulatedPage(engine, model_name, START - WARM_UP_SECONDS)
