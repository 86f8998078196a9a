"""A target says only its URL: the page tells the engine, or says why it does not."""

from __future__ import annotations

import re

import pytest

from monitor.core.pages import engines
from monitor.core.pages.engines import signposts
from monitor.core.pages.engines.base import Unsupported
from tests.engines import runs

PREFIXED = ("vllm", "sglang", "trtllm", "llama.cpp", "lmdeploy", "tgi")


@pytest.mark.parametrize("name", PREFIXED)
def test_a_renamed_prefix_is_recognised(name: str) -> None:
    """Ray, collectors and platforms put a word before the names or turn the colon into an underscore."""
    run = next(run for run in runs.of(name) if run.expect and not run.unsupported)
    page = run.pages[-1].decode()
    told = repr(runs.look(run.pages[-1], run.beside[-1]))
    prefix = runs.recognised(run.pages[-1]).prefix
    for renamed in (f"acme_{prefix}", f"acme:{prefix}", prefix.replace(":", "_")):
        other = re.sub(rf"(?m)^{re.escape(prefix)}", renamed, page).encode()
        assert runs.recognised(other).prefix == renamed
        assert repr(runs.look(other, run.beside[-1])) == told


@pytest.mark.parametrize(
    ("line", "name", "advice"),
    [
        ('dynamo_frontend_requests_total{model="m"} 4', "dynamo-frontend", "workers"),
        ('dynamo_component_uptime_seconds{worker_id="1"} 6.5', "dynamo-worker", "once the engine is up"),
        ('nv_inference_request_success{model="m",version="1"} 8', "triton", "/prometheus/metrics"),
        ('sgl_router_requests_total{route="/generate"} 3', "sglang-router", "workers"),
        ("lightllm_request_count 3", "lightllm", "log line"),
        ('vllm_router:num_requests 3\nvllm_router_hits{server="a"} 1', "vllm-router", "engines"),
        (
            'http_requests_total{handler="/v1/models",method="GET",status="2xx"} 9',
            "web-server",
            "--disable-log-stats",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_a_known_page_without_speculation_says_where_to_look(line: str, name: str, advice: str) -> None:
    """A frontend, a router and a server without statistics are recognised and not called unknown."""
    page = f"# TYPE x counter\n{line}\n".encode()
    assert runs.recognised(page).engine.name == name
    found = runs.look(page)
    assert isinstance(found, Unsupported)
    assert advice in found.detail


def test_a_router_that_uses_an_engines_names_is_no_engine() -> None:
    """VLLM's production-stack router has the engine's gauges per server: the servers have the counters."""
    found = runs.look(b'vllm:num_requests_running{server="http://a:8000"} 2\n')
    assert isinstance(found, Unsupported)
    assert "look at each server" in found.detail


def test_an_engine_behind_dynamo_is_that_engine() -> None:
    """A worker's page has Dynamo's own series and, passed through with more labels, its engine's."""
    page = (
        b'dynamo_component_uptime_seconds{worker_id="1"} 6.5\n'
        b'vllm:spec_decode_num_drafts_total{dynamo_component="backend",dynamo_namespace="d",engine="0",model="m",'
        b'model_name="m",worker_id="1"} 100\n'
    )
    assert list(runs.readings(page)) == ["m/0"]


def test_workers_on_one_page_stay_apart() -> None:
    """A federated page has the same engine index once per worker: they are different replicas."""
    page = b"".join(
        b'vllm:spec_decode_num_drafts_total{engine="0",model_name="m",instance="%s"} %d\n' % each
        for each in ((b"a:8000", 100), (b"b:8000", 7))
    )
    found = runs.readings(page)
    assert {name: each.counters[0] for name, each in found.items()} == {"m/a:8000": 100, "m/b:8000": 7}


def test_an_unknown_page_says_what_it_has_and_what_was_expected() -> None:
    """The reason names families of the page and the engines that are known."""
    reason = engines.why_unrecognised(b"# HELP node_cpu .\nnode_cpu_seconds_total 1\nnode_load1 2\n")
    assert "node_cpu_seconds_total, node_load1" in reason
    assert all(name in reason for name in engines.ENGINES)
    assert engines.recognise(b"node_load1 2\n") is None


def test_probing_takes_nothing_away() -> None:
    """TensorRT-LLM's Prometheus page is asked for before /metrics, which would drain its iteration records."""
    paths = engines.PROBE_PATHS
    assert paths.index("/prometheus/metrics") < paths.index("/metrics")
    assert len(set(paths)) == len(paths)
    assert engines.PROBE_PORTS[0] == 8000


def test_names_are_told_once() -> None:
    """No signpost hides an engine, and no two rows of the tables have one name."""
    names = [engine.name for engine in (*engines.ENGINES.values(), *signposts.SIGNPOSTS)]
    assert len(set(names)) == len(names)
