"""Series with the labels of Prometheus become pages as the engines wrote them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from monitor.core.pages import engines
from monitor.sources import promql, vectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.core.pages.scrapes import Scrape

FIXTURES = Path(__file__).parents[1] / "fixtures"
PAGES = [page for name in engines.ENGINES for page in sorted((FIXTURES / name).glob("*.prom"))]
DRAFTS = "vllm:spec_decode_num_drafts_total"


def series(name: str = DRAFTS, value: str = "5", at: float = 1.0, **labels: str) -> vectors.QueriedSeries:
    """Return a series with one value."""
    return vectors.QueriedSeries({"__name__": name, **labels}, {at: value})


def made(found: Sequence[vectors.QueriedSeries], *target_labels: str) -> dict[str, str]:
    """Return the page of each target at time 1."""
    (batch,) = vectors.Pages(target_labels).scrapes(found, [1.0])
    return {scrape.target: (scrape.body or b"").decode() for scrape in batch}


def test_added_labels_are_taken_away() -> None:
    """The page has the engine's own labels and values; those of Prometheus name the target."""
    found = series(
        job="llm/vllm", instance="10.0.0.7:8000", namespace="llm", pod="vllm-0", engine="0", model_name="m"
    )
    assert made([found]) == {"llm/vllm-0": f'{DRAFTS}{{engine="0",model_name="m"}} 5\n'}


def test_exported_labels_are_the_engine_s() -> None:
    """A label that Prometheus had itself gives way to the one that the engine exported."""
    found = series(instance="a:1", engine="prod", exported_engine="3", exported_instance="x", model_name="m")
    assert made([found]) == {"a:1": f'{DRAFTS}{{engine="3",instance="x",model_name="m"}} 5\n'}


def test_values_are_escaped() -> None:
    """What stands in a label stays what it was."""
    found = series(instance="a:1", model_name='a"b\\c\nd')
    assert made([found]) == {"a:1": f'{DRAFTS}{{model_name="a\\"b\\\\c\\nd"}} 5\n'}


@pytest.mark.parametrize(
    ("labels", "target_labels", "name"),
    [
        pytest.param({"instance": "a:1"}, (), "a:1", id="instance"),
        pytest.param({"instance": "a:1", "pod": "p"}, (), "p", id="pod"),
        pytest.param({"instance": "a:1", "pod": "p", "namespace": "n"}, (), "n/p", id="namespace and pod"),
        pytest.param({"instance": "a:1", "zone": "z", "rack": "r"}, ("zone", "rack"), "z/r", id="told"),
        pytest.param({"instance": "a:1", "zone": "z"}, ("zone", "rack"), "z", id="told, one missing"),
    ],
)
def test_names(labels: dict[str, str], target_labels: tuple[str, ...], name: str) -> None:
    """A target is called by the labels that the settings say, else by pod, else by instance."""
    assert list(
        made([vectors.QueriedSeries({"__name__": DRAFTS, **labels}, {1.0: "1"})], *target_labels)
    ) == [name]


def test_a_series_without_any_such_label_is_nobody_s() -> None:
    """No target has an empty name."""
    assert made([series(model_name="m")]) == {}


def test_other_processes_are_no_targets() -> None:
    """A start time, a web server's counter of the same name and a lone info series make no target."""
    others = [
        series(promql.COMMON, instance="node:9100"),
        series("decode_tokens_sum", instance="shop:80"),
        series("vllm:cache_config_info", instance="cut:8000"),
    ]
    assert list(made([*others, series(instance="a:1")])) == ["a:1"]


def test_a_missed_target_fails_and_is_gone_later() -> None:
    """A target without series has failed scrapes for ten minutes, and then it is no target any more."""
    pages = vectors.Pages()
    found = vectors.QueriedSeries({"__name__": DRAFTS, "instance": "a:1"}, {0.0: "1"})
    batches = list(pages.scrapes([found], [0.0, 60.0, 600.0, 660.0]))
    assert [[scrape.failure is not None for scrape in batch] for batch in batches] == [
        [False],
        [True],
        [True],
        [],
    ]
    assert list(pages.targets) == []


def test_of_two_scrapes_one_is_read_on() -> None:
    """Of a pair of Prometheus the same one is read as long as it is there; the other takes over."""
    pages = vectors.Pages()

    def values(of: str, **by_time: str) -> vectors.QueriedSeries:
        times = {float(time.removeprefix("t")): value for time, value in by_time.items()}
        return vectors.QueriedSeries({"__name__": DRAFTS, "instance": "a:1", "prometheus_replica": of}, times)

    found = [values("b", t1="1", t2="2", t3="3", t4="4"), values("a", t2="20", t4="40")]
    read = [scrape for batch in pages.scrapes(found, [1.0, 2.0, 3.0, 4.0]) for scrape in batch]
    assert [_value(scrape) for scrape in read] == ["1", "2", "3", "4"]
    assert pages.ambiguous == 1
    (after,) = pages.scrapes([values("a", t5="50")], [5.0])
    assert [_value(scrape) for scrape in after] == ["50"]
    assert pages.ambiguous == 0


def test_others_targets_are_left_out() -> None:
    """What another shard watches is not read."""
    pages = vectors.Pages(wanted=lambda name: name != "a:1")
    (batch,) = pages.scrapes([series(instance="a:1"), series(instance="b:1")], [1.0])
    assert [scrape.target for scrape in batch] == ["b:1"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_the_query_asks_for_what_is_read(page: Path) -> None:
    """Of each engine's page the query has every line that is read, so that it is recognised as it is."""
    body = page.read_bytes()
    schema = engines.recognise(body)
    if schema is None or schema.engine.name not in engines.ENGINES:
        pytest.skip("no engine's page")
    if schema.prefix not in schema.engine.spellings:
        pytest.skip(f"renamed to {schema.prefix}: no query can know that")
    asked = promql.names()
    kept = b"".join(
        line + b"\n" for line in body.splitlines() if re.split(rb"[{ \t]", line)[0].decode() in asked
    )
    assert schema.wanted <= asked
    assert engines.recognise(kept) == schema


@pytest.mark.parametrize(
    ("selector", "more"),
    [
        ("", "}"),
        ('cluster="eu"', ',cluster="eu"}'),
        (' {cluster="eu", job=~"a|b",} ', ',cluster="eu", job=~"a|b"}'),
    ],
)
def test_the_selector_is_added(selector: str, more: str) -> None:
    """More matchers stand behind the names, given with or without braces."""
    query = promql.query(selector)
    assert query.startswith('{__name__=~"')
    assert query.endswith('"' + more)


def test_every_engine_has_its_spellings() -> None:
    """An engine that is added to the table is asked for too."""
    assert [name for name, engine in engines.ENGINES.items() if not engine.spellings] == []
    assert engines.ENGINES["vllm"].wanted("vllm:") <= promql.names()


def _value(scrape: Scrape) -> str:
    assert scrape.body is not None
    return scrape.body.decode().split()[-1]
