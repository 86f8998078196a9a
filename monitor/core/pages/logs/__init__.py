"""Engine logs -> readings: the lines that tell of speculation, added up to counters as a page has them.

A log starts at zero: before an engine's first line stands a reading of zero, so that its window counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from monitor.core.pages.engines import iterations
from monitor.core.pages.engines.base import NUM_COUNTERS, UNKNOWN, Counter, Evidence, Reading
from monitor.core.pages.logs import clocks, lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.core.pages.logs.lines import SaidLine

WINDOW_SECONDS = 10.0  # from one line to the next where no clock tells
LEAST_SECONDS = 0.001  # lines of one second keep their order
EXPECTED = (
    "log lines of vLLM or LMDeploy (SpecDecoding metrics: …), SGLang (accept len: …), llama.cpp (draft "
    "acceptance = …, statistics …: #calls …) or TensorRT-LLM's iteration log"
)


@dataclass(slots=True)
class _Tally:
    """What the lines of one engine add up to; `lives` are llama.cpp's sums by proposer."""

    engine: str
    replica: str
    drafts: float = 0.0
    draft_tokens: float = 0.0
    accepted: float = 0.0
    positions: tuple[float, ...] = ()
    generated: float = UNKNOWN
    running: float = UNKNOWN
    requests: float = 0.0
    started_at: float = UNKNOWN
    last_at: float = UNKNOWN
    flow_at: float = UNKNOWN
    lives: dict[str, SaidLine] = field(default_factory=dict)


