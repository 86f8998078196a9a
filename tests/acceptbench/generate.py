"""Streams of speculative-decoding counters, simulated from request slots up.

A replica has places for concurrent requests. A request holds its place for a log-normal time and carries its
own logit offset (and a slope over draft positions), so interval counts are overdispersed and correlated
between intervals in the way real traffic is: the fewer requests, the worse. Slow mix drift (AR(1)) and a
diurnal swing move the mean of the offsets.

All that is assumed of traffic is here and in `scenarios.Profile`: the sizes of request spread, drift and daily
swing are assumptions, so absolute figures move with them. The order of the draws is part of the contract: one
(scenario, seed, repetition) is the same stream to the byte (`test_generate` holds hashes).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tests.acceptbench.scenarios import BEGIN_AT, DAY_SECONDS, Change, Profile, Scenario, Stream

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Singles = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int64]
    Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Requests:
    """The request in each slot [n, slots]: its offset and slope (logits) and a uniform mark."""

    offset: Singles
    slope: Singles
    mark: Singles


@dataclass(frozen=True, slots=True)
class _Moment:
    """When the change comes (unix seconds), its first row, and how much of it is in force [n]."""

    at: float | None
    row: int | None
    force: Floats


def generator(name: str, seed: int, rep: int) -> np.random.Generator:
    """Return the source of randomness of one stream."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed, rep])


