"""Pages whose counters are one series per stream: names -> readings, for every engine of that kind.

An engine says which sample name is which canonical counter; this module finds the streams of a page, says
which value goes into which column, and reads a page by that plan. Series that differ in a known dimension
are parts of one counter and are added up; `apart` says which labels are other engines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor.core.pages.engines import apart, base, identity
from monitor.core.pages.engines.base import NUM_COUNTERS, UNKNOWN, Counter, Evidence, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from monitor.core.pages.engines.base import Reader
    from monitor.core.pages.exposition import Series

START_TIME = "process_start_time_seconds"
SPECULATION = frozenset({Counter.DRAFTS, Counter.DRAFT_TOKENS, Counter.ACCEPTED_TOKENS})


def engine_index(series: Series) -> str:
    """Return the replica of a series: its `engine` label, 0 where it has none."""
    return series.label("engine", "0")


@dataclass(frozen=True, slots=True)
class Names:
    """What an engine calls things, without its prefix.

    `second_choice` is read where no name of `counters` gives that counter. `per_position` are spellings of
    the series of accepted tokens with `position_label`. `created` are spellings of a creation time, best
    first. `running` is a gauge. `labelled` is false where the page has no model_name: all is one stream.
    """

    counters: Mapping[str, Counter]
    second_choice: Mapping[str, Counter] = field(default_factory=dict)
    per_position: tuple[str, ...] = ()
    position_label: str = "position"
    created: tuple[str, ...] = ()
    running: str = ""
    labelled: bool = True
    replica: Callable[[Series], str] = engine_index
    evidence: Evidence = Evidence.STEPS

    def wanted(self, prefix: str, *others: str) -> frozenset[str]:
        """Return the sample names to read on a page with `prefix`; `others` are more names of the engine."""
        own = (*self.counters, *self.second_choice, *self.per_position, *self.created, *others)
        running = (self.running,) if self.running else ()
        return frozenset(prefix + name for name in (*own, *running)) | {START_TIME}

    def telling(self, prefix: str) -> frozenset[str]:
        """Return the sample names of speculation on a page with `prefix`."""
        named = [*self.counters.items(), *self.second_choice.items()]
        counted = [name for name, counter in named if counter in SPECULATION]
        return frozenset(prefix + name for name in (*counted, *self.per_position))


class Stream:
    """Where the values of one model and replica stand on the page."""

    def __init__(self, names: Names, model_name: str, replica: str) -> None:
        self.names = names
        self.model_name = model_name
        self.replica = replica
        self.places: dict[str, list[int]] = {}
        self.positions: dict[int, list[int]] = {}
        self.columns: list[tuple[int, list[int]]] = []
        self.accepted: list[list[int]] = []
        self.running: dict[int, tuple[tuple[str, str], ...]] = {}
        self.created: int | None = None
        self.speculating = False
        self.facts: tuple[tuple[str, str], ...] = ()

    def place(self, index: int, name: str, series: Series) -> bool:
        """Note that value `index` of the page is `name` of this stream; return whether it is of any use."""
        names = self.names
        if name in names.counters or name in names.second_choice:
            self.places.setdefault(name, []).append(index)
        elif name == names.running:
            self.running[index] = tuple(pair for pair in series.labels if pair[0] not in apart.DIMENSIONS)
        elif name in names.per_position:
            position = base.index(series.label(names.position_label))
            if position < 0:
                return False
            self.positions.setdefault(position, []).append(index)
        else:
            return False
        return True

    def settle(self) -> None:
        """Decide which name each counter is read from."""
        names = self.names
        chosen = {
            names.second_choice[name]: at for name, at in self.places.items() if name in names.second_choice
        }
        chosen |= {names.counters[name]: at for name, at in self.places.items() if name in names.counters}
        self.columns = [(int(column), at) for column, at in sorted(chosen.items())]
        self.accepted = [self.positions.get(j, []) for j in range(max(self.positions, default=-1) + 1)]
        self.speculating = bool(self.accepted) or any(column in SPECULATION for column in chosen)
        if len(set(self.running.values())) > 1:
            self.running = {}  # of several processes: their gauges are no sum

    def read(self, values: Sequence[float], started_at: float, facts: identity.Facts) -> Reading:
        """Return the stream's reading of a page's values."""
        counters = [UNKNOWN] * NUM_COUNTERS
        for column, places in self.columns:
            counters[column] = (
                values[places[0]] if len(places) == 1 else sum([values[place] for place in places])
            )
        return Reading(
            model_name=self.model_name,
            replica=self.replica,
            evidence=self.names.evidence if self.speculating else Evidence.NONE,
            counters=tuple(counters),
            accepted=tuple(
                [
                    values[at[0]] if len(at) == 1 else sum([values[place] for place in at])
                    for at in self.accepted
                ]
            ),
            num_speculative_tokens=len(self.accepted) or facts.num_speculative_tokens,
            speculating=self.speculating,
            running=sum([values[place] for place in self.running]) if self.running else UNKNOWN,
            started_at=started_at,
            created_at=UNKNOWN if self.created is None else values[self.created],
            engine_version=facts.engine_version,
            config=facts.config,
            facts=self.facts,
        )


@dataclass(frozen=True, slots=True)
class PageColumns:
    """The streams of one page, where its start time stands, each sample's name without the prefix, and whose.

    `keys` are model and replica of each sample.
    """

    streams: tuple[Stream, ...]
    names: tuple[str, ...]
    start: int | None
    keys: tuple[tuple[str, str], ...] = ()

    def read(self, values: Sequence[float], beside: Mapping[str, bytes]) -> list[Reading]:
        """Return the readings of the page's streams; `beside` are the answers of the engine's other pages."""
        started_at = UNKNOWN if self.start is None else values[self.start]
        facts = identity.facts(beside)
        return [stream.read(values, started_at, facts) for stream in self.streams]


def _model_name(names: Names, series: Series) -> str:
    return (series.label("model_name") or series.label("model")) if names.labelled else ""


def page(names: Names, series: Sequence[Series], prefix: str) -> PageColumns:
    """Return the plan of a page with these series; of a series that stands there twice the first counts."""
    short = tuple([each.name.removeprefix(prefix) for each in series])
    streams: dict[tuple[str, str], Stream] = {}
    created: dict[tuple[str, str], dict[str, int]] = {}
    chosen = _apart(names, series, prefix)
    keys = tuple(
        [(_model_name(names, each), apart.name(each, chosen, names.replica(each))) for each in series]
    )
    nameless = not any(model for model, _ in keys)  # the operator may know the model
    start = None
    seen: set[Series] = set()
    for index, (name, each, key) in enumerate(zip(short, series, keys, strict=True)):
        if each in seen:
            continue
        seen.add(each)
        if each.name == START_TIME:
            start = index
        elif name in names.created:
            created.setdefault(key, {})[name] = index
        elif nameless or key[0]:
            stream = streams.get(key) or Stream(names, *key)
            if stream.place(index, name, each):
                streams[key] = stream
    for key, stream in streams.items():
        times = created.get(key, {})
        stream.created = next((times[name] for name in names.created if name in times), None)
        stream.settle()
    if chosen:
        streams = _named(streams, series, keys, chosen)
    return PageColumns(tuple(streams.values()), short, start, keys)


def _apart(names: Names, series: Sequence[Series], prefix: str) -> tuple[str, ...]:
    named = [*names.counters.items(), *names.second_choice.items()]
    flowing = {prefix + name for name, counter in named if counter is Counter.GENERATION_TOKENS}
    own = (names.position_label, *(("model_name", "model") if names.labelled else ()))
    return apart.labels(series, names.telling(prefix), {*flowing, prefix + names.running}, own)


def _named(
    streams: Mapping[tuple[str, str], Stream],
    series: Sequence[Series],
    keys: Sequence[tuple[str, str]],
    chosen: Sequence[str],
) -> dict[tuple[str, str], Stream]:
    """Return the streams without what no label gives to an engine: a router's own counters are of none."""
    theirs = {
        key for key, each in zip(keys, series, strict=True) if any(each.label(label) for label in chosen)
    }
    return {key: stream for key, stream in streams.items() if stream.speculating or key in theirs}


def preparing(names: Names) -> Callable[[Sequence[Series], str], Reader]:
    """Return the `prepare` of an engine of which these names say everything."""

    def prepare(series: Sequence[Series], prefix: str) -> Reader:
        plan = page(names, series, prefix)
        return lambda values, beside: tuple(plan.read(values, beside))

    return prepare
