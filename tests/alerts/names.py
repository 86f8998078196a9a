"""The names of metrics: those that exist, and those that a query or a text speaks of."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from alerts import generate, sources
from monitor import metrics, notify, store
from monitor.metrics import changes, selfmetrics, textformat
from monitor.sources import prometheus, queries
from monitor.sources.discovery import shards
from tests.alerts import tools
from tests.metric_tables import loss_table, open_change, stream_table

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of Prometheus itself: one series per scrape, one per alert.
SERVER = frozenset({"up", "ALERTS"})
# Metrics that the product has agreed on and does not export yet; a test fails when one of them has arrived.
AGREED: frozenset[str] = frozenset()
ENGINES = ("vllm", "sglang", "llama.cpp", "lmdeploy", "trtllm")
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)[ {]", re.MULTILINE)
_WRITTEN = re.compile(
    r"\b((?:specmon|trtllm|process|python)_[a-z0-9_]+|(?:vllm|sglang|llamacpp|lmdeploy|stream|model):[\w:]+)"
)
_OPERATORS = frozenset({"and", "or", "unless", "offset", "bool"})
_FUNCTION = re.compile(r"\b[a-z_]+\s*(?=\()")


def exported() -> set[str]:
    """Return the names of every sample that specmon's own page can have."""
    table = dataclasses.replace(stream_table(1), losses=loss_table())
    model = textformat.labels({"model_name": "m"})
    looked = metrics.TargetRow(
        "a", up=True, duration=0.1, last_success_at=1.0, scrapes=2, failures={"dns": 1}
    )
    families = [
        selfmetrics.build_family("0", "0"),
        *selfmetrics.reload_families(successful=True, succeeded_at=1.0),
        selfmetrics.web_family("https://specmon.example"),
        *metrics.stream_families(table),
        *changes.families([open_change(table.labels[0])], [open_change(model, "fleet")]),
        *metrics.target_families([looked]),
        *notifier().families(),
        # Names do not depend on values, and an unknown value would hide its name.
        *(
            textformat.single(family.name, family.kind, family.help, 1.0)
            for family in (*store.Store("").families(), *reader().families(), *shards.Shard(0, 2).families())
        ),
    ]
    process = selfmetrics.process_text(selfmetrics.registry(), openmetrics=False)
    return samples(textformat.render(families, appended=process).decode())


def notifier() -> notify.Notifier:
    """Return a notifier with one receiver, to which nothing was sent."""
    receiver = notify.Receiver("alertmanager", "am", "http://am.example")
    return notify.Notifier(notify.NotifyPlan((receiver,)), clock=lambda: 0.0)


def reader() -> prometheus.GridReader:
    """Return a reader of a query API that has asked nothing."""
    return prometheus.GridReader(
        prometheus.Wanted(queries.QueryServer("http://prometheus.example")), lambda: 0.0
    )


def of_engines() -> set[str]:
    """Return the names of every sample on the pages of engines among the fixtures."""
    pages = [
        path for engine in ENGINES for path in (tools.ROOT / "tests" / "fixtures" / engine).glob("*.prom")
    ]
    return {name for path in pages for name in samples(path.read_text())}


def recorded() -> set[str]:
    """Return the names that our recording rules make."""
    tiers = (sources.read(generate.ROOT / folder) for folder in generate.TIERS)
    return {rule.record for tier in tiers for group in tier.recordings for rule in group.rules}


def samples(page: str) -> set[str]:
    """Return the names of the samples on a page."""
    return set(_SAMPLE.findall(page))


def in_query(expr: str) -> set[str]:
    """Return the metrics that a PromQL query reads."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"|#.*', "", expr)
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", bare)
    bare = re.sub(r"\b\d+[smhdwy]\b", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    return set(re.findall(r"[a-zA-Z_][\w:]*", _FUNCTION.sub("", bare))) - _OPERATORS


def in_text(text: str) -> set[str]:
    """Return the metrics that a text speaks of."""
    return set(_WRITTEN.findall(text))


def matchers(expr: str, label: str) -> Iterator[str]:
    """Yield the values that a query asks `label` to have."""
    for value in re.findall(rf'\b{label}=~?"([^"]*)"', expr):
        yield from value.split("|")
