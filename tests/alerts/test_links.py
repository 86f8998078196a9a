"""Links that rules and dashboards make from labels lead to the stream's page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pytest

from alerts import phrases
from monitor.core import pipeline, streams
from monitor.core.pages.scrapes import Scrape
from monitor.service import snapshot
from tests import made
from tests.alerts import tools

if TYPE_CHECKING:
    from monitor.core.pages.scrapes import StreamKey


@pytest.fixture(scope="module")
def view() -> snapshot.Snapshot:
    """A look at specmon after one page of an engine whose model has a slash in its name."""
    body = (tools.ROOT / "tests" / "fixtures" / "vllm" / "ngram_k4_start.prom").read_bytes()
    body = re.sub(rb'model_name="[^"]*"', b'model_name="meta-llama/Llama-3.3-70B-Instruct"', body)
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    for at in (0.0, 15.0):
        pipeline.step(plan, state, [Scrape("vllm-0:8000", at, body=body)])
    facts = made.parts(plan, state, {"vllm-0:8000": "http://vllm-0:8000/metrics"}, started_at=0.0)
    return snapshot.Snapshot(facts, 15.0)


def test_the_labels_of_a_stream_name_its_page(view: snapshot.Snapshot) -> None:
    """A stream whose id is abridged is also found by its labels, as the path of a link has them once decoded."""
    (key,) = view._facts.state.rows
    labels: StreamKey = key
    path = f"{quote(labels.target, safe='')}~{quote(labels.model_name, safe='')}~{labels.replica}"
    found = view.stream(unquote(path))
    assert found is not None
    assert found.id == streams.stream_id(key)
    assert found.id != unquote(path)
    assert view.stream("vllm-0:8000~other~0") is None


def test_alerts_link_so() -> None:
    """The template of an alert's link is target, model and replica, in that order, each escaped."""
    assert re.findall(r"\$labels\.(\w+) \| urlquery", phrases._KEY) == ["target", "model_name", "replica"]
    assert re.sub(r"\{\{[^}]*\}\}", "", phrases._KEY) == "~~"
