"""What a source hands to the pipeline: one look at one target, good or failed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from monitor.core.pages.exposition import RefusalReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.pages.engines.base import Reading

FailureReason = Literal[
    RefusalReason,
    "timeout",
    "connection",
    "dns",
    "tls",
    "unauthorised",
    "http_status",
    "redirect",
    "encoding",
    "unrecognised",
    "unsupported",
    "bad_counters",
]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a look at a target gave no page: `reason` for machines, `detail` one sentence for people."""

    reason: FailureReason
    detail: str


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at one target at `at` (unix seconds).

    Exactly one of `body` (the page as received, unpacked), `readings` (counters that came without a
    page) and `failure` is set. `beside` holds the bodies of the engine's other pages that were read in
    the same look, by path. `duration` is in seconds, 0 where nothing was waited for.
    """

    target: str
    at: float
    body: bytes | None = None
    readings: tuple[Reading, ...] | None = None
    failure: Failure | None = None
    beside: Mapping[str, bytes] = field(default_factory=dict)
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class StreamKey:
    """What is judged: one model and replica of one target."""

    target: str
    model_name: str
    replica: str
