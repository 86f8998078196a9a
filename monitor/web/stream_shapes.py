"""What the API says of one stream beside its line in the list, as types."""

from __future__ import annotations

from pydantic import Field

from monitor.web.shapes import Number, Shape, StreamJson


class SideJson(Shape):
    """What a stream was like on one side of the time that parts before and now."""

    mal: Number
    mal_low: Number
    mal_high: Number
    conditional: list[Number]
    drafts: Number
    coverage: Number
    tokens_per_step: Number
    step_seconds: Number
    batch_size: Number


class TrafficJson(Shape):
    """One figure of what requests are like; `moved` is empty where that is not judged."""

    name: str
    unit: str
    before: Number
    now: Number
    moved: str


class CountersJson(Shape):
    """The counters by name: how far they grew in the window, and what the last page says."""

    window_seconds: Number
    read_at: Number
    moved: dict[str, Number]
    on_page: dict[str, Number]
    accepted_moved: list[Number] = Field(description="By position.")
    accepted_on_page: list[Number] = Field(description="By position.")


class QualityJson(Shape):
    """What was wrong with a stream's pages so far."""

    violations: dict[str, int]
    contradiction: str = Field(description="The last one, in words.")
    doubted: bool = Field(description="Its counters contradict each other at present.")
    scrapes_read: int
    scrapes_refused: dict[str, int]
    restarts: int


class CloseupJson(Shape):
    """A stream beside what was usual before an open change, or before the last minutes."""

    parted_at: Number = Field(description="Since when the present is.")
    change_open: bool = Field(description="A change parts before and now.")
    before_seconds: Number
    before: SideJson
    now: SideJson
    tpot_log_shares: dict[str, Number]
    tpot_sentence: str
    traffic: list[TrafficJson]
    counters: CountersJson
    quality: QualityJson


class ShareJson(Shape):
    """A ratio with its 95 % interval."""

    value: Number
    low: Number
    high: Number


class PositionJson(Shape):
    """Acceptance at one position of the draft: of all drafts, and conditional before, now, in control."""

    position: int
    marginal: Number
    before: ShareJson
    now: ShareJson
    baseline: Number


class FormulaJson(Shape):
    """An estimate as it follows from the counters of the window."""

    name: str
    definition: str
    filled: str
    value: float


class StreamDetailJson(StreamJson):
    """One stream now, and beside what was usual."""

    closeup: CloseupJson
    positions: list[PositionJson]
    formulas: list[FormulaJson]
