"""Everything known of the streams and targets: arrays with a row per stream, and the few words beside them.

Numbers that a step changes live in tables; what changes once in days (names, regime, open event) in one
`Identity` per stream.
"""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import detectors, tables
from monitor.core.counts import deltas, identities, windows
from monitor.core.detectors import duty
from monitor.core.economics import fits
from monitor.core.pages import looks
from monitor.core.streams.groups import Groups
from monitor.core.streams.model_references import References
from monitor.core.vocabulary import STATES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from monitor.core.events import Event
    from monitor.core.events.attribution.signs import Mark
    from monitor.core.pages.scrapes import Failure, StreamKey
    from monitor.core.streams.outsets import Outset
    from monitor.core.streams.told import ToldChange
    from monitor.core.vocabulary import EventKind

CHECKS = (*identities.IDENTITIES, "counter_decrease", "late_page", "duplicate_series", "unreadable_line")
TABLES = ("ledger", "sums", "watch", "status", "step_times")  # one row per stream each; saved
FIRST_POSITIONS = 8
MOST_POSITIONS = 128
RESERVED_SHARE = 10  # one place in so many is for targets with fewer than `FEW_STREAMS`
FEW_STREAMS = 8
MARKS_KEPT = 32
LONGEST_ID = 400  # a longer one is no address any more
LONGEST_NAME = 256  # of a model, replica or draft: a longer one is garbage, and it is in every line and label

STATUS = np.dtype(
    [
        ("first_at", "f8"),  # first page, unix seconds
        ("last_at", "f8"),  # last good page, unix seconds
        ("tokens_at", "f8"),  # last interval with tokens, unix seconds
        ("drafts_at", "f8"),  # last interval with drafts, unix seconds
        ("speculating", "?"),  # its page says that it speculates
        ("undecided", "?"),  # its page does not say yet
        ("running", "f8"),  # requests that run
        ("baseline_mal", "f8"),  # NaN: no baseline yet
        ("baseline_conditional", "f8", detectors.POSITIONS),  # NaN: position unknown
        ("score_down", "f8"),  # of a fall, units of the limit
        ("score_up", "f8"),  # of a rise
        ("condition", "i8"),  # a `detectors.Condition`
        ("violations", "i8", len(identities.IDENTITIES)),  # intervals that broke each identity
        ("decreases", "i8"),  # counters that went down without a restart
        ("late", "i8"),  # pages older than the one before
        ("events", "i8"),  # events that opened
        ("excess", "f8", len(identities.IDENTITIES)),  # tokens too many that are carried over, by identity
        ("impossible", "i8"),  # such intervals in a row
        ("impossible_since", "f8"),  # first of them, unix seconds
        ("sane", "i8"),  # good intervals since
        ("doubted", "?"),  # the event of impossible data is open
        ("ended", "?"),  # another stream took its place
        ("noted_at", "f8"),  # the last note that is not filled in yet, unix seconds
    ],
)

NOTED = np.dtype(
    [
        ("code", "i8"),  # place in `STATES` of the state that it was seen in last, -1: never
        ("since", "f8"),  # of that state, unix seconds; NaN: never
    ]
)


@dataclass(slots=True)
class Identity:
    """What a stream is: its names and regime, its marks (newest last) and the event that is open.

    `doubt` is the open event that its counters contradict each other: it stands beside one of acceptance;
    `contradiction` is what they last contradicted each other in, in words.
    `note` is the last event that only informs whose other side is not known yet, `noted`
    tokens a step, implied and observed TPOT (seconds) before it.
    `outset` is what was usual before the open change of acceptance, its model's too: what it costs follows.
    `net_loss` is the open event that speculation costs more than it gains, `losing` how many windows in a row
    did (below 0: did not). `plain` are the last two spans and what had been seen of plain steps at their
    beginning, empty where the stream speculated; `hardware` is what its labels say that it runs on.
    `shortfall` is the open event that acceptance is below what is pinned for the model, `short_windows` how
    many windows in a row were (below 0: reached it).
    `ended` says in a sentence that another stream took its place, empty while none did.
    """

    key: StreamKey
    id: str
    engine: str = ""
    engine_version: str = ""
    num_speculative_tokens: int = 0
    config: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    regimes: int = 1
    marks: list[Mark] = field(default_factory=list)
    event: Event | None = None
    doubt: Event | None = None
    note: Event | None = None
    noted: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    outset: Outset | None = None
    net_loss: Event | None = None
    losing: int = 0
    shortfall: Event | None = None
    short_windows: int = 0
    plain: tuple[tuple[int, tuple[float, ...]], ...] = ()
    hardware: str = ""
    contradiction: str = ""
    ended: str = ""
    change_counts: dict[EventKind, int] = field(default_factory=dict)
    last_change_at: float = math.nan
    seen: tuple[object, ...] = ()


