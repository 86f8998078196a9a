"""The baseline: conditional acceptance per position over the last day of this regime's undisturbed traffic.

What a bucket saw joins the baseline only after a quarantine, and never while a trouble is open or a
detector is near its limit: the baseline does not follow a fall. Nor does it learn, whatever the detectors
say, what misses a quarter of its benefit: what was in quarantine comes together and joins once its mean does
not. Time without traffic does not age it.

A MAL is only comparable with one of drafts of the same length. Where these change, the baseline's is what its
conditional acceptances promise for the new length; where lengths are mixed and no position but the first is
known, it is what drafts of about this mean length (`ALIKE`) had on the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import scores

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Floats, State
    from monitor.core.detectors.measures.evidence import Trials

MEMORY_SECONDS = 30 * 3600.0
"""Seconds with traffic (e-folding) that the baseline is a mean of: a day and a quarter, so that each hour
of the day has its say."""

LOCAL_SECONDS = 3600.0
"""Seconds (e-folding) of where the level stood lately, which events are compared with."""

QUARANTINE_SECONDS = 600.0
"""Seconds that counts wait before they join the baseline: longer than any far fall stays unseen."""

LEAST_QUARANTINE_SECONDS = 20.0
"""The same of a stream of a few minutes, which has no other baseline."""

QUARANTINE_SHARE = 0.3
"""Share of a stream's age that counts wait, between the two."""

LONGEST_QUARANTINE_SECONDS = 4500.0
"""Seconds after which counts of a stream that is never calm join if they show the usual level, and are
thrown away if not: an hour and a quarter is no moment."""

LARGEST_LOSS, USUAL_LOSS = 0.25, 0.125
"""Shares of the baseline's benefit from which on what misses them is not learnt: of calm traffic, and of
what was never calm, where half as much must be shown to be the usual level."""

START_DRAFTS = 500.0
"""Drafts that join at once, for a stream that knows nothing: a few requests."""

KNOWN_TRIALS = 300.0
"""Trials of a position before it is judged: its rate is then known to 0.03."""

GROWN_SECONDS = 3600.0
"""Seconds after which the positions that a larger k brought are judged: a few minutes are a few requests."""

SAME_LENGTH, ALIKE = 0.03, 0.1
"""Shares of a mean length within which another is the same one (a MAL moves by 0.02), or is comparable."""

FIXED = 0.02
"""Draft tokens by which a mean length may miss a whole number and be one, as `evidence.A_STEP`."""

LOWEST, HIGHEST = 0.004, 0.996
"""Rates that a baseline may have: at 0 and 1 odds have no logarithm. LOWEST and HIGHEST are 5.5 logits from
even."""

DTYPE = np.dtype(
    [
        ("sums", "f8", base.NUM_SUMS),  # the baseline: trials, successes, drafts, accepted, tokens, faded
        ("fresh", "f8", base.NUM_SUMS),  # quarantine's room that fills, columns as in `base`
        ("aged", "f8", base.NUM_SUMS),  # quarantine's room that waits
        ("local", "f4", base.NUM_SUMS),  # the baseline's last hours
        ("fresh_since", "f8"),  # first bucket in `fresh`, unix seconds
        ("began_at", "f8"),  # of the baseline, unix seconds
        ("life_began_at", "f8"),  # of the engine's life, unix seconds
        ("relocate", "f8"),  # 1 after a restart, until something joins
        ("buckets", "f8"),  # buckets seen
        ("drafted", "f8"),  # positions that nearly all drafts have
        ("depth", "f8"),  # mean length of drafts lately, tokens
        ("single", "f8"),  # 1 where only the mean is known
        ("alike", "f4", 3),  # drafts, accepted, draft tokens at the present length
        ("trusted", "f8"),  # positions whose baseline is believed; fewer after a larger k
        # of the sums above, kept because they change rarely and are asked for at every step
        ("rate", "f8", base.POSITIONS),  # conditional acceptance
        ("information", "f8", base.POSITIONS),  # p(1 - p) × trials: of the level, of each contrast
        ("mal", "f8"),  # 1 + accepted tokens a draft at the present length, NaN: unknown
    ],
)
_INDEX = np.arange(base.POSITIONS)
LENGTHS = [base.DRAFTS, base.ACCEPTED, base.TOKENS]  # columns of `alike`


