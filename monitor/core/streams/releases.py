"""Who runs the release before and who the new one, and what both do minute by minute, across pods.

The streams of one model have sides: those that were there (`OLD`), and those whose page, labels or image say
that they are of another release (`NEW`). While there are both, each minute gives one difference of their
levels; where the old pods are gone, the minutes of the new ones are held against the last ones of the old,
and what traffic does within such a time is learnt from the model's own days (`wander`). `release_events` says
of it what there is to say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.economics import verdicts
from monitor.core.economics.verdicts import Blocks, Replica
from monitor.core.streams import regimes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from monitor.core.detectors.base import Floats, Indices, Ints
    from monitor.core.events import Event
    from monitor.core.streams import Identity

    Rows = npt.NDArray[np.void]

UNSEEN, IGNORED, OLD, NEW = -2, -1, 0, 1
BLOCK_SECONDS = 60.0
FORMING_SECONDS = 600.0
LOCAL_MINUTES = 20.0
EDGE_SECONDS = 3600.0
GONE_SECONDS = 1200.0
WANDER_SECONDS = 2400.0
WANDER_SD, PRIOR_WANDERS, MOST_WANDERS = 0.065, 8.0, 200.0
WANDER_WINSOR = 9.0
# what traffic does while nothing is seen of it: logits an hour, and at most
GAP_SD_PER_HOUR, MOST_GAP_SD = 0.06, 0.3
# what discovery and labels say of a target that tells its release; other facts differ between its pods, too
RELEASE_FACTS = frozenset({"image", "revision", "release"})

STREAM_DTYPE = np.dtype(
    [
        ("side", "i8"),  # `OLD`, `NEW`, `IGNORED` or `UNSEEN`
        ("serial", "i8"),  # of the comparison it joined
        ("sums", "f8", base.NUM_SUMS),  # of the minute under way, columns as in `base`
        ("single", "?"),  # only the mean is known
    ]
)
GROUP_DTYPE = np.dtype(
    [
        ("block", "i8"),  # minutes since 1970 of the last one that ended
        ("began_at", "f8"),  # under way, unix seconds
        ("local", "f8", base.NUM_SUMS),  # the old side's last twenty minutes, faded
        ("local_at", "f8"),  # end of these, unix seconds
        ("then", "f8", base.NUM_SUMS),  # the same, some forty minutes ago
        ("then_at", "f8"),  # unix seconds
        ("wander", "f8"),  # variance of the level in that time, logits²
        ("wanders", "f8"),  # samples of it
    ]
)


KEPT = 1.0 - 1.0 / 360.0
"""Share of what was counted that a minute leaves: about six hours of it count."""


@dataclass(slots=True)
class Comparison:
    """A release against the one before it, from its first pod on; see `Releases`.

    rate [8] and local [18] are the old side's when it began; `edge` is evidence against `local`, `beside` of
    both sides at the same time. `changes` are what differs, in words.
    """

    serial: int
    began_at: float
    rate: list[float]
    local: list[float]
    shared: int
    single: bool
    changes: list[tuple[str, str]]
    beside: Blocks = field(default_factory=Blocks)
    edge: Blocks = field(default_factory=Blocks)
    before: list[float] = field(default_factory=lambda: [0.0] * base.NUM_SUMS)
    after: list[float] = field(default_factory=lambda: [0.0] * base.NUM_SUMS)
    replicas: dict[str, tuple[int, float, float]] = field(default_factory=dict)
    old_at: float = math.nan
    new_at: float = math.nan
    wander: float = 0.0
    lately: float = 0.0
    back: int = 0
    told_blocks: int = 0
    event: Event | None = None


@dataclass(slots=True)
class Releases:
    """All sides: a row per stream and per group, what each group's old release is, and what is compared.

    `held` are the comparisons that are over, of which an event is still open.
    """

    streams: Rows = field(default_factory=lambda: np.zeros(0, STREAM_DTYPE))
    groups: Rows = field(default_factory=lambda: np.zeros(0, GROUP_DTYPE))
    current: dict[int, dict[str, str]] = field(default_factory=dict)
    comparisons: dict[int, Comparison] = field(default_factory=dict)
    held: dict[int, Comparison] = field(default_factory=dict)
    serial: int = 0

    def add(self, num_streams: int, num_groups: int) -> None:
        """Append rows for new streams and groups."""
        streams, groups = np.zeros(num_streams, STREAM_DTYPE), np.zeros(num_groups, GROUP_DTYPE)
        streams["side"] = UNSEEN
        for name in ("began_at", "local_at", "then_at"):
            groups[name] = np.nan
        groups["wander"] = WANDER_SD**2
        self.streams = np.concatenate((self.streams, streams))
        self.groups = np.concatenate((self.groups, groups))

    def keep(self, rows: Indices, numbers: Mapping[int, int]) -> None:
        """Keep these rows of streams, and the groups that have a new number in `numbers` by their old one."""
        self.streams = self.streams[rows]
        self.groups = self.groups[np.array(list(numbers), np.intp)]
        self.current = {numbers[old]: told for old, told in self.current.items() if old in numbers}
        self.comparisons = {numbers[old]: each for old, each in self.comparisons.items() if old in numbers}
        self.held = {numbers[old]: each for old, each in self.held.items() if old in numbers}

    def told(self) -> list[Event]:
        """Return the events that are open."""
        every = [*self.comparisons.values(), *self.held.values()]
        return [each.event for each in every if each.event is not None and each.event.status == "open"]


def signature(identity: Identity, labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return what tells a stream's release, in words by name; what is not known is left out."""
    tokens = identity.num_speculative_tokens
    said = {
        **identity.config,
        "engine": identity.engine,
        "engine version": identity.engine_version,
        "num_speculative_tokens": str(tokens) if tokens else "",
        **{name: value for name, value in identity.facts.items() if name in RELEASE_FACTS},
        **{name: value for name, value in labels if name in regimes.RELEASE_LABELS},
    }
    return {name: value for name, value in said.items() if value}


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return what differs of two signatures as (name, sentence); what one does not know is no difference."""
    return [
        (name, f"{name} went from {old[name]} to {value}")
        for name, value in new.items()
        if name in old and old[name] != value
    ]


def begin(releases: Releases, number: int, now: float) -> Comparison:
    """Begin to compare in a group whose old side is known; what was compared before must have ended."""
    releases.serial += 1
    group = releases.groups[number]
    local = group["local"]
    single = bool(releases.streams["single"].any() and local[base.TRIALS][1:].sum() == 0.0)
    comparison = Comparison(
        serial=releases.serial,
        began_at=now,
        rate=verdicts.rates(local).tolist(),
        local=local.tolist(),
        shared=1 if single else int((local[base.TRIALS] > 0.0).sum()),
        single=single,
        changes=[],
        old_at=float(group["local_at"]),
        wander=float(group["wander"]) + gap_variance(now - float(group["local_at"])),
    )
    releases.comparisons[number] = comparison
    return comparison


def gap_variance(seconds: float) -> float:
    """Return the variance, logits², of what traffic does in so many seconds that nobody sees."""
    hours = max(seconds, 0.0) / 3600.0
    return min(GAP_SD_PER_HOUR * hours, MOST_GAP_SD) ** 2


def join(releases: Releases, row: int, comparison: Comparison) -> None:
    """Let a stream be of the new side."""
    releases.streams["side"][row], releases.streams["serial"][row] = NEW, comparison.serial
    releases.streams["sums"][row] = 0.0


def promote(releases: Releases, number: int, group_of_row: Ints, current: dict[str, str]) -> None:
    """Make the new side of a group the old one; what was old and is still there is no longer compared."""
    members = group_of_row == number
    side = releases.streams["side"]
    comparison, group = releases.comparisons.pop(number), releases.groups[number]
    if comparison.changes and ((side == NEW) & members).any():
        side[members & (side == OLD)] = IGNORED
    side[members & (side == NEW)] = OLD
    alone = comparison.new_at - comparison.old_at >= GONE_SECONDS
    if sum(comparison.after) > 0.0 and (comparison.changes or alone):
        group["local"], group["local_at"] = comparison.after, comparison.new_at
        group["then_at"] = np.nan
    releases.current[number] = current


def count(releases: Releases, rows: Indices, sums: Floats, single: npt.NDArray[np.bool_]) -> None:
    """Add intervals of streams (no row twice) to the minute that is under way."""
    releases.streams["sums"][rows] += sums
    releases.streams["single"][rows] = single


def minute(
    releases: Releases, number: int, rows: Indices, ids: Sequence[str], now: float
) -> Comparison | None:
    """End a group's minute at `now`; return what is compared in it, where this minute said something of that.

    `rows` are its streams that drafted, `ids` what these are called.
    """
    streams, group = releases.streams, releases.groups[number]
    side = streams["side"][rows]
    old, new = rows[side == OLD], rows[side == NEW]
    comparison = releases.comparisons.get(number)
    said = None
    if comparison is not None and len(new):
        _compare(comparison, streams["sums"], old, new, now)
        named = dict(zip(rows.tolist(), ids, strict=True))
        _note_replicas(comparison, streams["sums"], (old, new), named)
        said = comparison
    if comparison is not None and len(old):
        comparison.old_at = now
        if not len(new) and not comparison.beside.seen:
            comparison.local = group["local"].tolist()
    if len(old):
        _follow(group, streams["sums"][old].sum(0), now)
    streams["sums"][rows] = 0.0
    return said


def _follow(group: np.void, sums: Floats, now: float) -> None:
    """Follow where the old side's level is, and learn how far it wanders in the time of a comparison."""
    if now - group["local_at"] > EDGE_SECONDS:
        group["local"], group["then_at"] = 0.0, np.nan
    group["local"] = group["local"] * math.exp(-1.0 / LOCAL_MINUTES) + sums
    group["local_at"] = now
    if now - group["then_at"] >= WANDER_SECONDS:
        both = np.stack((group["then"], group["local"]))
        level, variance = verdicts.levels(both, verdicts.rates(both[0]), base.POSITIONS)
        moved = float(level[1] - level[0])
        noise = float(variance.sum()) - 2.0 * verdicts.BLOCK_FLOOR
        usual = float(group["wander"])
        sample = min(max(moved * moved - noise, 0.0), WANDER_WINSOR * usual)
        if math.isfinite(noise):
            group["wanders"] = min(group["wanders"] + 1.0, MOST_WANDERS)
            group["wander"] = usual + (sample - usual) / (PRIOR_WANDERS + group["wanders"])
    if not now - group["then_at"] < WANDER_SECONDS:
        group["then"], group["then_at"] = group["local"], now


