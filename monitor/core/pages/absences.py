"""Why a page that was recognised has no stream: a sentence for each way, with what was read and expected."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from monitor.core.pages import passes

if TYPE_CHECKING:
    from monitor.core.pages.engines import Schema
    from monitor.core.pages.exposition import Page

SHOWN_NAMES = 4
_EXPECTED_NAMES = ("drafts_total", "generation_tokens_total", "spec_accept_length", "draft_tokens", "tokens")


def why(schema: Schema, page: Page, body: bytes) -> str:
    """Return one sentence: no counter on the page, none that can be read, or none that names its engine."""
    start = f"no stream on this page of {schema.engine.name}"
    if page.layout.series:
        return f"{start}: {_unusable(page)}"
    if page.problems:
        first = page.problems[0]
        return (
            f"{start}: {len(page.problems)} of its lines cannot be read and no other is there; line "
            f"{first.line_number}: {first.expected}, read {first.line!r}"
        )
    return f"{start}: {_without_counters(schema, body)}"


def _unusable(page: Page) -> str:
    """Return what stands on a page whose samples are of no counter of a stream."""
    series = page.layout.series
    first = series[0]
    labels = ",".join(f'{name}="{value}"' for name, value in first.labels)
    return (
        f"read only {_listed([each.name for each in series])}, the first as {first.name}{{{labels}}}; "
        "expected counters of tokens or drafts of a model, a position as a number from 0"
    )


def _without_counters(schema: Schema, body: bytes) -> str:
    """Return what a page has instead of the counters: its own other names, as after a relabelling."""
    pattern = re.compile(rb"\n(" + re.escape(schema.prefix.encode()) + rb"[a-zA-Z_:][a-zA-Z0-9_:]*)")
    names = [match[1].decode() for match in passes.matches(pattern, b"\n" + body)]
    wanted = sorted(name for name in schema.wanted if name.startswith(schema.prefix))
    best = [name for word in _EXPECTED_NAMES for name in wanted if word in name]
    expected = ", ".join(list(dict.fromkeys(best or wanted))[:2])
    return (
        f"read {_listed(names) or 'nothing else of it'}, expected counters such as {expected}; they are "
        "missing where serving metrics are switched off or where a scrape configuration drops them"
    )


def _listed(names: list[str]) -> str:
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - SHOWN_NAMES} more names" if len(distinct) > SHOWN_NAMES else ""
    return ", ".join(distinct[:SHOWN_NAMES]) + more
