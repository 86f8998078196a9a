"""Where acceptance is now: of one stream, and of several together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import fields

if TYPE_CHECKING:
    from collections.abc import Collection

    from monitor.web.fields import Record
    from monitor.web.view import StreamView


@dataclass(frozen=True, slots=True)
class PooledLevel:
    """A mean acceptance length with its 95 % interval and what it is compared with; None where unknown."""

    mal: float | None = None
    low: float | None = None
    high: float | None = None
    reference: float | None = None

    @property
    def lost_ratio(self) -> float | None:
        """The share of speculation's benefit that is lost against the reference."""
        if self.mal is None or self.reference is None or self.reference <= 1:
            return None
        return (self.reference - self.mal) / (self.reference - 1)


def of_stream(stream: StreamView, now: float) -> Record:
    """Return where acceptance is now (`mal`, `mal_low`, `mal_high`); empty where nothing is drafted.

    While a change of the stream is open it is where its event says: notifications and metrics say the same.
    That of a whole model is meant only while the window still reaches back before it, as the mean is of two
    levels then.
    """
    if stream.state == "silent":  # its estimate is of the drafts before
        return {}
    event = stream.open_event
    if not event:
        return stream.estimate
    if fields.text(event, "scope") != "fleet":
        told = fields.record(event, "after")
        return stream.estimate if fields.number(told, "mal") is None else told
    changed = fields.number(event, "change_point_at")
    window = fields.number(stream.estimate, "window_seconds")
    after = fields.record(event, "after")
    if changed is not None and window is not None and now - changed < window and fields.number(after, "mal"):
        return after
    return stream.estimate


def of(streams: Collection[StreamView], now: float) -> PooledLevel:
    """Return the level of several streams, each weighed by its drafts.

    MAL = Σ dᵢ·MALᵢ ÷ Σ dᵢ, which is 1 + accepted ÷ drafts of all; the half-width of its interval is
    √Σ (dᵢ·hᵢ)² ÷ Σ dᵢ, as the streams are counted independently. The reference is their baselines weighed
    alike, over those that have one, so that a mix of replicas is compared with itself.
    """
    drafts = moved = squares = based = base = 0.0
    for stream in streams:
        level = of_stream(stream, now)
        mal, count = fields.number(level, "mal"), fields.number(stream.estimate, "drafts")
        if mal is None or not count:
            continue
        low, high = fields.number(level, "mal_low"), fields.number(level, "mal_high")
        drafts += count
        moved += count * mal
        squares += math.nan if low is None or high is None else (count * (high - low) / 2) ** 2
        if stream.baseline_mal is not None:
            based += count
            base += count * stream.baseline_mal
    if not drafts:  # nothing is known of now; what it was is
        known = [stream.baseline_mal for stream in streams if stream.baseline_mal is not None]
        return PooledLevel(reference=sum(known) / len(known) if known else None)
    mal, half = moved / drafts, math.sqrt(squares) / drafts
    reference = base / based if based else None
    if math.isnan(half):
        return PooledLevel(mal, reference=reference)
    return PooledLevel(mal, max(mal - half, 1.0), mal + half, reference)