@dataclass(slots=True)
class TargetState:
    """How a target's scrapes went. Times in unix seconds, NaN before the first.

    `gone_at` is since when it is not listed any more, NaN while it is; `left`: for so long that its events
    are closed. `dropped` counts readings of streams for which there was no room. `engine` is what
    answered there last.
    """

    memory: looks.Memory = field(default_factory=looks.Memory)
    scrapes: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    last_at: float = math.nan
    good_at: float = math.nan
    duration: float = math.nan
    failure: Failure | None = None
    problems: dict[str, int] = field(default_factory=dict)
    rows: set[int] = field(default_factory=set)
    dropped: int = 0
    gone_at: float = math.nan
    left: bool = False
    engine: str = ""


class State:
    """The state of all streams. Rows are in the order in which the streams were first seen.

    Whatever is indexed by a stream's row is in here or in `groups`, so that `keep` misses nothing: `noted` is
    since when each is in its state, `recorded` what `history` had counted of the first rows at its last look.
    `told` are the changes that somebody told of, oldest first; the store keeps them.
    """

    def __init__(self, watch: detectors.DetectionPlan, window_seconds: tuple[float, ...]) -> None:
        self.watch_plan = watch
        self.window_seconds = window_seconds
        self.num_positions = FIRST_POSITIONS
        self.targets: dict[str, TargetState] = {}
        self.identities: list[Identity] = []
        self.rows: dict[StreamKey, int] = {}
        self.ledger = deltas.allocate(0, self.num_positions)
        self.sums = np.zeros(0, windows.dtype(len(window_seconds), self.num_positions))
        self.watch = detectors.allocate(watch, 0)
        self.status = np.zeros(0, STATUS)
        self.step_times = np.zeros(0, fits.DTYPE)
        self.noted = unnoted(0)
        self.recorded: npt.NDArray[np.float64] = np.zeros((0, 0))
        self.groups = Groups()
        self.references = References()
        self.told: list[ToldChange] = []

    def add(self, keys: Sequence[StreamKey]) -> None:
        """Append rows for new streams."""
        for key in keys:
            self.rows[key] = len(self.identities)
            self.targets.setdefault(key.target, TargetState()).rows.add(len(self.identities))
            self.identities.append(Identity(key, stream_id(key)))
        self.groups.add([key.model_name for key in keys])
        count = len(keys)
        self.ledger = tables.grow(self.ledger, deltas.allocate(count, self.num_positions))
        self.sums = tables.grow(self.sums, np.zeros(count, self.sums.dtype))
        self.watch = tables.grow(self.watch, detectors.allocate(self.watch_plan, count))
        status = np.zeros(count, STATUS)
        for name in (
            "first_at",
            "last_at",
            "tokens_at",
            "drafts_at",
            "running",
            "baseline_mal",
            "baseline_conditional",
            "impossible_since",
        ):
            status[name] = np.nan
        self.status = tables.grow(self.status, status)
        self.step_times = tables.grow(self.step_times, np.zeros(count, fits.DTYPE))
        self.noted = tables.grow(self.noted, unnoted(count))

    def keep(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep these rows (ascending) and forget the others; the rows are numbered anew."""
        for name in TABLES:
            setattr(self, name, tables.keep(getattr(self, name), rows))
        self.noted, self.recorded = self.noted[rows], self.recorded[rows[rows < len(self.recorded)]]
        self.groups.keep(rows)
        self.identities = [self.identities[row] for row in rows]
        self.rows = {identity.key: row for row, identity in enumerate(self.identities)}
        for target in self.targets.values():
            target.rows.clear()
        for key, row in self.rows.items():
            self.targets[key.target].rows.add(row)

    def widen(self, num_positions: int) -> None:
        """Make room for `num_positions` draft positions; nothing else changes."""
        while self.num_positions < min(num_positions, MOST_POSITIONS):
            self.num_positions *= 2
        self.ledger = tables.widen(self.ledger, deltas.dtype(self.num_positions))
        self.sums = tables.widen(self.sums, windows.dtype(len(self.window_seconds), self.num_positions))


def named(text: str) -> str:
    """Return a name as it is; one that is too long cut, and still unlike any other."""
    if len(text) <= LONGEST_NAME:
        return text
    return f"{text[:LONGEST_NAME]}~{_digest(text)}"


def stream_id(key: StreamKey) -> str:
    """Return a stream's id: readable, safe in a URL path, and unlike that of any other stream."""
    text = f"{key.target}~{key.model_name}~{key.replica}"
    plain = re.sub(r"[^A-Za-z0-9._:~-]+", "-", text)
    if plain == text and len(text) <= LONGEST_ID:
        return text
    return f"{plain[:LONGEST_ID]}~{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=4).hexdigest()


def admitted(state: State, keys: Sequence[StreamKey], limits: Limits) -> list[StreamKey]:
    """Return which of these new streams there is room for; the first ones stay, so that they can be judged.

    Without a limit a page with new names every time would take all memory. The last places are for targets
    with few streams: one that makes up names must not keep the others out.
    """
    shared = limits.streams - limits.streams // RESERVED_SHARE
    room = {
        key.target: limits.streams_per_target - len(state.targets[key.target].rows) for key in reversed(keys)
    }
    fitting: list[StreamKey] = []
    for key in keys:
        few = limits.streams_per_target - room[key.target] < FEW_STREAMS
        most = limits.streams if few else shared
        if room[key.target] > 0 and len(state.identities) + len(fitting) < most:
            room[key.target] -= 1
            fitting.append(key)
    return fitting


def is_crowded(state: State, target: str, limits: Limits) -> bool:
    """Return whether places of a target, or of all, get so scarce that streams which are gone make room."""
    own = len(state.targets[target].rows) >= limits.streams_per_target - limits.streams_per_target // 10
    return own or len(state.identities) >= limits.streams - 2 * (limits.streams // RESERVED_SHARE)


def reason(state: State, row: int, code: str) -> str:
    """Return why a stream is in the state `code`, one sentence; empty where the state says it all."""
    identity = state.identities[row]
    failure = state.targets[identity.key.target].failure
    if identity.ended:
        return identity.ended
    if code in ("stale", "unsupported") and failure is not None:
        return failure.detail
    if code == "warming":
        return duty.sentence(duty.of_row(state.watch, row, float(state.status["last_at"][row])))
    return identity.contradiction if code == "unsupported" else ""


def open_events(identity: Identity) -> list[Event]:
    """Return the events that are open about a stream: of acceptance, counters, worth, what is pinned.

    Of a stream that ended none is, until it is back.
    """
    if identity.ended:
        return []
    about = identity.event, identity.doubt, identity.net_loss, identity.shortfall
    return [event for event in about if event is not None]


def remember(identity: Identity, mark: Mark) -> None:
    """Keep a mark with a stream, the oldest giving way."""
    identity.marks = [*identity.marks[1 - MARKS_KEPT :], mark]


def count_change(state: State, row: int, event: Event) -> None:
    """Count an event that opened on a stream; data that contradict themselves are no change of acceptance."""
    identity = state.identities[row]
    identity.change_counts[event.kind] = identity.change_counts.get(event.kind, 0) + 1
    state.status["events"][row] += 1
    if event.kind != "data_quality":
        identity.last_change_at = event.raised_at


_OF_CONDITION = np.array([STATES.index(each.name.lower()) for each in detectors.Condition])
"""The state that a detector's condition is where nothing else is the matter."""


def states(state: State, now: npt.NDArray[np.float64], limits: Limits) -> npt.NDArray[np.int64]:
    """Return the index into `STATES` of each stream at `now` [N] (unix seconds).

    After its first page nothing is known of a stream yet; silent takes as long to tell as it says. What is
    told of a whole model is so of each stream that it is told of.
    """
    status = state.status
    interval = np.nan_to_num(state.ledger["interval"], nan=limits.scrape_interval)
    idle_after = np.maximum(limits.idle_intervals * interval, limits.idle_seconds)
    flowing = now - status["tokens_at"] <= idle_after
    watched = now - status["first_at"]
    undrafted = now - status["drafts_at"]
    drafting = np.fmin(undrafted, watched) <= np.maximum(idle_after, limits.silent_seconds)
    codes: npt.NDArray[np.int64] = _OF_CONDITION[status["condition"]]
    for number, event in state.groups.open.items():
        members = np.flatnonzero(state.groups.group_of_row == number)
        told = members[[state.identities[row].id in event.streams for row in members.tolist()]]
        least = STATES.index("collapsed" if event.kind in ("collapse", "dead_draft") else "drifting")
        codes[told] = np.where(codes[told] == STATES.index("collapsed"), codes[told], least)
    still = flowing & ~drafting & ~np.isnan(status["tokens_at"]) & ~status["undecided"]
    codes[still] = STATES.index("silent")
    codes[~flowing & ~(undrafted <= idle_after) & (watched > 0)] = STATES.index("idle")
    codes[~status["speculating"]] = STATES.index("off")
    # Where nothing else is known of a stream, one impossible interval is all that there is to say.
    unproven = (status["impossible"] > 0) & np.isnan(status["baseline_mal"])
    codes[status["doubted"] | unproven] = STATES.index("unsupported")
    codes[now - status["last_at"] > limits.stale_intervals * interval] = STATES.index("stale")
    codes[status["ended"]] = STATES.index("stale")
    for target in state.targets.values():
        if target.failure is not None and target.failure.reason == "unsupported":
            codes[list(target.rows)] = STATES.index("unsupported")
    return codes


def unnoted(count: int) -> npt.NDArray[np.void]:
    """Return rows of `NOTED` of streams whose state nobody has looked at."""
    return np.full(count, np.array((-1, np.nan), NOTED))


def note_states(state: State, now: float, limits: Limits) -> None:
    """Remember since when each stream is in the state that it has `now` (unix seconds)."""
    codes = states(state, np.full(len(state.identities), now), limits)
    state.noted["since"] = np.where(codes != state.noted["code"], now, state.noted["since"])
    state.noted["code"] = codes


@dataclass(frozen=True, slots=True)
class Limits:
    """When a stream counts as idle, silent or stale: in scrape intervals and seconds, whichever is longer.

    A target that is not listed any more has left after `leave_seconds` and is forgotten after
    `forget_seconds`, as is a stream that its target's pages have not had for so long; where places get scarce
    (`is_crowded`), a stream goes after `crowded_seconds` already. No more than `streams_per_target` streams
    of a target are judged, and no more than `streams` of all.
    """

    scrape_interval: float = 15.0
    idle_intervals: float = 4.0
    idle_seconds: float = 60.0
    silent_seconds: float = 120.0
    stale_intervals: float = 3.5
    leave_seconds: float = 600.0
    forget_seconds: float = 86_400.0
    crowded_seconds: float = 600.0
    streams_per_target: int = 1000
    streams: int = 20_000


def rows_of(state: State, event: Event) -> list[int]:
    """Return the rows of an event's streams, as far as they are still there."""
    if event.key is not None:
        return [state.rows[event.key]] if event.key in state.rows else []
    group = state.groups.numbers.get(event.model_name)
    members = set(event.streams)
    of_group = [] if group is None else np.flatnonzero(state.groups.group_of_row == group).tolist()
    return [row for row in of_group if state.identities[row].id in members]
