"""A panel of a Grafana dashboard, as its JSON model wants it.

Unknown stays unknown: a series that is absent draws nothing, a gap in it stays a gap, an empty panel says
"no data". Every query goes to the data source that the dashboard's variable names.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Node = dict[str, object]

DATASOURCE: Node = {"type": "prometheus", "uid": "${datasource}"}
NO_DATA = "no data"


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


def node(panel: Panel) -> Node:
    """Return the panel's JSON without its id and place."""
    found: Node = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": [_target(query, chr(ord("A") + place)) for place, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _OPTIONS[panel.kind],
    }
    if panel.columns:
        found["transformations"] = _one_table(panel.columns)
    return found


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
    found: Node = {
        "unit": panel.unit,
        "noValue": NO_DATA,
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "thresholds": {"mode": "absolute", "steps": steps},
        "mappings": [{"type": "value", "options": _texts(panel.mappings)}] if panel.mappings else [],
    }
    for name, value in (("decimals", panel.decimals), ("min", panel.minimum), ("max", panel.maximum)):
        if value is not None:
            found[name] = value
    if panel.kind == "timeseries":
        style = "dashed" if panel.line_at_threshold else "off"
        found["custom"] = {"spanNulls": False, "lineWidth": 1, "thresholdsStyle": {"mode": style}}
    return found


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
    """Return the steps that join a table's queries by their labels and keep `columns` (name to title)."""
    order = {name: place for place, name in enumerate(columns)}
    return [
        {"id": "merge", "options": {}},
        {"id": "filterFieldsByName", "options": {"include": {"names": list(columns)}}},
        {
            "id": "organize",
            "options": {"indexByName": order, "renameByName": dict(columns), "excludeByName": {}},
        },
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