def _compare(comparison: Comparison, sums: Floats, old: Indices, new: Indices, now: float) -> None:
    """Take one minute of both sides, or of the new one alone, into the evidence."""
    after = sums[new].sum(0)
    rate = np.array(comparison.rate)
    if not comparison.single:
        comparison.shared = min(comparison.shared, max(int((after[base.TRIALS] > 0.0).sum()), 1))
    level, variance = verdicts.levels(after[None], rate, comparison.shared)
    comparison.new_at = now
    comparison.after = (np.array(comparison.after) * KEPT + after).tolist()
    if not math.isfinite(variance[0]):
        return
    if len(old):
        before = sums[old].sum(0)
        other, error = verdicts.levels(before[None], rate, comparison.shared)
        if math.isfinite(error[0]):
            comparison.before = (np.array(comparison.before) * KEPT + before).tolist()
            _see(comparison, float(level[0] - other[0]))
            spread = float(variance[0] + error[0])
            comparison.beside = verdicts.taken(comparison.beside, float(level[0] - other[0]), spread)
            return
    age = max(now - comparison.old_at, 0.0)
    other, _ = verdicts.levels(np.array([comparison.local]), rate, comparison.shared)
    apart = float(level[0] - other[0])
    _see(comparison, apart)
    if age <= EDGE_SECONDS + max(comparison.began_at - comparison.old_at, 0.0):
        since = max(now - max(comparison.old_at, comparison.began_at), 0.0) / BLOCK_SECONDS
        comparison.edge = verdicts.taken(
            comparison.edge, apart, float(variance[0]) * math.exp(since / LOCAL_MINUTES)
        )


