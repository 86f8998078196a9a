"""A look at a real service: two simulated replicas of one model went through the pipeline, one collapsed."""

from __future__ import annotations

from functools import cache

import numpy as np

from monitor.core import pipeline
from monitor.core.pages.scrapes import Scrape
from monitor.service import snapshot
from monitor.service.demo import page as simulated
from monitor.service.demo import story
from monitor.service.demo.engine import WARM_UP_SECONDS, Phase, Scenario, SimulatedEngine
from monitor.store import Store
from tests import made

START = 1.7e9
SECONDS = 70


@cache
def collapsed() -> snapshot.Snapshot:
    """Return a look at two streams of one model that ran through the pipeline; the second collapsed."""
    plan = pipeline.Plan(windows=(10.0, 60.0, 300.0))
    state, kept = pipeline.begin(plan), Store("")
    phases = (
        (Phase(-WARM_UP_SECONDS, story.GOOD),),
        (Phase(-WARM_UP_SECONDS, story.GOOD), Phase(25.0, story.BROKEN)),
    )
    engines = [
        SimulatedEngine(Scenario(f"t{n}", "m/model", phase), np.random.default_rng(n))
        for n, phase in enumerate(phases)
    ]
    pages = [simulated.SimulatedPage(engine, "m/model", START - WARM_UP_SECONDS) for engine in engines]
    for second in range(SECONDS):
        for engine in engines:
            engine.advance(float(second))
        batch = [Scrape(f"t{n}", START + second, body=page.render()) for n, page in enumerate(pages)]
        step = pipeline.step(plan, state, batch)
        kept.save({}, step.events, [])
    parts = made.parts(
        plan, state, {"t0": "http://t0/metrics", "t1": "http://t1/metrics"}, kept, started_at=START
    )
    return snapshot.Snapshot(parts, START + SECONDS)