def allocate(state: State) -> None:
    """Set fresh rows to a baseline that knows nothing."""
    state["rate"] = 0.5
    state["mal"] = np.nan
    state["trusted"] = base.POSITIONS


def known(state: State) -> Bools:
    """Return the positions [B, 8] that have a baseline.

    Those that a larger k brought are known after an hour: a few minutes are a few requests.
    """
    result: Bools = (state["sums"][:, base.TRIALS] >= KNOWN_TRIALS) & (state["trusted"][:, None] > _INDEX)
    return result


def expected_accepted(rate: Floats, drafted: Floats, single: Bools) -> Floats:
    """Return the accepted tokens a draft [B] that conditional acceptances promise for `drafted` positions.

    The eighth rate stands for all positions from the eighth on, the first for all where only totals are
    known (`single`).
    """
    if single.any():
        first = rate[:, 0]
        alike: Floats = first * (1.0 - first**drafted) / (1.0 - first)
        if single.all():
            return alike
    reach = np.cumprod(rate, axis=1)
    inside = np.minimum(drafted, base.POSITIONS)[:, None] > _INDEX
    last = rate[:, -1]
    more = np.maximum(drafted - base.POSITIONS, 0.0)
    tail = reach[:, -1] * last * (1.0 - last**more) / (1.0 - last)
    apart: Floats = (reach * inside).sum(1) + tail
    return np.where(single, alike, apart) if single.any() else apart


def derive(state: State) -> None:
    """Bring what is kept of the sums up to date."""
    sums = state["sums"]
    trials = sums[:, base.TRIALS]
    rate = base.clip((sums[:, base.SUCCESSES] + 0.5) / (trials + 1.0), LOWEST, HIGHEST)
    found = scores.against(sums, rate, known(state))
    state["rate"] = rate
    state["information"] = found.information
    promised = at_depth(state, state["depth"])
    state["mal"] = np.where((sums[:, base.DRAFTS] > 0.0) & ~_beyond(state), 1.0 + promised, np.nan)


def depth(sums: Floats) -> Floats:
    """Return the mean length of the drafts in sums [B, 19], NaN where there are none."""
    drafts = sums[:, base.DRAFTS]
    result: Floats = np.where(drafts > 0.0, sums[:, base.TOKENS] / np.maximum(drafts, 1e-9), np.nan)
    return result


def at_depth(state: State, length: Floats) -> Floats:
    """Return the accepted tokens a draft [B] that the baseline promises to drafts of a mean length [B]."""
    sums, alike = state["sums"], state["alike"]
    measured: Floats = sums[:, base.ACCEPTED] / np.maximum(sums[:, base.DRAFTS], 1.0)
    usual = depth(sums)
    same = (np.abs(length - usual) <= SAME_LENGTH * usual) | (state["single"] > 0.0)
    if same.all():
        return measured
    like = alike[:, 1] / np.maximum(alike[:, 0], 1.0)
    other = alike[:, 2] / np.maximum(alike[:, 0], 1.0)
    lately = (alike[:, 0] > 0.0) & (np.abs(length - other) <= ALIKE * other)
    # from lengths that are alike or, before there are any, from all that the baseline has
    own, of = np.where(lately, like, measured), np.where(lately, other, usual)
    rate = likely(state)
    grown = _by_length(rate, length) / np.maximum(_by_length(rate, of), 1e-9)
    whole = np.rint(length)
    fixed = (np.abs(length - whole) <= FIXED) & (state["drafted"] >= whole)
    result: Floats = np.where(same, measured, np.where(fixed, _by_length(rate, length), own * grown))
    return result