def _see(comparison: Comparison, apart: float) -> None:
    """Follow the difference of the last minutes, by which a recovery is seen."""
    comparison.lately += (apart - comparison.lately) / 10.0 if comparison.event else apart - comparison.lately


def _note_replicas(
    comparison: Comparison, sums: Floats, sides: tuple[Indices, Indices], ids: Mapping[int, str]
) -> None:
    """Note how far each replica is from its own side, for how far replicas are apart for good."""
    rate = np.array(comparison.rate)
    for side, rows in enumerate(sides):
        if len(rows) < 2:  # noqa: PLR2004 - one replica is its side
            for row in rows.tolist():
                comparison.replicas.setdefault(ids[row], (side, 0.0, 0.0))
            continue
        level, variance = verdicts.levels(sums[rows], rate, comparison.shared)
        known = np.isfinite(variance)
        weight = np.where(known, 1.0 / variance, 0.0)
        if not known.any():
            continue
        apart = level - (level * weight).sum() / weight.sum()
        for row, much, far in zip(rows.tolist(), weight.tolist(), (weight * apart).tolist(), strict=True):
            _, old_weight, old_pull = comparison.replicas.get(ids[row], (side, 0.0, 0.0))
            comparison.replicas[ids[row]] = (side, old_weight + much, old_pull + far)


def difference(comparison: Comparison, alpha: float) -> verdicts.Difference | None:
    """Return how far apart the sides are by the surer way to tell, None where too little is seen."""
    noted = list(comparison.replicas.values())
    apart = verdicts.between_replicas([Replica(weight, pull) for _, weight, pull in noted])
    sizes = [sum(side == each for side, _, _ in noted) for each in (OLD, NEW)]
    offset = apart * sum(1.0 / max(size, 1) for size in sizes)
    _, error = verdicts.levels(np.array([comparison.local]), np.array(comparison.rate), comparison.shared)
    edge_offset = offset + comparison.wander + (float(error[0]) if math.isfinite(error[0]) else 1.0)
    ways = (
        verdicts.difference(comparison.beside, offset, alpha),
        verdicts.difference(comparison.edge, edge_offset, alpha),
    )
    known = [way for way in ways if way is not None]
    return min(known, key=lambda way: way.high - way.low, default=None)
