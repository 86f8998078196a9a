"""The dashboards: their form, where they lead, and that each of their queries gives data where there is data.

There is no Grafana here: `grafana.schema.json` is a schema of our own, written from Grafana's documentation of the
dashboard's JSON model and narrower than it. The queries run against a real Prometheus.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import jsonschema  # type: ignore[import-untyped]
import pytest

from alerts import generate
from tests.alerts import backfill, servers, tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.alerts.servers import Server

    Node = dict[str, object]

BOARDS = {path.stem: path for path in sorted((generate.ROOT / "dashboards").glob("*.json"))}
# What is empty where all is well, or where something is not there to be measured.
EMPTY_WHEN_WELL = ("silent", "drifting", "improved", "warming", "off", "stale", "unsupported")


def board(name: str) -> Node:
    """Return a dashboard."""
    found: Node = json.loads(BOARDS[name].read_text())
    return found


def nodes(value: object) -> list[Node]:
    """Return a list of JSON objects as such."""
    assert isinstance(value, list)
    return value


def targets(name: str) -> list[tuple[str, Node]]:
    """Return every query of a dashboard with the title of its panel."""
    return [
        (str(panel["title"]), target)
        for panel in nodes(board(name)["panels"])
        for target in nodes(panel.get("targets", []))
    ]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A Prometheus that holds two hours of our series, up to now."""
    folder = tmp_path_factory.mktemp("prometheus")
    promtool = tools.program("promtool")
    backfill.write(folder / "series.txt", int(time.time()))
    tools.run(promtool, "tsdb", "create-blocks-from", "openmetrics", folder / "series.txt", folder / "data")
    (folder / "config.yml").write_text("global: {scrape_interval: 1m}\n")
    with servers.prometheus(folder / "data", folder / "config.yml") as server:
        yield server


def filled(expr: str, **chosen: str) -> str:
    """Return a query with Grafana's variables replaced, `.*` where nothing else is chosen."""
    given = {"__rate_interval": "5m", "__interval": "1m", "target": ".*", "model_name": ".*", "replica": "0"}
    for name, value in {**given, "job": ".*", "instance": ".*", **chosen}.items():
        expr = expr.replace(f"${name}", value)
    assert "$" not in expr
    return expr


def result(server: Server, query: Node, **chosen: str) -> list[Node]:
    """Return the series that a panel's query gives over the last hour, or now."""
    expr, now = filled(str(query["expr"]), **chosen), int(time.time())
    if query["instant"]:
        path = "/api/v1/query?" + urlencode({"query": expr, "time": now})
    else:
        path = "/api/v1/query_range?" + urlencode(
            {"query": expr, "start": now - 3600, "end": now, "step": 60}
        )
    answer = server.ask("GET", path)
    assert isinstance(answer, dict)
    assert answer["status"] == "success"
    assert "warnings" not in answer
    return nodes(answer["data"]["result"])


