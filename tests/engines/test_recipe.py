"""README's recipe for a new engine is short, and following it gives an engine that reads its page."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING

from monitor import settings
from monitor.core.pages import engines, exposition
from monitor.core.pages.engines.base import Counter, Engine
from monitor.sources import promql, vectors
from tests.engines import runs

if TYPE_CHECKING:
    import pytest

README = (runs.FIXTURES.parents[1] / "README.md").read_text()
SECTION = re.split(r"(?m)^#", README.partition("### Adding an engine\n")[2])[0]
PAGE = b"""# TYPE acme_drafts_total counter
acme_drafts_total{model_name="m"} 100
acme_accepted_total{model_name="m"} 150
acme_accepted_by_position_total{model_name="m",position="0"} 90
acme_accepted_by_position_total{model_name="m",position="1"} 60
"""


def test_the_recipe_is_short() -> None:
    """Adding an engine takes thirty lines to say, no more."""
    assert 0 < len(SECTION.strip().splitlines()) <= 30


def acme() -> Engine:
    """The engine of the recipe, as it stands in README."""
    code = re.search(r"```python\n(.*?)```", SECTION, re.DOTALL)
    assert code is not None
    made: dict[str, object] = {}
    exec(textwrap.dedent("   " + code[1].lstrip()), made)  # noqa: S102 - our own README
    engine = made["ENGINE"]
    assert isinstance(engine, Engine)
    return engine


def test_the_recipe_works() -> None:
    """The module of the recipe reads a page of its engine."""
    engine = acme()
    assert engine.title
    assert engine.versions
    assert engine.port
    found = engine.signature.search(b"\n" + PAGE)
    assert found is not None
    prefix = found["prefix"].decode()
    page = exposition.read(PAGE, engine.wanted(prefix))
    told = engine.prepare(page.layout.series, prefix)(page.values, {})
    assert isinstance(told, tuple)
    (reading,) = told
    assert (reading.counters[Counter.DRAFTS], reading.accepted) == (100, (90, 60))


def test_one_line_in_the_table_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the table the engine may be named in the settings, and is read from a query API like the others."""
    engine = acme()
    monkeypatch.setitem(engines.ENGINES, engine.name, engine)
    given = json.dumps([{"url": "http://a:8000/metrics", "engine": "acme"}])
    (target,) = settings.load({}, {"SPECMON_TARGETS": given}).targets
    assert target.engine == "acme"
    samples = exposition.read(PAGE, engine.wanted("acme_")).layout.series
    asked = re.compile(promql.query().removeprefix('{__name__=~"').removesuffix('"}'))
    assert all(asked.fullmatch(each.name) for each in samples)
    answer = [
        vectors.QueriedSeries({"__name__": each.name, **dict(each.labels), "instance": "a:1"}, {60.0: "7"})
        for each in samples
    ]
    ((scrape,),) = vectors.Pages().scrapes(answer, [60.0])
    assert scrape.body is not None
    schema = engines.recognise(scrape.body)
    assert schema is not None
    assert schema.engine is engine


def test_the_places_that_are_probed_are_said_in_their_order() -> None:
    """README names the paths and the ports as they are tried."""
    assert ", ".join(f"`{path}`" for path in engines.PROBE_PATHS) in README
    assert ", ".join(str(port) for port in engines.PROBE_PORTS) in README


def test_the_files_of_the_recipe_exist() -> None:
    """Every path that the recipe names beside the new engine's own is there."""
    for path in re.findall(r"`((?:monitor|tests)/[^`]*)`", SECTION):
        assert "acme" in path or (runs.FIXTURES.parents[1] / path).exists(), path
