"""What the pages are made from: one consistent look at the running service, made anew for each request.

The service implements `View`; the web part knows nothing else of it. A view is made on the event loop (so it
must be cheap and copy what may change) and then read on a worker thread, by one request only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypedDict, Unpack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from monitor.core.vocabulary import StateName
    from monitor.metrics.textformat import Family


@dataclass(frozen=True, slots=True)
class StreamView:
    """One stream now; empty text, 0 for k and None elsewhere where unknown; times in unix seconds.

    `estimate` has the fields of an estimate line of `replay --json`, over the default window. `state_reason`
    is one sentence. `baseline_conditional` has one value per position. `open_event` is an event that is open.
    `cost` is what the open change costs now, its model's too: fields of an event's cost but for the ratios.
    `labels` are those that the settings or discovery give to the target.
    """

    id: str
    target: str
    model_name: str
    replica: str
    state: StateName
    estimate: Mapping[str, object]
    state_reason: str = ""
    state_since: float | None = None
    engine: str = ""
    engine_version: str = ""
    draft_model: str = ""
    method: str = ""
    num_speculative_tokens: int = 0
    regime: str = ""
    baseline_mal: float | None = None
    baseline_conditional: Sequence[float | None] = ()
    score_down: float | None = None
    score_up: float | None = None
    last_good_at: float | None = None
    open_event: Mapping[str, object] | None = None
    benefit_lost_ratio: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    cost: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class ShownBucket:
    """What happened to a stream from `at` (unix seconds) for `seconds`; None where unknown, never 0."""

    at: float
    seconds: float
    drafts: float | None = None
    accepted_tokens: float | None = None
    mal: float | None = None
    mal_low: float | None = None
    mal_high: float | None = None
    baseline_mal: float | None = None
    tokens_per_step: float | None = None
    step_seconds: float | None = None
    coverage: float | None = None
    implied_tpot_seconds: float | None = None
    state: str = ""


@dataclass(frozen=True, slots=True)
class TargetView:
    """One scrape target; `url` has no credentials, `unrecognised` says why the page was not understood."""

    name: str
    url: str
    up: bool
    engine: str = ""
    last_scrape_at: float | None = None
    last_success_at: float | None = None
    duration: float | None = None
    error_reason: str = ""
    error_detail: str = ""
    failures: Mapping[str, int] = field(default_factory=dict)
    unrecognised: str = ""
    streams: Sequence[str] = ()


class EventFilter(TypedDict, total=False):
    """Which events are meant: all that are named must hold, None is all; the first 100 without a `limit`.

    `stream` has those of its model too; `since` keeps what was raised at or after it, and whatever is still
    open; `until` what was raised before it; `offset` leaves so many of the newest out.
    """

    stream: str | None
    status: str | None
    kind: str | None
    severity: str | None
    scope: str | None
    model_name: str | None
    target: str | None
    since: float | None
    until: float | None
    offset: int
    limit: int


class View(Protocol):
    """A consistent snapshot of the service at `now` (unix seconds)."""

    @property
    def version(self) -> str:
        """The version of specmon."""

    @property
    def revision(self) -> str:
        """The commit that this build was made from, empty where unknown."""

    @property
    def started_at(self) -> float:
        """Unix time at which the service started."""

    @property
    def now(self) -> float:
        """Unix time of this snapshot: the only clock of every page."""

    @property
    def simulated(self) -> bool:
        """Whether the engines behind these numbers are the simulated ones of `specmon demo`."""

    @property
    def progress(self) -> str:
        """How far the past has been read from a query API, in a sentence; empty where none is being read."""

    def streams(self) -> Sequence[StreamView]:
        """All streams, in no particular order; the same records at every call, so it may be called often."""

    def stream(self, stream_id: str) -> StreamView | None:
        """One stream by its id."""

    def events(self, **wanted: Unpack[EventFilter]) -> Sequence[Mapping[str, object]]:
        """Events in the JSON form of the design, newest `raised_at` first.

        Beside the fixed fields the pages show `change_point_low`, `change_point_high` and `facts` (sentences)
        where there are any.
        """

    def event(self, event_id: str) -> Mapping[str, object] | None:
        """One event by its id."""

    def changes(self) -> Sequence[Mapping[str, object]]:
        """What changed, newest first: what pages showed of each stream, and what somebody told of.

        Each has the fields of `shapes.ChangeJson`.
        """

    def history(self, stream_id: str, start: float, end: float) -> Sequence[ShownBucket]:
        """The buckets of a stream between two unix times, oldest first, finest resolution that is kept."""

    def model_history(self, model_name: str, start: float, end: float) -> Sequence[ShownBucket]:
        """The same of all streams of a model together; their mean acceptance length is of the sums."""

    def advice(self, stream_id: str) -> Mapping[str, object]:
        """Which num_speculative_tokens a known stream should have, over its longest window."""

    def references(self, model_name: str) -> Sequence[Mapping[str, object]]:
        """What the streams of a model have learnt of each way of serving it, the one taught last first."""

    def closeup(self, stream_id: str) -> Mapping[str, object]:
        """What a known stream's own page shows beside its numbers: `core/streams/closeups`."""

    def verdict(
        self, sides: tuple[Sequence[str], Sequence[str]], since: float | None, margin: float
    ) -> Mapping[str, object]:
        """The word on the second side's streams against the first's: `gate_shapes.GateJson` but for names.

        `since` is from when the candidate counts (unix seconds; None: its first draft of the last week),
        `margin` the share whose loss must be excluded before no difference is said.
        """

    def targets(self) -> Sequence[TargetView]:
        """All scrape targets."""

    def config(self) -> str:
        """The effective settings as YAML, secrets masked."""

    def ready(self) -> tuple[bool, str]:
        """Whether all loops run, and one sentence that says so or says what does not."""

    def families(self, target: str | None = None) -> Iterable[Family]:
        """The metric families, of one target if asked; without those of the process itself."""
