"""What specmon says of itself: its build, its process and its Python.

The process_ and python_ families come from prometheus_client's own collectors, in a registry of our own, so
that their names and meanings are the ones that every dashboard knows.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.openmetrics import exposition as openmetrics_exposition

from monitor.metrics import textformat
from monitor.metrics.textformat import Column, Family

if TYPE_CHECKING:
    from collections.abc import Sequence

_END = b"# EOF\n"


def web_family(external_url: str) -> Family:
    """Return how people reach this monitor; nothing where nobody said so."""
    columns = [Column((textformat.labels({"external_url": external_url}),), (1.0,))] if external_url else []
    return Family("specmon_web", "info", "How people reach the pages of this specmon; always 1.", columns)


def registry() -> CollectorRegistry:
    """Return a registry with the process, platform and garbage collector families and nothing else."""
    own = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=own)
    PlatformCollector(registry=own)
    GCCollector(registry=own)
    return own


def process_text(own: CollectorRegistry, *, openmetrics: bool) -> bytes:
    """Return the families of `own` in the asked format, without the end marker."""
    if openmetrics:
        page: bytes = openmetrics_exposition.generate_latest(own)  # type: ignore[no-untyped-call]
        return page.removesuffix(_END)
    return generate_latest(own)


def build_family(version: str, revision: str) -> Family:
    """Return `specmon_build_info`."""
    pairs = {"version": version, "revision": revision, "python_version": platform.python_version()}
    column = Column((textformat.labels(pairs),), (1,))
    return Family("specmon_build", "info", "The running build of specmon; always 1.", (column,))


def reload_families(*, successful: bool, succeeded_at: float) -> Sequence[Family]:
    """Return what is known of the last reload of the configuration; `succeeded_at` in unix seconds."""
    return (
        textformat.single(
            "specmon_config_last_reload_successful",
            "gauge",
            "1 if the last load of the configuration succeeded; after a failed one the old stays in force.",
            int(successful),
        ),
        textformat.single(
            "specmon_config_last_reload_success_timestamp_seconds",
            "gauge",
            "Unix time of the last successful load of the configuration.",
            succeeded_at,
        ),
    )
