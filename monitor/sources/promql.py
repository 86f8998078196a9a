"""The one query that asks a Prometheus-compatible API for every series that an engine's page is read for."""

from __future__ import annotations

from monitor.core.pages import engines
from monitor.core.pages.engines import columns

# Every process has it, engine or not.
COMMON = columns.START_TIME


def names() -> frozenset[str]:
    """Return the sample names of all engines, in every known spelling."""
    return frozenset(
        name
        for engine in engines.ENGINES.values()
        for prefix in engine.spellings
        for name in (*engine.wanted(prefix), *(prefix + sign for sign in engine.signs))
    )


def query(selector: str = "") -> str:
    """Return the query; `selector` are more matchers, such as `cluster="eu"`, with or without braces."""
    more = selector.strip().removeprefix("{").removesuffix("}").strip().strip(",")
    pattern = "|".join(sorted(names()))  # a name has no character that means anything in a pattern
    return f'{{__name__=~"{pattern}"{"," + more if more else ""}}}'