def _beyond(state: State) -> Bools:
    """Return the rows [B] whose drafts are of mixed lengths and longer than any that the baseline knows."""
    mixed: Bools = state["drafted"] < np.rint(state["depth"])
    if not mixed.any():
        return mixed
    alike = state["alike"]
    known = np.fmax(depth(state["sums"]), alike[:, 2] / np.maximum(alike[:, 0], 1e-9))
    result: Bools = mixed & (state["depth"] > (1.0 + ALIKE) * known)
    return result


def likely(state: State) -> Floats:
    """Return the conditional acceptances [B, 8]; the last one known for later ones."""
    judged = state["sums"][:, base.TRIALS] > 0.0
    last = np.maximum.accumulate(np.where(judged, _INDEX, 0), 1)
    result: Floats = np.take_along_axis(state["rate"], last, 1)
    return result


def _by_length(rate: Floats, length: Floats) -> Floats:
    """Return the accepted tokens of drafts of a length [B] that may lie between two whole numbers."""
    every = np.zeros(len(rate), bool)
    below = np.floor(length)
    less, more = expected_accepted(rate, below, every), expected_accepted(rate, below + 1.0, every)
    result: Floats = less + (length - below) * (more - less)
    return result


def add(
    state: State,
    bucket: State,
    trials: Trials,
    rows: base.Indices,
    weight: Floats,
    calm: Bools,
    doubt: Floats,
) -> None:
    """Take full buckets into quarantine, and let the baseline have what was long enough in it.

    doubt [B]: logits that the baseline may be too high by.

    The quarantine has two rooms: when the fresh one is as old as the quarantine is long, what is in the
    aged one joins the baseline and the fresh one becomes the aged one. A young stream has a shorter
    quarantine, its first drafts none.
    """
    at, began = trials.at[rows], bucket["began_at"]
    starting = state["sums"][:, base.DRAFTS] < START_DRAFTS
    first = state["buckets"] == 0.0
    state["began_at"] = np.where(first, began, state["began_at"])
    life = np.where(first, began, state["life_began_at"])
    state["life_began_at"] = life
    state["buckets"] += 1.0
    fresh = state["fresh"]
    since = np.where(fresh[:, base.DRAFTS] > 0.0, state["fresh_since"], began)
    state["fresh_since"] = since
    fresh += bucket["sums"] * np.where(starting, 1.0, weight)[:, None]
    age = at - since
    waited = age > LONGEST_QUARANTINE_SECONDS
    join = _usual(state, calm, age, at - life, doubt) | starting
    drafted, length = trials.drafted[rows], depth(bucket["sums"])
    grown = (state["trusted"] < base.POSITIONS) & (at - life >= GROWN_SECONDS)
    state["trusted"] = np.where(grown, base.POSITIONS, state["trusted"])
    other = np.abs(length - state["depth"]) > FIXED
    changed = np.flatnonzero(join | grown | other)
    state["drafted"], state["single"] = drafted, trials.single[rows]
    state["depth"] = np.where(other, length, state["depth"])
    if len(changed):
        part = state[changed]
        _join(part, join[changed], starting[changed], np.minimum(age[changed], LONGEST_QUARANTINE_SECONDS))
        derive(part)
        state[changed] = part
    _throw_away(state, waited & ~join)


def _usual(state: State, calm: Bools, age: Floats, life: Floats, doubt: Floats) -> Bools:
    """Return the rows [B] whose quarantine of so many seconds (`age`) is over and shows the usual level."""
    least = base.clip(QUARANTINE_SHARE * life, LEAST_QUARANTINE_SECONDS, QUARANTINE_SECONDS)
    waited = age > LONGEST_QUARANTINE_SECONDS
    over: Bools = (calm & (age >= least)) | waited
    if over.any():
        missing = lost(state, state["fresh"] + state["aged"], doubt)
        over &= missing < np.where(waited & ~calm, USUAL_LOSS, LARGEST_LOSS)
    return over


def _throw_away(state: State, unusual: Bools) -> None:
    """Throw away the aged room of rows that waited for so long and are still `unusual` [B]."""
    if unusual.any():
        state["aged"] = np.where(unusual[:, None], state["fresh"], state["aged"])
        state["fresh"] = np.where(unusual[:, None], 0.0, state["fresh"])


