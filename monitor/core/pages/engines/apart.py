"""Who is who on one page: which labels tell several engines apart, and what a series' engine is called.

A router, a gateway or a collector puts the pages of many engines on one. Series of one name that differ in
a label which is no known dimension belong to several engines, whatever the label is called. What the series
of speculation do not differ in tells no engines apart: a new dimension of another counter is a part of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from monitor.core.pages.exposition import Series

# Parts of one engine's counter, and what says the same of an engine in other words.
DIMENSIONS = frozenset(
    {
        "cache_source",
        "engine_type",
        "finished_reason",
        "handler",
        "is_streaming",
        "le",
        "method",
        "mode",
        "moe_ep_rank",
        "otel_scope_name",
        "otel_scope_schema_url",
        "otel_scope_version",
        "position",
        "pp_rank",
        "priority",
        "quantile",
        "reason",
        "source",
        "stage",
        "status",
        "step",
        "token_position",
        "tp_rank",
    }
)
INDEX = "engine"  # names a replica already
# Of labels that say the same the first of these names the engine.
FIRST = (
    "worker_addr",
    "instance",
    "exported_instance",
    "pod",
    "pod_name",
    "worker_id",
    "WorkerId",
    "hostname",
)
# Written by routers only: an engine keeps its name when it is the last one left on the page.
ALWAYS = frozenset({"worker_addr"})
REPLICA_OF_RAY = "ReplicaId"


def labels(
    series: Sequence[Series], telling: Collection[str], flowing: Collection[str], own: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the labels, fewest first choice, that tell the engines of a page apart; none for one engine.

    `telling` are the sample names of speculation; a page without them is told by `flowing`, those of
    generated tokens and running requests. `own` are labels that the engine's own reader makes streams of.
    """
    if any(each.label(REPLICA_OF_RAY) for each in series):
        return ()  # Ray's replicas have their own name, and its other labels change with every worker
    told = [each for each in series if each.name in telling] or [
        each for each in series if each.name in flowing
    ]
    known = {*DIMENSIONS, INDEX, *own}
    found: dict[str, dict[str, set[str]]] = {}
    for each in told:
        for label, value in each.labels:
            if value and label not in known:
                found.setdefault(label, {}).setdefault(each.name, set()).add(value)
    differing = [
        label
        for label, by_name in found.items()
        if label in ALWAYS or any(len(values) > 1 for values in by_name.values())
    ]
    return _fewest(told, sorted(differing, key=_preference))


def _preference(label: str) -> tuple[int, str]:
    return (FIRST.index(label) if label in FIRST else len(FIRST), label)


def _fewest(series: Sequence[Series], differing: Sequence[str]) -> tuple[str, ...]:
    """Return the labels that each split the engines further than those before them."""
    chosen: tuple[str, ...] = ()
    parts = 1
    for label in differing:
        split = len({tuple(each.label(name) for name in (*chosen, label)) for each in series})
        if split > parts or label in ALWAYS:
            chosen, parts = (*chosen, label), split
    return chosen


def name(series: Series, chosen: Sequence[str], replica: str) -> str:
    """Return what a series' engine is called: the chosen labels' values, and `replica` unless it is 0."""
    others = [series.label(label) for label in chosen if series.label(label)]
    return ":".join(others if others and replica == "0" else [*others, replica])
