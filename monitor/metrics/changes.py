"""The changes that are open, as series: of streams, and of whole models, with the event's own numbers.

What notifications say is read from here, so that a text, a page and a query agree to the digit. A family of
streams carries `target`, `model_name` and `replica`, one of models only `model_name`: a sum over replicas
never counts the model as one more of them. What is over vanishes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor.metrics import textformat
from monitor.metrics.textformat import Column, Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Change:
    """One open change of what `labels` (a label block) names; NaN where unknown, times in unix seconds.

    `scope` of a stream's change is "fleet" where it is that of its whole model. `slowdown` is how many times
    as long a token takes, `replicas` how many are affected, `causes` their weights by name, `report` the
    address of the event's page, "" where nobody said how this monitor is reached.
    """

    labels: str
    event: str
    kind: str
    severity: str
    scope: str
    report: str
    before: float
    after: float
    since: float
    benefit_lost_ratio: float
    slowdown: float
    replicas: int = 1
    causes: Mapping[str, float] = field(default_factory=dict)


def families(of_streams: Sequence[Change], of_models: Sequence[Change]) -> Iterator[Family]:
    """Yield the families of the changes that are open."""
    yield from _of(of_streams, "specmon_change", "the stream, its own or its model's (scope fleet)")
    foremost = _foremost(of_streams)
    yield Family(
        "specmon_benefit_lost_ratio",
        "gauge",
        "(MAL before - MAL) / (MAL before - 1) of the change that is open: the share of the tokens won by "
        "speculation that is gone.",
        [Column([each.labels for each in foremost], [each.benefit_lost_ratio for each in foremost])],
    )
    yield from _of(of_models, "specmon_fleet_change", "a model on many replicas")
    labels = [each.labels for each in of_models]
    yield Family(
        "specmon_fleet_change_benefit_lost_ratio",
        "gauge",
        "(MAL before - MAL) / (MAL before - 1) of the model's open change.",
        [Column(labels, [each.benefit_lost_ratio for each in of_models])],
    )
    yield Family(
        "specmon_fleet_change_affected_replicas",
        "gauge",
        "Replicas that the model's open change is of.",
        [Column(labels, [each.replicas for each in of_models])],
    )


def _foremost(changes: Sequence[Change]) -> list[Change]:
    """Return the change of each stream or model whose numbers are told: the first that has acceptance."""
    found: dict[str, Change] = {}
    for each in changes:
        if each.labels not in found or (math.isnan(found[each.labels].after) and not math.isnan(each.after)):
            found[each.labels] = each
    return list(found.values())


def _of(changes: Sequence[Change], name: str, whose: str) -> Iterator[Family]:
    told = [_with(each, kind=each.kind, severity=each.severity, scope=each.scope) for each in changes]
    yield Family(f"{name}_active", "gauge", f"1 while a change of {whose} is open.", _ones(told))
    where = [_with(each, event=each.event, report=each.report) for each in changes]
    yield Family(
        name, "info", f"The event of the open change of {whose}, and its page; always 1.", _ones(where)
    )
    foremost = _foremost(changes)
    labels = [each.labels for each in foremost]
    for what, help_text, values in (
        ("mean_acceptance_length_before", "MAL before the open change", [each.before for each in foremost]),
        (
            "mean_acceptance_length_after",
            "MAL since the open change, as it is now",
            [each.after for each in foremost],
        ),
        ("start_timestamp_seconds", "Unix time at which the open change began", [e.since for e in foremost]),
        (
            "slowdown_ratio",
            "Time per output token after / before the open change; tokens per step where there is no clock",
            [each.slowdown for each in foremost],
        ),
    ):
        yield Family(f"{name}_{what}", "gauge", f"{help_text}.", [Column(labels, values)])
    causes = [
        Column([_with(each, cause=cause)], [weight])
        for each in foremost
        for cause, weight in each.causes.items()
    ]
    help_text = "Weight of a likely cause of the change that is open; those of one change sum to 1."
    yield Family(f"{name}_cause_ratio", "gauge", help_text, causes)


def _with(change: Change, **more: str) -> str:
    return f"{change.labels},{textformat.labels(more)}"


def _ones(blocks: Iterable[str]) -> list[Column]:
    written = list(blocks)
    return [Column(written, [1.0] * len(written))]