def lost_by(state: State, shift: Floats) -> Floats:
    """Return the share [B] of the benefit that a `shift` [B] in logit costs."""
    single = state["single"] > 0.0
    odds = state["rate"] / (1.0 - state["rate"]) * np.exp(shift)[:, None]
    before = expected_accepted(state["rate"], state["drafted"], single)
    after = expected_accepted(odds / (1.0 + odds), state["drafted"], single)
    result: Floats = 1.0 - after / np.maximum(before, 1e-9)
    return result


def lost(state: State, sums: Floats, doubt: Floats) -> Floats:
    """Return the share [B] of the benefit that `sums` [B, 19] miss for certain.

    doubt [B]: logits that the baseline may be too high by.
    """
    promised = at_depth(state, depth(sums)) * (1.0 - lost_by(state, -doubt))
    kept = sums[:, base.ACCEPTED] / np.maximum(sums[:, base.DRAFTS], 1.0)
    result: Floats = (promised - kept) / np.maximum(promised, 1e-9)
    return result


def _join(state: State, join: Bools, starting: Bools, step: Floats) -> None:
    """Move the aged room into the baseline where `join`, and the fresh room into the aged one."""
    one, now = join[:, None], starting[:, None]
    fresh, aged, local = state["fresh"], state["aged"], state["local"]
    joining = aged + fresh * now
    came = joining[:, base.DRAFTS] > 0.0
    faded = np.exp(-step / LOCAL_SECONDS) * ~((state["relocate"] > 0.0) & came)
    state["sums"] = np.where(
        one, state["sums"] * np.exp(-step / MEMORY_SECONDS)[:, None] + joining, state["sums"]
    )
    state["local"] = np.where(one, local * faded[:, None] + joining, local)
    state["relocate"] = np.where(join & came, 0.0, state["relocate"])
    _join_alike(state, joining, np.exp(-step / MEMORY_SECONDS), join & came)
    state["aged"] = np.where(one, fresh * ~now, aged)
    state["fresh"] = np.where(one, 0.0, fresh)


def _join_alike(state: State, joining: Floats, kept: Floats, join: Bools) -> None:
    """Add what joins to what drafts of its length had, which begins anew where lengths are others."""
    new, old = joining[:, LENGTHS], state["alike"]
    before = old[:, 2] / np.maximum(old[:, 0], 1e-9)
    same = np.abs(depth(joining) - before) <= ALIKE * before
    state["alike"] = np.where(join[:, None], new + old * (kept * same)[:, None], old)


def restart(state: State, times: Floats) -> None:
    """Begin another life of the engine: the baseline goes on, the level of the last hour is learnt anew."""
    state["life_began_at"] = times
    state["relocate"] = 1.0


def adopt(state: State, sums: Floats) -> None:
    """Make `sums` [B, 19], all that was seen since the level rose for good, the baseline."""
    state["sums"] = state["local"] = sums
    state["fresh"] = state["aged"] = 0.0
    state["alike"] = sums[:, LENGTHS]
    state["relocate"] = 0.0
    derive(state)


def forget(state: State, positions_kept: Floats) -> None:
    """Drop the baseline of the positions from `positions_kept` [B] on: another k made them incomparable."""
    others = np.ones((len(state), base.NUM_SUMS - base.DRAFTS), bool)
    keep = np.concatenate([positions_kept[:, None] > _INDEX] * 2 + [others], 1)
    for name in ("sums", "fresh", "aged", "local"):
        sums = state[name]
        forgotten = (sums[:, base.SUCCESSES] * ~keep[:, base.SUCCESSES]).sum(1)
        sums *= keep
        sums[:, base.ACCEPTED] -= forgotten
        sums[:, base.TOKENS] = np.minimum(sums[:, base.TOKENS], sums[:, base.DRAFTS] * positions_kept)
    state["alike"] = 0.0
    state["trusted"] = np.where(state["buckets"] > 0.0, positions_kept, base.POSITIONS)
    derive(state)
