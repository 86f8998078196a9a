"""What the API answers, as types: the schemas of `/api/v1/openapi.json` are made from these.

Numbers that are not known are null; times are unix seconds. A test holds real answers against these types, so
that a field is neither missing here nor invented.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from monitor.core.vocabulary import ChangeKind, EventKind, Severity, StateName

Number = float | None


class Shape(BaseModel):
    """An object with exactly these fields."""

    model_config = ConfigDict(extra="forbid")


class PayoffJson(Shape):
    """Whether speculation pays, against what, in a sentence."""

    outcome: str
    speedup: Number
    speedup_low: Number
    speedup_high: Number
    plain_step_seconds: Number
    origin: str | None
    sentence: str


class EstimateJson(Shape):
    """What was counted of a stream in a window, and what follows from it."""

    type: Literal["estimate"] = "estimate"
    at: Number
    stream: str
    target: str
    model_name: str
    replica: str
    window_seconds: Number
    drafts: Number
    draft_tokens: Number
    accepted_tokens: Number
    accepted: list[Number]
    mal: Number = Field(description="Mean acceptance length, 1 + accepted tokens ÷ drafts.")
    mal_low: Number
    mal_high: Number
    marginal: list[Number]
    conditional: list[Number]
    alpha: Number
    coverage: Number
    tokens_per_step: Number
    step_seconds: Number
    implied_tpot_seconds: Number
    observed_tpot_seconds: Number
    batch_size: Number
    draft_token_acceptance_ratio: Number
    baseline_mal: Number
    score_down: Number
    score_up: Number
    payoff: PayoffJson
    state: StateName
    reason: str | None


class LevelJson(Shape):
    """Acceptance on one side of a change, with its 95 % interval."""

    mal: Number
    mal_low: Number
    mal_high: Number
    conditional: list[Number]
    drafts: Number


class CostJson(Shape):
    """What a change costs: ratios after ÷ before, losses at present and since the change."""

    tokens_per_step_ratio: Number
    tpot_ratio: Number
    benefit_lost_ratio: Number
    tokens_per_second_lost: Number
    gpu_seconds_per_million_tokens: Number
    gpu_hours_per_day: Number
    money_per_day: Number
    tokens_lost: Number
    gpu_hours: Number
    money: Number
    busy_ratio: Number
    tpot_log_shares: dict[str, float] | None


class CauseJson(Shape):
    """A likely cause, its weight (0 to 1), and one sentence with the numbers behind it."""

    cause: str
    weight: float
    evidence: str


class VerdictJson(Shape):
    """What a release or a new regime did to acceptance; `difference` is in MAL over so many `positions`."""

    outcome: Literal["better", "worse", "no_difference"]
    confidence: float
    difference: Number
    low: Number
    high: Number
    positions: int | None


class OpeningJson(Shape):
    """What was told of an event when it opened."""

    after: LevelJson
    cost: CostJson
    causes: list[CauseJson]


class EventJson(BaseModel):
    """One change of one stream, or of all streams of a model; later versions may say more."""

    model_config = ConfigDict(extra="allow")

    type: Literal["event"] = "event"
    id: str
    stream: str | None
    target: str | None
    model_name: str
    replica: str | None
    scope: Literal["replica", "fleet"]
    streams: list[str]
    kind: EventKind
    severity: Severity
    status: Literal["open", "closed"]
    change_point_at: Number
    change_point_low: Number
    change_point_high: Number
    raised_at: Number
    closed_at: Number
    before: LevelJson
    after: LevelJson
    cost: CostJson
    verdict: VerdictJson | None
    positions: list[int]
    causes: list[CauseJson]
    present_at: Number = Field(description="When `after`, `cost` and `causes` were looked at last.")
    at_opening: OpeningJson | None
    facts: list[str]
    detector: str


class StreamLinksJson(Shape):
    """Where a stream's page is."""

    report: str


class StreamJson(Shape):
    """One stream now."""

    id: str
    target: str
    model_name: str
    replica: str
    state: StateName
    estimate: EstimateJson
    state_reason: str
    state_since: Number
    engine: str
    engine_version: str
    draft_model: str
    method: str
    num_speculative_tokens: int
    regime: str
    baseline_mal: Number
    baseline_conditional: list[Number]
    score_down: Number
    score_up: Number
    last_good_at: Number
    open_event: EventJson | None
    benefit_lost_ratio: Number
    labels: dict[str, str]
    cost: dict[str, object] | None = Field(description="What the open change costs, as in an event.")
    headline: str
    links: StreamLinksJson


