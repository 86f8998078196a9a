"""What is simulated: how a replica and its traffic are while nothing is wrong, what changes, and how scrapes go wrong."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

DAY_SECONDS = 86_400.0
BEGIN_AT = 1_767_225_600.0
"""Unix seconds at which every stream begins: 2026-01-01T00:00Z, where a day begins."""

ChangeKind = Literal[
    "none", "collapse", "subsetcollapse", "shift", "late", "ramp", "subset", "kchange", "tenant", "blank"
]
Expected = Literal["none", "down", "up", "regime", "nuisance"]


@dataclass(frozen=True, slots=True)
class Profile:
    """A replica and its traffic while nothing is wrong.

    A replica has `slots` places for requests that run together. A request holds its place for a log-normal
    time (median `life_median` seconds, sigma `life_sigma`) and brings its own offset (`req_sd`) and slope over
    draft positions (`slope_sd`), both standard deviations in logits. `cond` are the conditional acceptances,
    `dt` is the scrape interval in seconds. A busy slot makes `drafts_per_slot` drafts an interval, scattered as
    a gamma-Poisson of shape `burst_shape`; `occupancy` is the share of slots that is busy, swings by
    `load_amp` (relative) over the day, and wanders (`load_burst`: sd of its logarithm, 10 min). The mean of the
    offsets wanders (`mix_sd` logits, `mix_tau` seconds) and swings over the day (`diurnal`, amplitude in
    logits). `night` are the hours from which to which there is no traffic.
    """

    k: int = 5
    cond: tuple[float, ...] = (0.80, 0.76, 0.73, 0.70, 0.68, 0.66, 0.64, 0.62)
    dt: float = 15.0
    slots: int = 32
    drafts_per_slot: float = 300.0
    burst_shape: float = 20.0
    occupancy: float = 0.6
    load_amp: float = 0.5
    load_burst: float = 0.25
    life_median: float = 20.0
    life_sigma: float = 1.0
    req_sd: float = 0.5
    slope_sd: float = 0.05
    mix_sd: float = 0.07
    mix_tau: float = 7200.0
    diurnal: float = 0.22
    night: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """What changes, at an hour drawn uniformly from `at_h`.

    `shift` is in logits and signed; `level` the conditional acceptance after a collapse; `from_pos` the first
    draft position that is hit (1 first); `ramp_h` the length of a slide in hours; `frac` the share of requests
    that is hit (of a k change: negative where acceptance collapses with it); `hours` how long it lasts, 0 for
    good; `new_k` the draft length afterwards, 0 for the same; `reset`: counters begin anew with the change.
    """

    kind: ChangeKind
    at_h: tuple[float, float] = (25.5, 27.5)
    shift: float = 0.0
    level: float = 0.09
    from_pos: int = 1
    ramp_h: float = 0.0
    frac: float = 1.0
    hours: float = 0.0
    new_k: int = 0
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """A profile, a change, and how scrapes go wrong, over `hours`; `reps` streams of it are judged.

    A finding later than `horizon_h` hours is a miss. `gap_len` is the mean length of a gap in seconds,
    `dup_rate` the share of scrapes that come twice. Where `fleet` is given, so many replicas share rhythm and
    load and the `common` share of the wander's variance, `reps` counts replicas, group after group, and the
    change hits `hit` of each group.
    """

    name: str
    profile: Profile
    change: Change = field(default_factory=lambda: Change("none"))
    hours: float = 36.0
    reps: int = 24
    horizon_h: float = 8.0
    resets_per_day: float = 0.0
    gaps_per_day: float = 0.0
    gap_len: float = 600.0
    dup_rate: float = 0.0
    expect: Expected = "none"
    fleet: int = 0
    hit: int = 1
    common: float = 0.9

    def __str__(self) -> str:
        fleet = f" fleet of {self.fleet}, {self.hit} hit" if self.fleet else ""
        profile = f"dt={self.profile.dt:g}s k={self.profile.k} reps={self.reps} hours={self.hours:g}"
        return f"{self.name:22s} expect={self.expect:9s} {profile}{fleet}"

    def repeated(self, reps: int | None) -> Scenario:
        """Return the scenario with so many streams, whole fleets only."""
        wanted = reps or self.reps
        return replace(self, reps=max(1, wanted // self.fleet) * self.fleet if self.fleet else wanted)


@dataclass(frozen=True, slots=True)
class Stream:
    """One replica, a row per scrape (n rows); counts are since the scrape before.

    t [n]: unix seconds; drafts [n]; accepted [n, longest k]: 0 past the draft length k [n]; reset [n]: counters
    began anew before this scrape; change_at: unix seconds, None where nothing changes; change_row: the first
    scrape wholly or partly after it; shift [n]: how much of the change is in force, 0 to 1.
    """

    t: npt.NDArray[np.float64]
    drafts: npt.NDArray[np.int64]
    accepted: npt.NDArray[np.int64]
    k: npt.NDArray[np.int64]
    reset: npt.NDArray[np.bool_]
    change_at: float | None
    change_row: int | None
    shift: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.t)
