"""The ten states of a stream as people meet them: word, shape, meaning, and their order, worst first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monitor.web.view import StreamView


@dataclass(frozen=True, slots=True)
class ShownState:
    """How a state is shown; `why_unknown` says why an estimate may be missing in it."""

    shape: str
    meaning: str
    why_unknown: str


_NOT_YET = "no window with enough drafts yet"

# Worst first: this order sorts the report. The shape tells states apart without colour.
STATES: dict[str, ShownState] = {
    "collapsed": ShownState("▼", "little or none of speculation's benefit is left", _NOT_YET),
    "silent": ShownState(
        "✕", "speculation is configured and tokens flow, but there are no drafts", "no drafts are made"
    ),
    "drifting": ShownState("↘", "a confirmed change below the baseline", _NOT_YET),
    "stale": ShownState("?", "no good scrape for a while", "there is no good scrape"),
    "unsupported": ShownState("∅", "the page can be read but not judged", "the page does not count drafts"),
    "improved": ShownState("▲", "a confirmed change above the baseline", _NOT_YET),
    "warming": ShownState("…", "too little evidence for a baseline", "too little evidence for a baseline"),
    "ok": ShownState("●", "as well as its baseline", _NOT_YET),
    "idle": ShownState("◦", "no tokens flow", "no tokens flow, so nothing can be measured"),
    "off": ShownState("○", "tokens flow, and speculation is not configured", "speculation is not configured"),
}
_RANKS = {name: rank for rank, name in enumerate(STATES)}
LOST = frozenset({"collapsed", "silent"})
BLIND = frozenset({"stale", "unsupported"})
"""States in which nobody can say how a stream is: it may have collapsed."""


def rank(name: str) -> int:
    """Return the place of a state from worst (0) to best; a state that is not known comes last."""
    return _RANKS.get(name, len(_RANKS))


def worst_first(streams: Iterable[StreamView]) -> list[StreamView]:
    """Return the streams by state, then by the share of benefit lost, then by score, then by name."""
    return sorted(
        streams,
        key=lambda stream: (
            rank(stream.state),
            -(stream.benefit_lost_ratio or 0),
            -(stream.score_down or 0),
            stream.id,
        ),
    )


def counts(streams: Iterable[StreamView]) -> dict[str, int]:
    """Return how many streams are in each state that occurs, worst state first."""
    found = dict.fromkeys(STATES, 0)
    for stream in streams:
        found[stream.state] += 1
    return {name: number for name, number in found.items() if number}
