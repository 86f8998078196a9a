"""What the operator says of a target: which engine it is, and what its page cannot say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from monitor import settings
from monitor.core import pipeline
from monitor.core.pages import engines
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import regimes
from monitor.core.streams.regimes import Declared
from tests import made

if TYPE_CHECKING:
    from monitor.core.streams import State

FIXTURES = Path(__file__).parent / "fixtures" / "cases"
AT = 1_700_000_000.0


def after(declared: Declared, *bodies: bytes) -> State:
    """The state after these pages of one target, 15 s apart."""
    plan = replace(pipeline.Plan(), declared={"engine": declared})
    state = pipeline.begin(plan)
    for number, body in enumerate(bodies):
        pipeline.step(plan, state, [Scrape("engine", AT + 15 * number, body=body)])
    return state


def test_every_engine_may_be_named() -> None:
    """The setting takes exactly the engines that can be read."""
    kind = next(setting.kind for setting in settings.describe() if setting.name == "targets[].engine")
    assert kind.split(" or ") == list(engines.choices())


def test_a_page_of_another_engine_is_not_read() -> None:
    """A target that is said to be of one engine is not taken for another one."""
    state = after(Declared(engine="sglang"), made.page([5.0], drafts=9.0))
    failure = state.targets["engine"].failure
    assert failure is not None
    assert failure.reason == "unrecognised"


def test_iteration_records_are_read_when_told_to() -> None:
    """TensorRT-LLM's JSON page gives its sums under the operator's model name; without being told it is refused."""
    record = {
        "iter": 1,
        "iterLatencyMS": 20.0,
        "numActiveRequests": 2,
        "inflightBatchingStats": {"numGenRequests": 2, "avgNumDecodedTokensPerIter": 1.5},
        "specDecodingStats": {
            "numDraftTokens": 6,
            "numAcceptedTokens": 3,
            "numRequestsWithDraftTokens": 2,
            "acceptanceLength": 2.5,
        },
    }
    bodies = [json.dumps([record | {"iter": number}]).encode() for number in (1, 2, 3)]
    told = after(Declared(engine="trtllm-json", model_name="m"), *bodies)
    assert [identity.key.model_name for identity in told.identities] == ["m"]
    assert told.sums["total"][0][5:8].tolist() == [4.0, 12.0, 6.0]
    untold = after(Declared(), *bodies)
    assert untold.targets["engine"].failures == {"json": 3}


def test_the_operators_model_stands_where_the_page_has_none() -> None:
    """A page without a model's name takes the operator's; one that has a name keeps it."""
    nameless = (FIXTURES / "B10.prom").read_bytes()
    assert after(Declared(model_name="ours"), nameless).identities[0].key.model_name == "ours"
    named = made.page([5.0], drafts=9.0)
    assert after(Declared(model_name="ours"), named).identities[0].key.model_name == made.MODEL_NAME


def test_a_label_that_tells_the_release_is_a_mark() -> None:
    """Another value of such a label is a mark of the stream and ends no regime; other labels say nothing."""
    state = after(Declared(labels=(("version", "v1"), ("team", "a"))), made.steady(1), made.steady(2))
    (identity,) = state.identities
    now, declared = AT + 30.0, Declared(labels=(("version", "v2"), ("team", "b")))
    plan = pipeline.Plan(declared={"engine": declared})
    pipeline.step(plan, state, [Scrape("engine", now, body=made.steady(3))])
    found = [(mark.at, mark.kind, mark.text) for mark in identity.marks]
    assert found == [(now, "fact", "version went from v1 to v2")]
    assert identity.regimes == 1


def test_updated_weights_are_another_target_model() -> None:
    """Weights that were updated in place are a mark of the target model, not of the configuration."""
    (identity,) = after(Declared(), made.steady(1)).identities
    for version in ("1", "2"):
        reading = replace(made.reading((3.0, 2.0, 1.0), drafts=9.0), config=(("weight_version", version),))
        regimes.identify(None, identity, reading, AT + 60.0)
    found = [(mark.kind, mark.text) for mark in identity.marks]
    assert found == [("target_model", "weight_version went from 1 to 2")]
