"""The one vocabulary that every engine's page is read into."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping, Sequence

    from monitor.core.pages.exposition import Series

UNKNOWN = math.nan
PRINTED_DIGITS = 6  # of a C++ double that nobody asked for more
MOST_POSITIONS = 1024  # a label beyond it is no position, no step and no rank


class Counter(IntEnum):
    """The canonical cumulative counters; the number is the column in every array of counters."""

    DRAFTS = 0  # proposals that were verified
    DRAFT_TOKENS = 1  # tokens proposed in them
    ACCEPTED_TOKENS = 2  # of these, kept by the target model (no bonus token)
    GENERATION_TOKENS = 3  # tokens delivered to users
    FIRST_TOKENS = 4  # requests that got their first token
    DECODE_OUTPUTS = 5  # (request, decode step) pairs that delivered something
    DECODE_SECONDS = 6  # time of those, summed over requests
    ENGINE_STEPS = 7  # steps of the engine, whatever the batch
    ENGINE_STEP_SECONDS = 8  # time of those
    PROMPT_TOKENS = 9  # prompt tokens of finished requests
    OUTPUT_TOKENS = 10  # generated tokens of finished requests
    FINISHED_REQUESTS = 11
    REQUEST_DECODE_SECONDS = 12  # first to last token, summed over finished requests
    CACHE_QUERIES = 13  # prompt tokens looked up in the prefix cache
    CACHE_HITS = 14  # of these, found


NUM_COUNTERS = len(Counter)


class Evidence(IntEnum):
    """What a counter's growth is evidence of, and so how it may be weighed."""

    STEPS = 0  # counted at every step, live
    REQUEST_END = 1  # credited when a request ends: one lump is one batch of evidence
    ITERATIONS = 2  # records of single iterations, some of which may be lost
    GAUGE = 3  # the engine's own mean over a window of unknown weight
    NONE = 4  # nothing to judge: speculation is off, or the engine says that it makes no drafts just now


@dataclass(frozen=True, slots=True)
class Reading:
    """What one page says of one stream: cumulative counters since the engine's start.

    `counters` has one value per `Counter`, NaN where the page does not say. `accepted` has one value per
    position (0 first), empty where the page has none. `num_speculative_tokens` is k, 0 where unknown.
    `mean_acceptance_length` is only set where the engine has a gauge of it and no counters; `window_drafts`
    is about how many drafts the gauge's mean covers. `resolution` is the smallest step in which the counters
    can move, 0 where every count shows: it grows where an engine prints few digits.
    `speculating` tells a page that counts drafts from one where speculation is off; `undecided` one whose
    counters of drafts still stand at 0, after so few tokens that it may be either. `started_at` and
    `created_at` are unix seconds, NaN where unknown. `config` names what must stay the same for two readings
    to be comparable (draft_model, method, target_model, quantization, weight_version), `facts` what else the
    page says of the configuration: its change is told beside an event but does not end a regime. `engine` is
    set where the counters came without a page that tells it.
    """

    model_name: str
    replica: str
    evidence: Evidence
    counters: tuple[float, ...]
    accepted: tuple[float, ...] = ()
    num_speculative_tokens: int = 0
    speculating: bool = True
    undecided: bool = False
    mean_acceptance_length: float = UNKNOWN
    window_drafts: float = UNKNOWN
    resolution: float = 0.0
    running: float = UNKNOWN
    started_at: float = UNKNOWN
    created_at: float = UNKNOWN
    engine_version: str = ""
    config: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    engine: str = ""


def last_digit(count: float) -> float:
    """Return the worth of the last digit of a count that is printed with six, 0 while every count shows."""
    if not count >= 10.0**PRINTED_DIGITS:
        return 0.0
    return 10.0 ** (math.floor(math.log10(count)) + 1 - PRINTED_DIGITS)


def index(label: str) -> int:
    """Return the position, step or rank that a label names, -1 where it names none."""
    small = len(label) <= len(str(MOST_POSITIONS)) and label.isascii() and label.isdecimal()
    return int(label) if small and int(label) < MOST_POSITIONS else -1


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A page that was recognised but cannot be judged, and why."""

    detail: str


class Reader(Protocol):
    """Turns the values of a page, and the bodies of the pages beside it by path, into readings."""

    def __call__(
        self, values: Sequence[float], beside: Mapping[str, bytes]
    ) -> tuple[Reading, ...] | Unsupported:
        """Return the readings of the page's streams."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """How one engine's pages are recognised and read: one row of the table of engines.

    `signature` finds a line that only this engine's pages have; its group `prefix` is what the page puts
    before the engine's names. `wanted` gives the sample names to read for a prefix. `prepare` looks once at
    the series of a page and returns a function from values to readings. `spellings` are all the prefixes
    there are: with a colon as engines write, with the underscore that collectors make of it, with what Ray
    puts before vLLM's. `signs` are names without prefix that are not read, but by which a page without
    speculation is recognised. `beside` are paths that are read with every page, `identity` paths that are
    asked once in a process life; all are read without effect on the engine. `port` and `path` are where the
    engine has its page unless told otherwise. `title` and `versions` are for people. `when_silent` says why
    this engine may stop drafting by itself. `needs_beside`: a page alone has other streams, or other names
    for them, than with its other pages beside it.
    `tokens_flag` sets num_speculative_tokens, written `{k}` (`{k+1}`: with the bonus token's position), and
    `schedule_flag` one k per range of batch sizes, written `{runs}` (lists of first size,
    last size and k) or `{firsts}` (first size: k); empty where the engine has none.
    """

    name: str
    signature: re.Pattern[bytes]
    wanted: Callable[[str], frozenset[str]]
    prepare: Callable[[Sequence[Series], str], Reader]
    spellings: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    title: str = ""
    versions: str = ""
    port: int = 0
    path: str = "/metrics"
    when_silent: str = ""
    needs_beside: bool = False
    tokens_flag: str = ""
    schedule_flag: str = ""