@pytest.mark.parametrize("name", BOARDS)
def test_schema(name: str) -> None:
    """A dashboard has the form that our schema describes, and nothing beside it."""
    schema = json.loads((tools.HERE / "grafana.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    found = sorted(jsonschema.Draft202012Validator(schema).iter_errors(board(name)), key=str)
    assert [f"{error.json_path}: {error.message[:200]}" for error in found] == []


@pytest.mark.parametrize("name", BOARDS)
def test_layout(name: str) -> None:
    """Panels have ids of their own, lie inside the 24 columns and do not overlap."""
    panels = nodes(board(name)["panels"])
    assert len({str(panel["id"]) for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert isinstance(place, dict)
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in covered) < 24
        assert not covered & cells
        cells |= covered


@pytest.mark.parametrize("name", BOARDS)
def test_data_source_is_a_variable(name: str) -> None:
    """No dashboard names a data source of one Grafana, and unknown is never drawn as 0."""
    text = BOARDS[name].read_text()
    found = board(name)
    everything = [*nodes(found["panels"]), *(target for _, target in targets(name))]
    used = {json.dumps(each["datasource"]) for each in everything if "datasource" in each}
    assert used == {'{"type": "prometheus", "uid": "${datasource}"}'}
    assert "vector(0)" not in text
    assert '"spanNulls": true' not in text
    for panel in nodes(found["panels"]):
        if panel["type"] != "row":
            assert '"noValue": "no data"' in json.dumps(panel["fieldConfig"])


def test_links_lead_on() -> None:
    """From the fleet one gets to a stream, from both to the report and to vLLM's own dashboard, by tag to the others."""
    fleet, stream = (BOARDS[name].read_text() for name in ("specmon-fleet", "specmon-stream"))
    assert "/d/specmon-stream?var-target=${__data.fields.target:percentencode}" in fleet
    assert "/report/${__data.fields.target:percentencode}~${__data.fields.model_name:percentencode}~" in fleet
    assert "/report/${target:percentencode}~${model_name:percentencode}~${replica:percentencode}" in stream
    for name in BOARDS:
        links = nodes(board(name)["links"])
        assert links[0]["type"] == "dashboards"
        assert links[0]["tags"] == ["specmon"]
    assert "vLLM's own dashboard" in fleet
    assert "vLLM's own dashboard" in stream


def test_links_of_alerts_lead_to_dashboards() -> None:
    """Every dashboard_url of an alert names a dashboard that we ship, with variables that it has."""
    for tier in tools.TIERS:
        for group in tools.rule_groups(tier):
            for rule in nodes(group["rules"]):
                annotations = rule.get("annotations", {})
                assert isinstance(annotations, dict)
                if not annotations:
                    continue
                uid, _, query = annotations["dashboard_url"].rpartition("/d/")[2].partition("?")
                variables = {str(each["name"]) for each in nodes(_templating(uid)["list"])}
                asked = {part.split("=")[0].removeprefix("var-") for part in query.split("&") if part}
                assert asked <= variables


def _templating(uid: str) -> Node:
    found = board(uid)["templating"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("name", BOARDS)
def test_every_query_gives_data(name: str, prometheus: Server) -> None:
    """Every query of every panel runs, and gives at least one series where something is going on."""
    chosen = {"target": "a:8000", "model_name": "org/m"} if name == "specmon-stream" else {}
    empty = [
        f"{title}: {target['expr']}"
        for title, target in targets(name)
        if not result(prometheus, target, **chosen) and target["legendFormat"] not in EMPTY_WHEN_WELL
    ]
    assert empty == []


@pytest.mark.parametrize("name", BOARDS)
def test_variables_and_notes_run(name: str, prometheus: Server) -> None:
    """Each variable finds values, each annotation query runs."""
    for variable in nodes(_templating(name)["list"]):
        if variable["type"] == "query":
            series, _, label = str(variable["definition"]).removeprefix("label_values(")[:-1].rpartition(", ")
            chosen = {"target": "a:8000", "model_name": "org/m"} if name == "specmon-stream" else {}
            match = urlencode({"match[]": filled(series, **chosen)})
            answer = prometheus.ask("GET", f"/api/v1/label/{label}/values?{match}")
            assert isinstance(answer, dict)
            assert answer["data"], variable["name"]
    notes = board(name)["annotations"]
    assert isinstance(notes, dict)
    for note in nodes(notes["list"]):
        chosen = {"target": "a:8000", "model_name": "org/m"} if name == "specmon-stream" else {}
        assert result(prometheus, {"expr": note["expr"], "instant": False}, **chosen)


def test_no_traffic_is_no_data(prometheus: Server) -> None:
    """Of an idle stream there is a state and counters, and not one estimate: no 0 and no 1."""
    shown = {
        title
        for title, target in targets("specmon-stream")
        if result(prometheus, target, target="c:8000", model_name="idle")
    }
    assert shown == {
        "State",
        "Baseline",
        "Runs on",
        "Drift score",
        "Mean acceptance length",
        "State over time",
        "Drafts per second",
        "Counters that contradict each other",
    }
    pooled = next(
        target
        for title, target in targets("specmon-fleet")
        if title.startswith("Mean acceptance length, pooled")
    )
    assert result(prometheus, pooled, model_name="idle") == []
    assert result(prometheus, pooled, model_name="org/m")


@pytest.mark.parametrize("path", list(BOARDS.values()), ids=lambda path: path.stem)
def test_small_enough_for_a_config_map(path: Path) -> None:
    """All dashboards together fit into one ConfigMap (1 MiB)."""
    assert path.stat().st_size * len(BOARDS) < 1 << 20
