"""The parts of a Grafana dashboard, as its JSON model wants them (schema 39: Grafana 10 and newer).

Unknown stays unknown: a series that is absent draws nothing, a gap in it stays a gap, an empty panel says "no data".
Every query goes to the data source that the dashboard's variable names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Node = dict[str, object]

DATASOURCE: Node = {"type": "prometheus", "uid": "${datasource}"}
NO_DATA = "no data"
SCHEMA = 39
WIDTH = 24
_ENGINES_OWN = "b281712d-8bff-41ef-9f3f-71ad43c05e9b"
"""uid of the dashboard that vLLM ships in its examples."""


@dataclass(frozen=True, slots=True)
class Query:
    """One PromQL query; `legend` is a template over labels. An instant one asks for now only."""

    expr: str
    legend: str = ""
    instant: bool = False


@dataclass(frozen=True, slots=True)
class Threshold:
    """The colour of values from `start` on; None is the colour below every start."""

    start: float | None
    color: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel; `unit` is Grafana's name of it, `width` of 24 columns, `mappings` texts for values."""

    title: str
    kind: Literal["timeseries", "stat", "table", "state-timeline"]
    queries: Sequence[Query]
    description: str
    unit: str = "short"
    width: int = 8
    height: int = 8
    decimals: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    thresholds: Sequence[Threshold] = (Threshold(None, "text"),)
    line_at_threshold: bool = False
    mappings: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """A headline over panels."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable whose values are those of `label` in `series`."""

    name: str
    series: str
    label: str
    all_values: bool = True


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard; `links` are addresses by title, `notes` queries whose values are times to mark."""

    uid: str
    title: str
    description: str
    variables: Sequence[Variable]
    rows: Sequence[Row]
    links: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)
    since: str = "now-6h"

    def text(self) -> str:
        """Return the dashboard as JSON that can be imported or provisioned."""
        return json.dumps(self.node(), indent=2, ensure_ascii=False) + "\n"

    def node(self) -> Node:
        """Return the dashboard's JSON model."""
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": ["specmon", "speculative-decoding"],
            "schemaVersion": SCHEMA,
            "editable": True,
            "graphTooltip": 1,
            "timezone": "browser",
            "refresh": "30s",
            "time": {"from": self.since, "to": "now"},
            "links": [_dashboards_link(), *(_link(title, url) for title, url in self.links.items())],
            "annotations": {"list": [_note(title, expr) for title, expr in self.notes.items()]},
            "templating": {"list": [_datasource_variable(), *map(_variable, self.variables)]},
            "panels": _panels(self.rows),
        }


def vllm_dashboard(grafana: str) -> dict[str, str]:
    """Return the link to the dashboard that vLLM ships, about the model chosen here."""
    return {"vLLM's own dashboard": f"{grafana}/d/{_ENGINES_OWN}?${{model_name:queryparam}}"}


