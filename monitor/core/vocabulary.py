"""The closed lists of words that events, metrics, pages, settings and rules share: each once, here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

StateName = Literal[
    "warming",
    "ok",
    "drifting",
    "collapsed",
    "improved",
    "idle",
    "off",
    "silent",
    "stale",
    "unsupported",
]
STATES: tuple[StateName, ...] = get_args(StateName)
"""What a stream may be in; a state's place is its code in memory and in the store."""

TroubleKind = Literal[
    "collapse",
    "drop",
    "tail_drop",
    "decay",
    "improvement",
    "dead_draft",
    "speculation_silent",
]
TROUBLES: tuple[TroubleKind, ...] = get_args(TroubleKind)
"""What a detector may find; a kind's place, from 1, is its code in a stream's state."""

Kind = Literal[TroubleKind, "regime_change"]
EventKind = Literal[
    TroubleKind, "below_reference", "net_loss", "speculation_off", "regime_change", "data_quality"
]
EVENT_KINDS: tuple[EventKind, ...] = get_args(EventKind)
"""What an event may be of. A new one also needs its words: `tests/test_vocabulary.py` says where."""

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""How much an event matters, worst first."""

SEVERITY_OF: Mapping[Kind, Severity] = {
    "collapse": "critical",
    "drop": "warning",
    "tail_drop": "warning",
    "decay": "warning",
    "improvement": "info",
    "dead_draft": "critical",
    "speculation_silent": "warning",
    "regime_change": "info",
}

Direction = Literal["down", "up", "none"]
DIRECTION_OF: Mapping[EventKind, Direction] = {
    "collapse": "down",
    "drop": "down",
    "tail_drop": "down",
    "decay": "down",
    "improvement": "up",
    "dead_draft": "down",
    "speculation_silent": "down",
    "below_reference": "down",
    "net_loss": "none",
    "speculation_off": "none",
    "regime_change": "none",
    "data_quality": "none",
}
"""Where acceptance goes with an event."""

ChangeKind = Literal["draft", "target_model", "engine", "config", "traffic"]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
"""What somebody may tell us that they changed; each is a cause by the same name."""

CauseName = Literal[
    "traffic",
    "draft",
    "target_model",
    "engine",
    "config",
    "load",
    "replica",
    "context_limit",
    "tail",
    "restart",
    "data_quality",
    "unknown",
]
CAUSES: tuple[CauseName, ...] = get_args(CauseName)
"""Why acceptance may have moved; each but the unknown has its advice in `web/guidance`."""
