"""A Grafana dashboard as its JSON model wants it (schema 39, Grafana 10 and newer): rows, variables."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alerts.grafana import panels

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alerts.grafana.panels import Node, Panel

SCHEMA = 39
WIDTH = 24
_ENGINES_OWN = "b281712d-8bff-41ef-9f3f-71ad43c05e9b"
"""uid of the dashboard that vLLM ships in its examples."""


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
        "datasource": panels.DATASOURCE,
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
        "datasource": panels.DATASOURCE,
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
            found.append(_placed(panels.node(panel), len(found) + 1, place))
            x, tallest = x + panel.width, max(tallest, panel.height)
        y += tallest
    return found


def _placed(node: Node, identity: int, place: tuple[int, int, int, int]) -> Node:
    x, y, width, height = place
    return {"id": identity, **node, "gridPos": {"x": x, "y": y, "w": width, "h": height}}


def _row(row: Row) -> Node:
    return {"type": "row", "title": row.title, "collapsed": False, "panels": []}