class FleetJson(Shape):
    """What holds for all streams together."""

    at: float
    version: str
    simulated: bool
    headline: str
    counts: dict[StateName, int] = Field(description="Streams by state.")
    verdicts: list[str] = Field(description="One sentence for each model that is below what it was.")
    streams: int
    models: int
    open_events: int = Field(description="At most 1000.")
    gpu_hours_per_day: Number = Field(description="Lost by all streams that are below what they were.")


class StreamsJson(Shape):
    """One page of streams with what holds for all of them."""

    at: float
    version: str
    simulated: bool
    headline: str
    counts: dict[StateName, int]
    streams: list[StreamJson]
    total: int
    page: int
    limit: int


class ModelJson(Shape):
    """One model: its streams together."""

    model_name: str
    state: StateName = Field(description="The worst of its streams'.")
    streams: int
    counts: dict[StateName, int]
    bad: list[str] = Field(description="Ids of the streams that are below what they were, at most 100.")
    mal: Number
    mal_low: Number
    mal_high: Number
    reference_mal: Number = Field(description="The streams' baselines, weighed as their MAL is.")
    benefit_lost_ratio: Number = Field(description="Of the bad streams.")
    tpot_ratio: Number = Field(description="Time per token now ÷ before, the middle of the bad streams.")
    gpu_hours_per_day: Number
    since: Number
    event: str | None = Field(description="Id of the open event that says most.")
    verdict: str
    report: str


class ModelsJson(Shape):
    """One page of models, worst first unless ordered otherwise."""

    at: float
    models: list[ModelJson]
    total: int
    page: int
    limit: int


class EventsJson(Shape):
    """One page of events, newest first; `next` leads to the next page."""

    at: float
    events: list[EventJson]
    next: str | None


class OptionJson(Shape):
    """What one k would give at a batch size, for one request; `extrapolated` beyond what was drafted."""

    num_speculative_tokens: int
    mal: float
    tokens_per_second: float
    speedup: float
    gain: float
    extrapolated: bool


class PaysAtJson(Shape):
    """How many times as fast as plain decoding at a batch size."""

    batch_size: int
    speedup: float


class FullJson(Shape):
    """A replica whose KV cache is full: requests that fit and tokens per second, with a draft and plain."""

    requests: int
    plain_requests: int
    tokens_per_second: float
    plain_tokens_per_second: float


class WhatIfJson(Shape):
    """What speculation would give under the numbers supposed; times in seconds but for those named `_ms`."""

    stream: str | None
    supposed: dict[str, list[float] | Number]
    notes: list[str]
    mal: float
    step_seconds: float
    plain_step_seconds: float
    tpot_seconds: float
    tokens_per_second: float
    speedup: float
    speedup_of_both: float = Field(description="Against plain steps with the weights of now.")
    pays_below_batch_size: Number = Field(description="0 where it never pays, null where it always does.")
    always_pays: bool
    best: int
    options: list[OptionJson]
    by_batch_size: list[PaysAtJson]
    full: FullJson | None


class ChangeJson(Shape):
    """Something that changed: seen on a stream's pages, or told by somebody, whose id it then has."""

    source: Literal["seen", "told"]
    id: str | None
    at: float
    kind: str
    text: str
    seconds: float = Field(description="From `at` until the change was everywhere.")
    model_name: str = Field(description="Empty where it is of every model.")
    target: str = Field(description="Empty where it is of every target.")
    stream: str | None
    told_at: float | None


class ChangesJson(Shape):
    """What changed, newest first."""

    at: float
    changes: list[ChangeJson]
    total: int
    page: int
    limit: int


class ToldJson(Shape):
    """A change to tell of; `at` is now where it is absent."""

    id: str = Field(
        min_length=1, max_length=200, description="The teller's own: telling again changes nothing."
    )
    kind: ChangeKind
    text: str = Field(min_length=1, max_length=500)
    at: float | None = Field(default=None, ge=0, lt=253402300800)
    seconds: float = Field(default=900.0, ge=0, le=86400, description="Until the change is everywhere.")
    model_name: str = Field(default="", max_length=500)
    target: str = Field(default="", max_length=500)


class KeptChangeJson(Shape):
    """A change that was told, as it is kept."""

    id: str
    kind: ChangeKind
    text: str
    at: float
    seconds: float
    model_name: str
    target: str
    told_at: float


class RefusalJson(Shape):
    """Why a request was not answered: what was read and what was expected."""

    status: int
    error: str