def _dashboards_link() -> Node:
    return {
        "type": "dashboards",
        "title": "specmon",
        "tags": ["specmon"],
        "asDropdown": True,
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _link(title: str, url: str) -> Node:
    return {
        "type": "link",
        "title": title,
        "url": url,
        "tags": [],
        "asDropdown": False,
        "includeVars": False,
        "keepTime": url.rpartition("/d/")[1] != "",
        "targetBlank": True,
        "icon": "external link",
        "tooltip": "",
    }


def _note(title: str, expr: str) -> Node:
    return {
        "name": title,
        "datasource": DATASOURCE,
        "enable": True,
        "hide": False,
        "iconColor": "orange",
        "expr": expr,
        "titleFormat": title,
        "textFormat": "{{target}} {{model_name}} {{replica}}",
        "useValueForTime": True,
    }


def _datasource_variable() -> Node:
    return {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
        "current": {},
        "hide": 0,
        "multi": False,
        "includeAll": False,
        "options": [],
        "refresh": 1,
        "regex": "",
        "skipUrlSync": False,
    }


def _variable(variable: Variable) -> Node:
    query = f"label_values({variable.series}, {variable.label})"
    return {
        "name": variable.name,
        "label": variable.name,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": query,
        "query": {"query": query, "refId": "A"},
        "current": {},
        "hide": 0,
        "multi": variable.all_values,
        "includeAll": variable.all_values,
        "allValue": ".*" if variable.all_values else None,
        "options": [],
        "refresh": 2,
        "regex": "",
        "skipUrlSync": False,
        "sort": 1,
    }


def _panels(rows: Sequence[Row]) -> list[Node]:
    """Return rows and panels from left to right, with ids and places."""
    found: list[Node] = []
    y = 0
    for row in rows:
        found.append(_placed(_row(row), len(found) + 1, (0, y, WIDTH, 1)))
        x, y, tallest = 0, y + 1, 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, tallest = 0, y + tallest, 0
            place = (x, y, panel.width, panel.height)
            found.append(_placed(_panel(panel), len(found) + 1, place))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return found


def _placed(node: Node, identity: int, place: tuple[int, int, int, int]) -> Node:
    x, y, width, height = place
    return {"id": identity, **node, "gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _row(row: Row) -> Node:
    return {"type": "row", "title": row.title, "collapsed": False, "panels": []}


def _panel(panel: Panel) -> Node:
    node: Node = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": [_target(query, chr(ord("A") + place)) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _OPTIONS[panel.kind],
    }
    if panel.columns:
        node["transformations"] = _one_table(panel.columns)
    return node


def _target(query: Query, reference: str) -> Node:
    return {
        "refId": reference,
        "datasource": DATASOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": query.instant,
        "range": not query.instant,
        "format": "table" if query.instant and not query.legend else "time_series",
    }


def _defaults(panel: Panel) -> Node:
    steps = [{"color": each.color, "value": each.start} for each in panel.thresholds]
    node: Node = {
        "unit": panel.unit,
        "noValue": NO_DATA,
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
        "mappings": [{"type": "value", "options": _texts(panel.mappings)}] if panel.mappings else [],
    }
    for name, value in (("decimals", panel.decimals), ("min", panel.minimum), ("max", panel.maximum)):
        if value is not None:
            node[name] = value
    if panel.kind == "timeseries":
        style = "dashed" if panel.line_at_threshold else "off"
        node["custom"] = {"spanNulls": False, "lineWidth": 1, "thresholdsStyle": {"mode": style}}
    return node


def _texts(mappings: Mapping[str, str]) -> Node:
    return {value: {"text": text, "index": place} for place, (value, text) in enumerate(mappings.items())}


def _overrides(panel: Panel) -> list[Node]:
    """Return units and links of single columns or series, chosen by their shown name."""
    found: list[Node] = []
    for name in dict.fromkeys((*panel.units, *panel.links)):
        properties: list[Node] = []
        if name in panel.units:
            properties.append({"id": "unit", "value": panel.units[name]})
        if name in panel.links:
            link = {"title": "Open", "url": panel.links[name], "targetBlank": False}
            properties.append({"id": "links", "value": [link]})
        found.append({"matcher": {"id": "byName", "options": name}, "properties": properties})
    return found


def _one_table(columns: Mapping[str, str]) -> list[Node]:
    """Return the steps that join the queries of a table by their labels and keep `columns` (name to title)."""
    order = {name: place for place, name in enumerate(columns)}
    return [
        {"id": "merge", "options": {}},
        {"id": "filterFieldsByName", "options": {"include": {"names": list(columns)}}},
        {"id": "organize", "options": {"indexByName": order, "renameByName": dict(columns), "excludeByName": {}}},
    ]


_LEGEND: Node = {"showLegend": True, "displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull"]}
_REDUCE: Node = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: dict[str, Node] = {
    "timeseries": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    "stat": {
        "reduceOptions": _REDUCE,
        "colorMode": "value",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
    },
    "table": {"showHeader": True, "cellHeight": "sm"},
    "state-timeline": {
        "mergeValues": True,
        "showValue": "auto",
        "rowHeight": 0.8,
        "legend": {"showLegend": False, "displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "single", "sort": "none"},
    },
}
