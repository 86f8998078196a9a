"""Model references: what acceptance looks like where a model is served in one way, whoever serves it.

Pods come and go with every release; model, draft, k, engine and version stay. What healthy streams of one
kind (`Key`) have learnt is kept here and outlives them, so that a new stream is judged from its first minute
against what its kind always did (`detectors.inheritance`). A reference is taught by all healthy streams of
its kind, one after another: what the most experienced has learnt of noise and rhythm, and where each stood
lately (`Standing`), which tells how far streams of one kind lie apart.

References are bounded in number (`MOST_OF_MODEL`, `MOST`); the one that was not taught for longest gives way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base

if TYPE_CHECKING:
    from monitor.core.detectors.base import Floats, State

MOST_STANDINGS = 32
"""Streams whose standing is kept: enough to know how far they lie apart to an eighth."""

MOST_OF_MODEL = 16
"""References of one model name: some months of releases."""

MOST = 512
"""References in all: about ten megabytes as JSON."""

TOGETHER_SECONDS = 5400.0
"""Seconds that two standings may lie apart and still be of one time: the level wanders over two hours."""

SPREAD_SD, SPREAD_PRIOR = 0.06, 4.0
"""How far replicas lie apart (logits) before it is known, and how many of them that is worth."""

LOCAL_DRAFTS = 1000.0
"""Drafts that every standing is scaled to, so that busy streams do not outweigh others."""

LAG_SECONDS = 60.0
"""Seconds until a lesson is taken in: more than the scrapes of one tick lie apart."""


@dataclass(frozen=True, slots=True)
class Key:
    """Whose reference it is; "" and 0 where it is not known. Streams that are alike in all this share one."""

    model_name: str
    draft_model: str = ""
    method: str = ""
    num_speculative_tokens: int = 0
    engine: str = ""
    engine_version: str = ""
    release: str = ""
    environment: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where one stream stood in its last hour: `sums` [19] (columns as the detectors' sums), per 1000 drafts.

    information: of its level, in requests' worth (1 ÷ variance in logit²); at: unix seconds.
    """

    stream: str
    at: float
    sums: tuple[float, ...]
    information: float

    @property
    def mal(self) -> float:
        """The mean acceptance length of that hour."""
        return 1.0 + self.sums[base.ACCEPTED] / max(self.sums[base.DRAFTS], 1e-9)


@dataclass(frozen=True, slots=True)
class Reference:
    """What is known of one kind of stream.

    learnt: one record of `inheritance.LEARNT`, from the stream `donor`; standings: of the last
    `MOST_STANDINGS` streams, the latest last; taught: how often, since `began_at`, lastly at `at` (unix
    seconds). All figures are of healthy traffic only.
    """

    key: Key
    learnt: State
    donor: str
    standings: tuple[Standing, ...]
    began_at: float
    at: float
    taught: int = 1

    @property
    def drafts(self) -> float:
        """How many drafts the long-run rates rest on."""
        return float(self.learnt["sums"][0, base.DRAFTS])

    @property
    def mal(self) -> float:
        """The long-run mean acceptance length."""
        return 1.0 + float(self.learnt["sums"][0, base.ACCEPTED]) / max(self.drafts, 1e-9)

    @property
    def conditional(self) -> tuple[float, ...]:
        """The long-run conditional acceptance of each position that was tried; the eighth is of all later."""
        sums = self.learnt["sums"][0]
        tried = sums[base.TRIALS] > 0.0
        return tuple((sums[base.SUCCESSES][tried] / sums[base.TRIALS][tried]).tolist())

    @property
    def noise(self) -> tuple[float, ...]:
        """The variance of the level and of the seven contrasts over the binomial variance of counts."""
        return tuple(float(value) for value in self.learnt["noise"]["spread"][0])

    @property
    def wander(self) -> float:
        """The variance (logit²) of an hour's mean about the rhythm of day and week."""
        return float(self.learnt["trend"]["wander"][0])

    def lately(self, now: float) -> Floats | None:
        """Return the mean sums [19] of the streams that stood somewhere near `now`, None where none did."""
        near = [each for each in self.standings if abs(now - each.at) <= TOGETHER_SECONDS]
        if not near:
            return None
        weight = np.array([each.information for each in near])
        sums = np.array([each.sums for each in near])
        found: Floats = (sums * weight[:, None]).sum(0) / weight.sum()
        return found

    def apart(self) -> float:
        """Return how far (standard deviation, logits) streams of this kind lie apart at one time."""
        total, count = SPREAD_PRIOR * SPREAD_SD**2, SPREAD_PRIOR
        latest = max((each.at for each in self.standings), default=0.0)
        near = [each for each in self.standings if latest - each.at <= TOGETHER_SECONDS]
        if len(near) > 1:
            level = np.array([_level(each.sums) for each in near])
            error = np.array([1.0 / each.information for each in near])
            squares = float(
                ((level - np.median(level)) ** 2 - error).clip(0.0, 9.0 * SPREAD_SD**2 + error).sum()
            )
            total, count = total + squares, count + len(near) - 1
        return math.sqrt(total / count)