class EngineLog:
    """The lines of one log, oldest first; `near` (unix seconds) is about when it was written.

    `read` is how many lines told something of speculation.
    """

    def __init__(self, near: float) -> None:
        self._near = near
        self._tallies: dict[str, _Tally] = {}
        self._replica = "0"
        self._model_name = ""
        self._num_speculative_tokens = 0
        self._held: tuple[float, SaidLine] | None = None
        self._totals: iterations.Totals | None = None
        self._told = False
        self.read = 0

    def readings(self, line: str) -> Iterator[tuple[float, Reading]]:
        """Yield what the log says after `line`: times (unix seconds) and readings of one engine each."""
        found = lines.said(line)
        if found is None:
            return
        self.read += found.kind not in ("flow", "start")
        at = clocks.when(line, self._near)
        if found.kind == "start":
            yield from self._start(found, at)
        elif found.kind == "record":
            yield from self._iteration(line, at)
        elif found.kind == "flow":
            yield from self._flow(found, at)
        else:
            yield from self._counted(found, at)

    def rest(self) -> Iterator[tuple[float, Reading]]:
        """Yield what waited for a line that never came."""
        if self._held is not None:
            at, found = self._held
            self._held = None
            yield from self._add(found, at)

    def _start(self, line: SaidLine, unix_seconds: float) -> Iterator[tuple[float, Reading]]:
        """Begin anew at zero: what follows is of another process, which names its model and k."""
        self._model_name = line.name or self._model_name
        self._num_speculative_tokens = line.num_speculative_tokens or self._num_speculative_tokens
        for replica, tally in list(self._tallies.items()):
            fresh = _Tally(tally.engine, replica, last_at=tally.last_at, started_at=unix_seconds)
            fresh.drafts, fresh.draft_tokens = 0.0 * tally.drafts, 0.0 * tally.draft_tokens
            fresh.positions = (0.0,) * len(tally.positions)
            self._tallies[replica] = fresh
            yield self._told_at(fresh, unix_seconds)

    def _flow(self, line: SaidLine, unix_seconds: float) -> Iterator[tuple[float, Reading]]:
        """Take the tokens generated since the last such line; a line of speculation follows it, or none."""
        self._replica = line.replica
        tally = self._tallies.get(line.replica)
        if tally is None:
            return  # before the first line of speculation nobody knows that there is any
        seconds = unix_seconds - tally.flow_at if unix_seconds > tally.flow_at else WINDOW_SECONDS
        tally.flow_at, tally.running = unix_seconds, line.running
        tally.generated = _sum(tally.generated, line.tokens_per_second * seconds)
        yield self._told_at(tally, unix_seconds)

    def _counted(self, line: SaidLine, unix_seconds: float) -> Iterator[tuple[float, Reading]]:
        if line.kind == "request" and math.isnan(line.drafts):
            yield from self.rest()
            self._held = (unix_seconds, line)  # the sums in the next lines say how many drafts these were
            return
        if line.kind == "lifetime":
            if any(tally.requests and not tally.lives for tally in self._tallies.values()):
                return  # requests tell all of it already
            self._held = None
        yield from self._add(line, unix_seconds)

    def _add(self, line: SaidLine, unix_seconds: float) -> Iterator[tuple[float, Reading]]:
        replica = line.replica or self._replica
        tally = self._tallies.get(replica)
        if tally is None:
            tally = self._tallies[replica] = _Tally(line.engine, replica)
            tally.drafts, tally.draft_tokens = 0.0 * line.drafts, 0.0 * line.draft_tokens  # or unknown
            yield self._told_at(tally, self._before(unix_seconds, line))
        if line.kind == "lifetime":
            tally.lives[line.name] = line
            tally.drafts = sum(each.drafts for each in tally.lives.values())
            tally.draft_tokens = sum(each.draft_tokens for each in tally.lives.values())
            tally.accepted = sum(each.accepted for each in tally.lives.values())
        else:
            tally.drafts += line.drafts
            tally.draft_tokens += line.draft_tokens
            tally.accepted += line.accepted
            depth = max(len(tally.positions), len(line.positions))
            both = zip(_padded(tally.positions, depth), _padded(line.positions, depth), strict=True)
            tally.positions = tuple(before + more for before, more in both)
        tally.requests += line.kind == "request"
        if not math.isnan(line.tokens_per_second):
            seconds = unix_seconds - tally.last_at if unix_seconds > tally.last_at else 0.0
            tally.generated = _sum(tally.generated, line.tokens_per_second * seconds)
            tally.running = line.running
        yield self._told_at(tally, unix_seconds)

    def _before(self, unix_seconds: float, line: SaidLine) -> float:
        """Return when the first window began: a request takes no time that the log tells."""
        begun = self._near if math.isnan(unix_seconds) else unix_seconds
        return begun - (WINDOW_SECONDS if line.kind == "window" else 1.0)

    def _told_at(self, tally: _Tally, unix_seconds: float) -> tuple[float, Reading]:
        """Return the engine's reading at a time after that of its last one."""
        if math.isnan(unix_seconds):
            unix_seconds = (self._near if math.isnan(tally.last_at) else tally.last_at) + WINDOW_SECONDS
        if not math.isnan(tally.last_at):
            unix_seconds = max(unix_seconds, tally.last_at + LEAST_SECONDS)
        tally.last_at = unix_seconds
        return unix_seconds, self._reading(tally)

    def _reading(self, tally: _Tally) -> Reading:
        counters = [UNKNOWN] * NUM_COUNTERS
        counters[Counter.DRAFTS] = tally.drafts
        counters[Counter.DRAFT_TOKENS] = tally.draft_tokens
        counters[Counter.ACCEPTED_TOKENS] = tally.accepted
        counters[Counter.GENERATION_TOKENS] = tally.generated
        at_end = tally.engine == "llama.cpp"
        if tally.requests:
            counters[Counter.FINISHED_REQUESTS] = tally.requests
        return Reading(
            model_name=self._model_name,
            replica=tally.replica,
            evidence=Evidence.REQUEST_END if at_end else Evidence.STEPS,
            counters=tuple(counters),
            accepted=tally.positions,
            num_speculative_tokens=len(tally.positions) or self._num_speculative_tokens,
            running=tally.running,
            started_at=tally.started_at,
            engine=tally.engine,
        )

    def _iteration(self, line: str, unix_seconds: float) -> Iterator[tuple[float, Reading]]:
        """Take a record of one iteration of TensorRT-LLM; its latency is its time where it has no clock."""
        before = self._totals or iterations.Totals(began=self._near)
        if self._totals is None:
            yield self._near - 1.0, self._of_iterations(before)
        try:
            self._totals = iterations.add(before, f"[{line.strip()}]".encode(), self._near)
        except iterations.NotIterations:
            return  # a line that was cut off
        told_at = self._near + self._totals.step_seconds + LEAST_SECONDS * self._totals.steps
        yield told_at if math.isnan(unix_seconds) else unix_seconds, self._of_iterations(self._totals)

    def _of_iterations(self, totals: iterations.Totals) -> Reading:
        told = iterations.reading(totals, self._model_name, {})
        return replace(told, evidence=Evidence.ITERATIONS, engine="trtllm")


def _sum(before: float, more: float) -> float:
    return more if math.isnan(before) else before + more


def _padded(values: tuple[float, ...], depth: int) -> tuple[float, ...]:
    return (*values, *(0.0,) * (depth - len(values)))


def engine_of(line: str) -> str:
    """Return the engine whose log line this is, empty where it tells nothing of speculation."""
    found = lines.said(line)
    return "" if found is None else found.engine
