"""Two releases of one model side by side for an hour, seen by a service that keeps their history."""

from __future__ import annotations

from functools import cache

import numpy as np

from monitor.core import pipeline
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import history
from monitor.core.streams.regimes import Declared
from monitor.core.vocabulary import STATES
from monitor.service import snapshot
from monitor.store import Store
from tests import made

MINUTES, DRAFTS, TOKENS = 60, 6000, 3
MODEL = "m"
OLD = {"version": "v1", "app": "my-model-primary", "rollouts_pod_template_hash": "abc"}
NEW = {"version": "v2", "app": "my-model", "rollouts_pod_template_hash": "def"}


@cache
def look(acceptance: float, minutes: int = MINUTES) -> snapshot.Snapshot:
    """Return a look at v1 (target old), which accepts 0.7 at each position, beside v2 (target new)."""
    labels = {"old": OLD, "new": NEW}
    declared = {name: Declared(labels=tuple(each.items())) for name, each in labels.items()}
    plan = pipeline.Plan(declared=declared)
    state, kept, recorder = pipeline.begin(plan), Store(""), history.Recorder()
    random = np.random.default_rng(7)
    totals = {name: np.zeros(TOKENS) for name in labels}
    seconds = dict.fromkeys(labels, 0.0)
    for minute in range(minutes + 1):
        at = made.START + 60.0 * minute
        batch = []
        for name, rate in (("old", 0.7), ("new", acceptance)):
            if minute:
                tried = DRAFTS
                for position in range(TOKENS):
                    tried = random.binomial(tried, rate)
                    totals[name][position] += tried
                seconds[name] += DRAFTS * 0.02 * random.normal(1.0, 0.01)
            batch.append(Scrape(name, at, body=_page(totals[name], DRAFTS * minute, seconds[name])))
        pipeline.step(plan, state, batch)
        kept.save({}, [], recorder.take(state, STATES, at))
    urls = {name: f"http://{name}/metrics" for name in labels}
    return snapshot.Snapshot(made.parts(plan, state, urls, kept), made.START + 60.0 * minutes + 1.0)


def _page(accepted: np.ndarray, drafts: int, seconds: float) -> bytes:
    """A vLLM page of one request stream: each decode step carried a draft."""
    tokens = drafts + float(accepted.sum())
    more = {
        "generation_tokens_total": tokens,
        "request_success_total": 0.0,
        "inter_token_latency_seconds_sum": seconds,
        "inter_token_latency_seconds_count": float(drafts),
        "time_to_first_token_seconds_count": 0.0,
    }
    return made.page(accepted.tolist(), drafts=float(drafts), more=more, model_name=MODEL)