def simulate(scenario: Scenario, rep: int, seed: int = 0) -> Stream:
    """Return one stream of a scenario; replicas of a fleet share what their group draws."""
    profile, fleet = scenario.profile, scenario.fleet
    own = generator(scenario.name, seed, rep)
    group = generator(f"{scenario.name}/group", seed, rep // fleet) if fleet else own
    n = int(scenario.hours * 3600 / profile.dt)
    t: Floats = BEGIN_AT + profile.dt * np.arange(1, n + 1, dtype=np.float64)
    hour: Floats = (t - BEGIN_AT) / 3600.0
    phase = group.uniform(0, 24.0)
    mix = _mix(scenario, own, group, n) + profile.diurnal * np.sin(2 * np.pi * (hour - phase) / 24.0)
    load = _load(profile, group, hour, phase)
    requests = _requests(own, profile, n, mix)
    drafts = _drafts(own, profile, load)
    moment = _moment(scenario, rep, group, t, hour)
    k = np.full(n, profile.k)
    if scenario.change.new_k:
        k[moment.row :] = scenario.change.new_k
    accepted = _accepted(own, scenario, drafts, requests, moment.force, k)
    whole = Stream(t, drafts.sum(1), accepted, k, np.zeros(n, bool), moment.at, moment.row, moment.force)
    return _twice(own, scenario, _with_gaps(own, scenario, _with_resets(own, scenario, whole)))


def wander(random: np.random.Generator, n: int, dt: float, tau: float, sd: float) -> Floats:
    """Return an AR(1) path [n] of memory `tau` seconds and standard deviation `sd`."""
    if sd == 0:
        return np.zeros(n)
    keeps = float(np.exp(-dt / tau))
    steps = random.normal(0.0, sd * np.sqrt(1 - keeps * keeps), n)
    level = float(random.normal(0.0, sd))
    path = [level]
    for step in steps.tolist()[1:]:
        level = keeps * level + step
        path.append(level)
    return np.array(path)


def _mix(scenario: Scenario, own: np.random.Generator, group: np.random.Generator, n: int) -> Floats:
    profile = scenario.profile
    if not scenario.fleet:
        return wander(own, n, profile.dt, profile.mix_tau, profile.mix_sd)
    shared = wander(group, n, profile.dt, profile.mix_tau, profile.mix_sd * np.sqrt(scenario.common))
    return shared + wander(own, n, profile.dt, profile.mix_tau, profile.mix_sd * np.sqrt(1 - scenario.common))


def _load(profile: Profile, group: np.random.Generator, hour: Floats, phase: float) -> Floats:
    """Return the share of slots [n] that is asked for."""
    daily = profile.occupancy * (1 + profile.load_amp * np.sin(2 * np.pi * (hour - phase - 3.0) / 24.0))
    burst = profile.load_burst
    load = daily * np.exp(wander(group, len(hour), profile.dt, 600.0, burst) - burst**2 / 2)
    if profile.night is None:
        return load
    begins, ends = profile.night
    of_day = hour % 24.0
    return np.where((of_day >= begins) & (of_day < ends), 0.0, load)


def _requests(random: np.random.Generator, profile: Profile, n: int, mix: Floats) -> _Requests:
    found = _Requests(*(np.empty((n, profile.slots), np.float32) for _ in range(3)))
    for slot in range(profile.slots):
        end = _ends(random, profile, n)
        which = np.searchsorted(end, np.arange(n), side="right")
        start = np.concatenate(([0], end[:-1]))[which]
        count = which.max() + 1
        found.offset[:, slot] = mix[start] + profile.req_sd * random.normal(size=count)[which]
        found.slope[:, slot] = profile.slope_sd * random.normal(size=count)[which]
        found.mark[:, slot] = random.random(count)[which]
    return found


def _ends(random: np.random.Generator, profile: Profile, n: int) -> Integers:
    """Return in which interval each request of a slot ends, the last one after the `n` intervals."""
    mean_life = max(1.0, profile.life_median * np.exp(profile.life_sigma**2 / 2) / profile.dt)
    count = int(n / mean_life * 1.3) + 50
    while True:
        seconds = random.lognormal(np.log(profile.life_median), profile.life_sigma, count)
        # a request rounded down to one interval still has its neighbours
        end: Integers = np.cumsum(np.maximum(1, np.rint(seconds / profile.dt)).astype(int))
        if end[-1] >= n:
            return end
        count *= 2


def _drafts(random: np.random.Generator, profile: Profile, load: Floats) -> Integers:
    """Return the drafts [n, slots] of the busy slots: those whose rank is under the load, its edge random."""
    slots, shape = profile.slots, profile.burst_shape
    busy = np.minimum(slots, np.floor(slots * load + random.random(len(load))))
    rate = profile.drafts_per_slot * random.gamma(shape, 1 / shape, (len(load), slots))
    made: Integers = np.where(np.arange(slots)[None, :] < busy[:, None], random.poisson(rate), 0)
    return made


def _moment(scenario: Scenario, rep: int, group: np.random.Generator, t: Floats, hour: Floats) -> _Moment:
    change = scenario.change
    if change.kind == "none":
        return _Moment(None, None, np.zeros(len(t)))
    hour_of_change = group.uniform(*change.at_h)
    at = BEGIN_AT + 3600.0 * hour_of_change
    force = (t > at).astype(float)
    if change.ramp_h:
        force = np.clip((hour - hour_of_change) / change.ramp_h, 0.0, 1.0)
    if change.hours:
        force = force * (hour < hour_of_change + change.hours)
    if scenario.fleet and rep % scenario.fleet >= scenario.hit:
        force = force * 0.0
    return _Moment(at, int(np.searchsorted(t, at, side="right")), force)


def _accepted(
    random: np.random.Generator,
    scenario: Scenario,
    drafts: Integers,
    requests: _Requests,
    force: Floats,
    k: Integers,
) -> Integers:
    """Return the accepted tokens [n, longest k] of all slots together."""
    profile, change = scenario.profile, scenario.change
    longest = max(profile.k, change.new_k)
    left = drafts
    if change.kind == "blank":
        # drafts that carry nothing (zero-filled past the draft's context): position 0 fails, the rest is as before
        left = drafts - random.binomial(drafts, np.broadcast_to((change.frac * force)[:, None], drafts.shape))
    accepted = np.zeros((len(drafts), longest), np.int64)
    for position in range(longest):
        chance = _chance(profile, change, requests, force, position)
        kept = random.binomial(left, chance)
        kept[k <= position] = 0
        accepted[:, position] = kept.sum(1)
        left = kept
    return accepted


def _chance(profile: Profile, change: Change, requests: _Requests, force: Floats, position: int) -> Floats:
    """Return the conditional acceptance [n, slots] of a position."""
    base = _logit(np.asarray(profile.cond))[position]
    hit = requests.mark < change.frac
    middle = (profile.k - 1) / 2
    odds = base + requests.offset + requests.slope * np.float32(position - middle)
    if change.kind in ("shift", "late", "ramp", "subset", "tenant") and position + 1 >= change.from_pos:
        odds = odds + (change.shift * force)[:, None] * hit
    chance = _expit(odds)
    if change.kind in ("collapse", "subsetcollapse") or (change.kind == "kchange" and change.frac < 0):
        fallen = _expit(_logit(np.asarray(change.level)) + 0.5 * requests.offset)
        share = force[:, None] * (hit if change.kind == "subsetcollapse" else 1.0)
        chance = chance * (1 - share) + fallen * share
    return chance


def _with_resets(random: np.random.Generator, scenario: Scenario, stream: Stream) -> Stream:
    """Let counters begin anew now and then, and with the change where it says so."""
    n, row = len(stream), stream.change_row
    reset = stream.reset.copy()
    if scenario.resets_per_day:
        reset |= random.random(n) < scenario.resets_per_day * scenario.profile.dt / DAY_SECONDS
    if scenario.change.reset and row is not None and row < n:
        reset[row] = True
    return replace(stream, reset=reset)


def _with_gaps(random: np.random.Generator, scenario: Scenario, stream: Stream) -> Stream:
    """Leave scrapes out: the next one has their counts too, or those since a restart in the gap."""
    n, dt = len(stream), scenario.profile.dt
    keep = np.ones(n, bool)
    if scenario.gaps_per_day:
        for row in np.flatnonzero(random.random(n) < scenario.gaps_per_day * dt / DAY_SECONDS):
            keep[row : row + int(random.exponential(scenario.gap_len) / dt) + 1] = False
    keep[-1] = True
    if keep.all():
        return stream
    span = np.concatenate(([0], np.cumsum(keep)[:-1]))
    seen = np.ones(n, np.int64)
    for row in np.flatnonzero(stream.reset & ~keep):
        seen[(span == span[row]) & (np.arange(n) < row)] = 0
    drafts = np.zeros(span[-1] + 1, np.int64)
    accepted = np.zeros((span[-1] + 1, stream.accepted.shape[1]), np.int64)
    reset = np.zeros(span[-1] + 1, bool)
    np.add.at(drafts, span, stream.drafts * seen)
    np.add.at(accepted, span, stream.accepted * seen[:, None])
    np.logical_or.at(reset, span, stream.reset)
    return _at_rows(replace(stream, drafts=drafts, accepted=accepted, reset=reset), np.flatnonzero(keep))


def _twice(random: np.random.Generator, scenario: Scenario, stream: Stream) -> Stream:
    """Let a share of the scrapes come twice: the second time nothing happened."""
    if not scenario.dup_rate:
        return stream
    times = 1 + (random.random(len(stream)) < scenario.dup_rate)
    rows = np.repeat(np.arange(len(stream)), times)
    first = np.concatenate(([True], rows[1:] != rows[:-1]))
    twice = replace(
        stream,
        drafts=stream.drafts[rows] * first,
        accepted=stream.accepted[rows] * first[:, None],
        reset=stream.reset[rows] & first,
    )
    return _at_rows(twice, rows)


def _at_rows(stream: Stream, rows: npt.NDArray[np.intp]) -> Stream:
    """Return a stream whose times are those of `rows`; its counts have been gathered already."""
    t, at = stream.t[rows], stream.change_at
    row = None if at is None else int(np.searchsorted(t, at, side="right"))
    return replace(stream, t=t, k=stream.k[rows], shift=stream.shift[rows], change_row=row)


def _logit(share: Floats) -> Floats:
    result: Floats = np.log(share) - np.log1p(-share)
    return result


def _expit(odds: Floats) -> Floats:
    result: Floats = 1.0 / (1.0 + np.exp(-odds))
    return result