def _level(sums: tuple[float, ...]) -> float:
    """Return the logit of the mean conditional acceptance over all positions."""
    tried = sum(sums[base.TRIALS])
    rate = min(max(sum(sums[base.SUCCESSES]) / max(tried, 1e-9), 0.01), 0.99)
    return math.log(rate / (1.0 - rate))


@dataclass(slots=True)
class References:
    """All references by their keys, the one taught last at the end; `lessons` are not taken in yet."""

    known: dict[Key, Reference] = field(default_factory=dict)
    lessons: list[Reference] = field(default_factory=list)

    def find(self, key: Key) -> Reference | None:
        """Return the reference of exactly this kind."""
        return self.known.get(key)

    def before(self, key: Key) -> Reference | None:
        """Return the reference of the same model (and environment) in another way that was taught last."""
        found = [
            each
            for other, each in self.known.items()
            if other != key and (other.model_name, other.environment) == (key.model_name, key.environment)
        ]
        return max(found, key=lambda each: each.at, default=None)

    def keep(self, reference: Reference) -> None:
        """Keep a reference in the place of the one with its key; the one not taught for longest gives way."""
        self.known.pop(reference.key, None)
        self.known[reference.key] = reference
        of_model = [key for key in self.known if key.model_name == reference.key.model_name]
        if len(of_model) > MOST_OF_MODEL:
            del self.known[of_model[0]]
        if len(self.known) > MOST:
            del self.known[next(iter(self.known))]

    def teach(self, lesson: Reference) -> None:
        """Let the reference of a key have what a healthy stream has learnt, or what another cluster has."""
        held = self.known.get(lesson.key)
        if held is None:
            self.keep(lesson)
            return
        told = {each.stream for each in lesson.standings}
        others = tuple(each for each in held.standings if each.stream not in told)
        surer = lesson.donor == held.donor or _experience(lesson) > _experience(held)
        self.keep(
            Reference(
                key=held.key,
                learnt=lesson.learnt if surer else held.learnt,
                donor=lesson.donor if surer else held.donor,
                standings=(*others, *lesson.standings)[-MOST_STANDINGS:],
                began_at=min(held.began_at, lesson.began_at),
                at=max(held.at, lesson.at),
                taught=held.taught + lesson.taught,
            )
        )

    def note(self, lesson: Reference) -> None:
        """Keep a lesson until it is `LAG_SECONDS` old: how scrapes are batched changes nobody's beginning."""
        self.learn(lesson.at)
        self.lessons.append(lesson)

    def learn(self, now: float) -> None:
        """Take in the lessons that are `LAG_SECONDS` old at `now`, in their order in time."""
        due = [lesson for lesson in self.lessons if lesson.at <= now - LAG_SECONDS]
        if due:
            self.lessons = [lesson for lesson in self.lessons if lesson.at > now - LAG_SECONDS]
            for lesson in sorted(due, key=lambda each: (each.at, each.donor)):
                self.teach(lesson)


def lesson(key: Key, stream: str, learnt: State, local: Floats, information: float) -> Reference:
    """Return what one healthy stream tells of its kind.

    learnt: one record of `inheritance.LEARNT`; local [19]: sums of its last hour; information: 1 ÷ the
    variance of their level.
    """
    at = float(learnt["at"][0])
    scale = LOCAL_DRAFTS / max(float(local[base.DRAFTS]), 1e-9)
    stands = Standing(stream, at, tuple((local * scale).tolist()), information)
    return Reference(key, learnt, stream, (stands,), at, at)


def _experience(reference: Reference) -> float:
    return float(reference.learnt["buckets"][0])
