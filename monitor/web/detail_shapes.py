"""What the API says of one stream or one model beside its line in the list, as types."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from monitor.core.vocabulary import StateName
from monitor.web.shapes import EventJson, ModelJson, Number, Shape, StreamJson, VerdictJson


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


class PinnedJson(Shape):
    """What the settings pin as this stream's acceptance, and how its last hour stands against it."""

    mal: Number
    marginal: list[Number] = Field(description="By position; empty where only the MAL is pinned.")
    tolerance: Number = Field(description="Share of MAL - 1 that may be missing.")
    source: str
    outcome: Literal["reached", "below", "unproven"]
    sentence: str


class CloseupJson(Shape):
    """A stream beside what was usual before an open change, or before the last minutes."""

    parted_at: Number = Field(description="Since when the present is.")
    change_open: bool = Field(description="A change parts before and now.")
    before_seconds: Number
    before: SideJson
    now: SideJson
    tpot_log_shares: dict[str, Number]
    tpot_sentence: str
    pinned: PinnedJson | None
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


class ServedJson(Shape):
    """What some streams of a model run, "" and 0 where it is not said, and how they do."""

    engine: str
    engine_version: str
    method: str
    draft_model: str
    num_speculative_tokens: int
    streams: list[str]
    counts: dict[StateName, int]
    mal: Number
    mal_low: Number
    mal_high: Number
    reference_mal: Number
    event: str = Field(description="The newest that compares one of them with what ran before, or empty.")
    verdict: VerdictJson | None


class StandingJson(Shape):
    """Where one stream stood in an hour."""

    stream: str
    at: float
    mal: float


class ReferenceJson(Shape):
    """What streams of one kind have learnt, as new ones begin with it."""

    model_name: str
    draft_model: str
    method: str
    num_speculative_tokens: int
    engine: str
    engine_version: str
    release: str
    environment: str
    mal: float
    conditional: list[float]
    apart: float = Field(description="Standard deviation between streams at one time, logits.")
    drafts: float
    began_at: float
    at: float
    taught: int
    donor: str
    standings: list[StandingJson]


class ModelDetailJson(ModelJson):
    """One model, what runs of it side by side, and what was learnt of it."""

    odd: list[str] = Field(description="Ids of the streams that are bad where most are not.")
    served: list[ServedJson]
    compared: list[EventJson] = Field(description="Events that say what a release or a new regime did.")
    references: list[ReferenceJson]
    advice: dict[str, object] = Field(description="As `/api/v1/advice` of the stream with the most drafts.")


class BucketJson(Shape):
    """What happened to a stream from `at` for `seconds`."""

    at: float
    seconds: float
    drafts: Number
    accepted_tokens: Number
    mal: Number
    mal_low: Number
    mal_high: Number
    baseline_mal: Number
    tokens_per_step: Number
    step_seconds: Number
    coverage: Number
    implied_tpot_seconds: Number
    state: str


class HistoryJson(Shape):
    """The buckets of a stream between two times, oldest first."""

    stream: str
    start: float
    end: float
    buckets: list[BucketJson]


class ModelHistoryJson(Shape):
    """The buckets of all streams of a model together between two times, oldest first."""

    model_name: str
    start: float
    end: float
    buckets: list[BucketJson]
