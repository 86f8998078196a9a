"""Nothing that we ship asks for a metric or a label's value that nobody exports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, get_args

import pytest

from alerts import generate
from monitor.core import pipeline, streams
from monitor.core.pages import scrapes
from monitor.core.vocabulary import DIRECTION_OF, EVENT_KINDS, STATES
from monitor.settings import quantities
from tests.alerts import names, tools

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNBOOKS = sorted((generate.ROOT / "runbooks").glob("*.md"))
DASHBOARDS = sorted((generate.ROOT / "dashboards").glob("*.json"))


@pytest.fixture(scope="module")
def known() -> set[str]:
    """Every name that exists."""
    return names.exported() | names.of_engines() | names.recorded() | names.SERVER | names.AGREED


def expressions() -> Iterator[str]:
    """Every query in the rules, those inside templates of annotations too."""
    for tier in tools.TIERS:
        for group in tools.rule_groups(tier):
            rules = group["rules"]
            assert isinstance(rules, list)
            for rule in rules:
                yield rule["expr"]


def queries(path: Path) -> Iterator[str]:
    """Every query of a dashboard: of panels, variables and annotations."""
    board = json.loads(path.read_text())
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (note["expr"] for note in board["annotations"]["list"])
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"].removeprefix("label_values(").rpartition(",")[0]


def test_rules(known: set[str]) -> None:
    """Every metric in an expression exists."""
    asked = {name for expr in expressions() for name in names.in_query(expr)}
    assert len(asked) > 50
    assert asked - known == set()


def test_annotations(known: set[str]) -> None:
    """Every metric in a template exists."""
    asked = {
        name
        for tier in tools.TIERS
        for name in names.in_text((tools.GENERATED / tools.TIERS[tier]).read_text())
    }
    assert asked - known == set()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_dashboards(path: Path, known: set[str]) -> None:
    """Every metric on a dashboard exists."""
    asked = {name for query in queries(path) for name in names.in_query(query)}
    assert asked
    assert asked - known == set()


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_runbooks(path: Path, known: set[str]) -> None:
    """Every metric in a runbook exists."""
    assert names.in_text(path.read_text()) - known == set()


def test_what_is_agreed_is_still_to_come() -> None:
    """A metric that is exported by now is no longer excused."""
    assert names.AGREED & names.exported() == set()


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("kind", EVENT_KINDS),
        ("state", STATES),
        ("reason", get_args(scrapes.FailureReason)),
        ("check", streams.CHECKS),
        ("direction", ("up", "down")),
        ("window", tuple(map(quantities.duration_text, pipeline.Plan().windows))),
    ],
    ids=["kind", "state", "reason", "check", "direction", "window"],
)
def test_values_of_labels(label: str, values: tuple[str, ...]) -> None:
    """Every value that a rule or dashboard asks of a label of ours can occur; a misspelt one would be silent."""
    everything = [*expressions(), *(query for path in DASHBOARDS for query in queries(path))]
    asked = {value for expr in everything for value in names.matchers(expr, label)}
    assert asked <= set(values)


def test_every_down_kind_has_an_alert() -> None:
    """No kind of event that means a loss is without an alert."""
    asked = {kind for expr in expressions() for kind in names.matchers(expr, "kind")}
    losses = {kind for kind, direction in DIRECTION_OF.items() if direction == "down"}
    # a net loss is no change of acceptance: a stream may lose at its baseline
    assert asked == losses - {"data_quality"} | {"net_loss"}


def test_every_page_reason_is_told_apart() -> None:
    """Reasons that speak of a page's content are the ones of SpecmonUnknownPage, the others are of TargetDown."""
    reasons = {value for expr in expressions() for value in names.matchers(expr, "reason")}
    transport = {"timeout", "connection", "dns", "tls", "unauthorised", "http_status", "redirect"}
    assert reasons == set(get_args(scrapes.FailureReason)) - transport
