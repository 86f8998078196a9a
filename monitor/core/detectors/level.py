"""`level`: a step in acceptance, told from wander by its first minutes (whitened likelihood ratio).

The level of a bucket is predicted from running means of earlier ones at several memories (1 … 640 buckets);
the weights are learnt from the stream (ridge regression to `PRIOR_WEIGHTS`). A step of δ logits that began
a buckets ago leaves δ g(a) in the surprise e, with g(a) = 1 - Σ weight · response(a): in full at first,
then less and less as the means take it for the level. For each candidate begin

    δ = Σ g e / Σ g²,   evidence = max(|Σ g e| - band Σ g², 0)² / (2 Σ g²)    nats,

and 48 candidates are kept at ages that grow twofold, up to 512 buckets. Surprises are cut so that no bucket
is worth more than `LARGEST_SHARE` of the limit, less where few requests made it. The limit is ln of the
buckets a month per false alarm asked for, `EXTRA_NATS` less (measured: the dead band and the cut pay for it),
and grows with the stream's own excursions where their tail is heavier than e^-x.

Assumes that wander is stationary over hours and that a bucket's variance is known up to a factor. Cannot see
changes that take longer than about an hour (`trend` does) nor steps hidden in a silence. A step of less
than 0.2 logits (MAL 3.4 → 3.1) is lost in the wander of one stream's traffic, for anybody.

Measured (`make bench-detection`; found and in the median, with `trend`): MAL 3.4 → 2.9 at 5,000 drafts a
scrape `partial-high` 100 % in 1.7 min, at 300,000 `partial-huge` 100 % in 0.7 min; k = 1, 0.80 → 0.65
`k1-partial` 100 % in 1.0 min; improvements `improve-high` 100 % in 2.3 min. Change time off by 0.2 min.
False alarms: about 0.3 a month.

Vander Wiel, Monitoring processes that wander, Technometrics 1996; Willsky and Jones, IEEE TAC 1976; Lai,
Sequential changepoint detection in quality control and dynamical systems, JRSS B 1995.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.detectors.measures import excursions, rhythm

if TYPE_CHECKING:
    from monitor.core.detectors.base import Bools, Bucket, Floats, State

NAME = "level"

MEMORIES = np.array([1.0, 3.0, 10.0, 40.0, 160.0, 640.0])
"""Buckets over which the running means go: the last one, then each some three times as long, up to three
hours."""

PRIOR_WEIGHTS = np.array([0.30, 0.20, 0.12, 0.12, 0.10, 0.05])
"""Weights of these before the stream's own were learnt: what ridge regression gives on simulated traffic."""

PRIOR_BUCKETS = 80.0
"""Buckets that they are worth: twenty minutes at 15 s."""

LEARNING_BUCKETS = 6000.0
"""Buckets (e-folding) over which the weights are learnt: a day at 15 s."""

SOLVE_EVERY = 60
"""Buckets from one solution to the next: weights change over hours, solving takes as long as a step."""

SPREAD_BUCKETS = 60.0
"""Buckets that the prior of the surprise's variance is worth."""

SPREAD_MEMORY = 2000.0
"""Buckets over which it is learnt: a third of a day."""

WINSOR = 12.0
"""Times the variance that one surprise counts for in learning it: beyond 3.5 errors it is no noise."""

FOLLOWED_ERRORS = 4.0
"""Errors of surprise up to which the running means follow: one torn page does not drag them along."""

GENERATIONS = 6
"""Candidates come in generations, each kept twice as long as the one before; SLOTS of each."""

SLOTS = 8
"""Candidates of a generation: begins are known to an eighth of their age."""

CANDIDATES = GENERATIONS * SLOTS
LONGEST_AGE = 1023
"""Buckets that an age is counted to: twice as long as any candidate lives."""

DEAD_BAND = 0.04
"""Logits that a step may have and still be wander: once the day is known. Four times as much at first."""

SETTLING_SECONDS = 5 * 3600.0
"""Seconds (e-folding) in which the band narrows: a daily swing's steepest hours."""

EXTRA_NATS = -2.0
"""Nats on top of the plan's: negative, for band and cut pay for the search over begins and sizes
(measured)."""

EXCURSIONS_PRIOR = 15.0
"""Excursions that a tail as it should be is worth: about a day of them."""

STEEPEST_TAIL = 1.6
"""Times that the limit may grow for heavy tails: beyond it drops would not be found within hours."""

CALM = 0.5
"""Share of the limit above which a bucket teaches nothing of the wander."""

SILENT_SECONDS = 1800.0
"""Seconds without traffic after which the level may be another: means begin anew."""

RESUMING_BUCKETS = 8.0
"""Buckets after such a silence before anything is judged again: two minutes at 15 s."""

LOCAL_BUCKETS = 160.0
"""Buckets over which the local level is a mean: forty minutes at 15 s."""

SPAN_NATS = 2.0
"""Nats by which a begin may be less likely than the likeliest and still be one: about 95 %."""

INHERITED = -1
"""The number of the bucket before the first one of a stream that began with what others had learnt."""

DOUBT_ERRORS = 2.0
"""Errors of where a new stream stands by which the band is wider at first: 95 of 100 replicas lie within."""

YOUNG_DOUBT = 0.02
"""The same of a stream that begins with nothing, about its own first minutes: a few requests, no rhythm."""

YOUNG_SECONDS = 2 * 3600.0
"""Seconds in which a stream that nobody knew is held against its own begin, too."""

YOUNG_MEANS = slice(2, 4)
"""Which of the running means are: those of the last 10 and 40 buckets."""

YOUNG_WANDER = 0.07**2
"""Variance (logits²) of its wander, of which it has shown nothing: the simulations' drift."""

REPEATED = 5.0
"""Buckets that tell the same as one would if requests did not outlive them."""

DOUBT_KEPT = 1.0 - 1.0 / 240.0
"""Share of that which a bucket leaves: gone within hours at 15 s, when the means are its own."""

_GAINS = 1.0 - np.exp(-1.0 / MEMORIES)
"""How far each mean moves towards a new bucket; the first is the bucket itself."""

_GAINS[0] = 1.0
_FEATURES = len(MEMORIES)
_AGES = np.unique(np.rint(np.geomspace(1, 600, 40)).astype(np.int64) - 1)
"""Ages (buckets) at which what a step leaves is tabled, and the place in that table of each age."""

_GRID_OF_AGE = np.minimum(np.searchsorted(_AGES, np.arange(LONGEST_AGE + 1)), len(_AGES) - 1)
"""The place in `_AGES` of every age."""

_RESPONSE = 1.0 - (1.0 - _GAINS[None, :]) ** _AGES[:, None]
"""How much of a step each mean has taken in, by age."""

_CANDIDATE = np.arange(CANDIDATES)
_CYCLE = 1 << GENERATIONS
"""Buckets after which the same slots are used again, over `SLOTS`."""


def _slots() -> base.Ints:
    """Return where the candidate of bucket i is kept: every second one lives twice as long as the next."""
    slots = np.zeros(_CYCLE * SLOTS, np.int64)
    for i in range(len(slots)):
        generation = min((i & -i).bit_length() - 1, GENERATIONS - 1) if i else GENERATIONS - 1
        slots[i] = generation * SLOTS + (i >> min(generation + 1, GENERATIONS)) % SLOTS
    return slots


_SLOT_OF = _slots()

DTYPE = np.dtype(
    [
        ("resumed", "f4"),  # buckets in a row without a silence; a young row's first
        ("last_at", "f8"),  # end of the last bucket, unix seconds
        ("local", "f4"),  # mean score of the last 40 minutes, logits
        ("local_buckets", "f4"),  # buckets in it, at most `LOCAL_BUCKETS`
        ("means", "f4", _FEATURES),  # running mean of the scaled score, by memory
        ("gram", "f4", (_FEATURES, _FEATURES)),  # products of the means, faded: XᵀX of the regression
        ("cross", "f4", _FEATURES),  # products of means and score, faded: Xᵀy
        ("weights", "f4", _FEATURES),  # of the means in the prediction, solved from these
        ("signature", "f4", len(_AGES)),  # what a step leaves in the surprise, by age
        ("spread", "f4"),  # variance of the surprise
        ("learnt", "f4"),  # calm buckets it was learnt from
        ("pull", "f4", CANDIDATES),  # Σ g e of each candidate
        ("power", "f4", CANDIDATES),  # Σ g² of each candidate
        ("age", "i2", CANDIDATES),  # buckets since it began, -1: none
        ("born_at", "f4", CANDIDATES),  # when it began, seconds after `epoch`
        ("epoch", "f8"),  # first bucket's begin, unix seconds
        ("bucket", "i8"),  # buckets seen
        ("doubt", "f4"),  # logits by which an inherited level may be off
        ("peak", "f4", 2),  # highest evidence of the excursion under way: fall, rise; nats
        ("excursions", "f4", 2),  # excursions that ended, with the prior, faded
        ("excess", "f4", 2),  # sum of what their peaks exceeded, nats
    ],
)


def allocate(state: State) -> None:
    """Set fresh rows to what is assumed before anything was learnt."""
    state["gram"] = PRIOR_BUCKETS * np.eye(_FEATURES)
    state["cross"] = PRIOR_BUCKETS * PRIOR_WEIGHTS
    state["weights"] = PRIOR_WEIGHTS
    state["signature"] = 1.0 - (_RESPONSE * PRIOR_WEIGHTS).sum(1)
    state["spread"] = 1.0
    state["age"] = -1
    state["doubt"] = YOUNG_DOUBT
    excursions.allocate(state, EXCURSIONS_PRIOR)


def restart(state: State) -> None:
    """Forget all candidate changes and where the level was; what was learnt of its wander stays."""
    state["age"] = -1
    state["peak"] = 0.0
    state["resumed"] = 0.0


def rebase(state: State) -> None:
    """Begin anew around another baseline, in which the level stands at 0."""
    restart(state)
    state["local"] = state["local_buckets"] = 0.0


def inherit(state: State, shift: Floats, doubt: float, now: float) -> None:
    """Begin where other streams of the kind stand: at `shift` [B] logits, known up to `doubt`, at `now`."""
    state["means"] = shift[:, None]
    state["local"] = shift
    state["local_buckets"] = LOCAL_BUCKETS
    state["bucket"] = INHERITED
    state["resumed"], state["last_at"] = LOCAL_BUCKETS, now
    state["doubt"] = doubt


def from_begin(
    plan: base.DetectionPlan, state: State, bucket: Bucket, baseline_doubt: Floats, kept: Floats
) -> Floats:
    """Return the score [B] of the last minutes' fall from a young stream's begin, in units of the limit.

    z = mean / √(noise of its buckets + what a stream strays + what its begin is not known by), z² / 2 in
    nats. Unlike steps it does not get lost when the running means have taken the fall in. kept [B]: how many
    buckets there were; 0 where the begin is no reference.
    """
    root = np.sqrt(bucket.variance[:, 0])[:, None]
    spread = bucket.variance[:, :1] * state["spread"][:, None]
    memory = np.minimum(2.0 * MEMORIES[YOUNG_MEANS], np.maximum(kept, 1.0)[:, None])
    strays = rhythm.strayed(bucket.age, YOUNG_WANDER) + baseline_doubt * baseline_doubt
    variance = spread * REPEATED / memory + strays[:, None]
    z = np.minimum(state["means"][:, YOUNG_MEANS] * root, 0.0) / np.sqrt(variance)
    young = (kept > 0.0) & (bucket.age <= YOUNG_SECONDS)
    result: Floats = young * 0.5 * (z * z).max(1) / limits(plan, state)[:, 0]
    return result


def limits(plan: base.DetectionPlan, state: State) -> Floats:
    """Return the decision limit [B, 2] in nats for falls and rises."""
    nats = base.nats(plan) + EXTRA_NATS
    return excursions.limits(nats, state, STEEPEST_TAIL)


def step(
    plan: base.DetectionPlan, state: State, bucket: Bucket, enabled: Bools, learning: Bools
) -> base.Verdict:
    """Return the verdict on full buckets; rows alarm where `enabled`, learn where `learning` and calm."""
    resumed = (bucket.began_at - state["last_at"] <= SILENT_SECONDS) * state["resumed"] + 1.0
    state["resumed"], state["last_at"] = resumed, bucket.at
    settled = resumed > RESUMING_BUCKETS
    enabled = enabled & settled & bucket.usable[:, 0]
    root = np.sqrt(bucket.variance[:, 0])
    scaled = bucket.score[:, 0] / root
    inherited = state["bucket"] == INHERITED
    if inherited.any():
        # the means that were inherited are in logits: how noisy a bucket is shows with the first one
        state["means"] = np.where(inherited[:, None], state["means"] / root[:, None], state["means"])
    predicted = (state["means"] * state["weights"]).sum(1)
    sigma = np.sqrt(state["spread"])
    surprise = scaled - predicted
    limit = limits(plan, state)
    share = base.bucket_share(bucket.variance[:, 0], bucket.score[:, 0])
    doubt = DOUBT_ERRORS * state["doubt"]
    # what is doubted is no evidence, so it takes no part of what one bucket may bring
    cap = np.sqrt(2.0 * limit.min(1) * share) + 0.02 + doubt / (root * sigma)
    _candidates(state, base.clip(surprise / sigma, -cap, cap), root * sigma, bucket.began_at, settled)
    pull, power = state["pull"].astype(np.float64), np.maximum(state["power"].astype(np.float64), 1e-9)
    band = DEAD_BAND * (1.0 + 3.0 * np.exp(-bucket.age / SETTLING_SECONDS)) + doubt
    state["doubt"] *= DOUBT_KEPT
    beyond = np.maximum(np.abs(pull) - band[:, None] * power, 0.0) * (state["age"] >= 0)
    evidence = beyond * beyond / (2.0 * power)
    falling = pull < 0.0
    best = np.empty((len(scaled), 2), np.int64)
    best[:, 0], best[:, 1] = (evidence * falling).argmax(1), (evidence * ~falling).argmax(1)
    row = np.arange(len(scaled))[:, None]
    statistic = evidence[row, best] * (falling[row, best] == _FALLS)
    excursions.learn(state, statistic, statistic < 1.0, enabled[:, None])
    ratio = statistic / limit
    calm = ratio.max(1) < CALM
    _learn(state, scaled, predicted, surprise, learning & settled & calm)
    ratio *= enabled[:, None]
    since = state["epoch"][:, None] + state["born_at"][row, best]
    return base.Verdict(ratio[:, 0], ratio[:, 1], since[:, 0], since[:, 1], calm)


_FALLS = np.array([True, False])


def _candidates(state: State, surprise: Floats, scale: Floats, began_at: Floats, settled: Bools) -> None:
    """Begin a candidate change with this bucket and give every candidate its evidence.

    A step of one logit that began `age` buckets ago leaves `signature(age)` in the surprise: what the
    running means have not yet taken for the level.
    """
    bucket = state["bucket"]
    new = _SLOT_OF[bucket % len(_SLOT_OF)][:, None] == _CANDIDATE
    age = state["age"]
    age = np.where(new, 0, np.where(age >= 0, np.minimum(age + 1, LONGEST_AGE), -1))
    age = np.where(settled[:, None], age, -1)
    epoch = np.where(state["epoch"] > 0.0, state["epoch"], began_at)
    state["age"], state["epoch"] = age, epoch
    state["born_at"] = np.where(new, (began_at - epoch)[:, None], state["born_at"])
    row = np.arange(len(age))[:, None]
    signature = state["signature"][row, _GRID_OF_AGE[age]] / scale[:, None]
    signature *= age >= 0
    kept = age > 0
    state["pull"] = state["pull"] * kept + signature * surprise[:, None]
    state["power"] = state["power"] * kept + signature * signature
    state["bucket"] = bucket + 1


def _learn(state: State, scaled: Floats, predicted: Floats, surprise: Floats, calm: Bools) -> None:
    """Let running means follow the score, and learn how they predict it from calm buckets."""
    means, spread, resumed = state["means"], state["spread"], state["resumed"]
    reach = FOLLOWED_ERRORS * np.sqrt(spread)
    followed = np.where(resumed > RESUMING_BUCKETS, predicted + base.clip(surprise, -reach, reach), scaled)
    fade = (1.0 - calm / LEARNING_BUCKETS)[:, None]
    fresh = PRIOR_BUCKETS * (1.0 - fade)
    used = means * calm[:, None]
    state["gram"] = (
        state["gram"] * fade[:, :, None] + used[:, :, None] * means[:, None, :] + fresh[:, :, None] * _EYE
    )
    state["cross"] = state["cross"] * fade + used * followed[:, None] + fresh * PRIOR_WEIGHTS
    learnt = np.minimum(state["learnt"] + calm, SPREAD_MEMORY)
    state["learnt"] = learnt
    change = np.minimum(surprise * surprise, WINSOR * spread) - spread
    state["spread"] = np.maximum(spread + calm * change / (SPREAD_BUCKETS + learnt), 0.02)
    # after a silence the level may be another: running means begin anew as plain means
    state["means"] = means + np.maximum(_GAINS, 1.0 / resumed[:, None]) * (followed[:, None] - means)
    due = np.flatnonzero(state["bucket"] % SOLVE_EVERY == 0)
    if len(due):
        gram = state["gram"][due].astype(np.float64)
        weights = np.linalg.solve(gram, state["cross"][due][..., None])[..., 0]
        state["weights"][due] = weights
        state["signature"][due] = 1.0 - (_RESPONSE * weights[:, None, :]).sum(2)


_EYE = np.eye(_FEATURES)


def follow(state: State, score: Floats, calm: Bools) -> None:
    """Let the local level (the last 40 minutes or so) follow calm buckets."""
    seen = np.minimum(state["local_buckets"] + calm, LOCAL_BUCKETS)
    state["local_buckets"] = seen
    state["local"] += calm * (score - state["local"]) / np.maximum(seen, 1.0)


def estimate(state: State, row: int, sign: float) -> float:
    """Return the most likely size, in logits, of the fall (`sign` -1) or rise (+1) in one row."""
    power = np.maximum(state["power"][row].astype(np.float64), 1e-9)
    pull = np.maximum(sign * state["pull"][row], 0.0)
    best = int((pull * pull / power * (state["age"][row] >= 0)).argmax())
    return float(sign * pull[best] / power[best])


def span(state: State, row: int, sign: float) -> tuple[float, float]:
    """Return between which times (unix seconds) a fall (`sign` -1) or rise (+1) of one row may have begun."""
    power = np.maximum(state["power"][row].astype(np.float64), 1e-9)
    pull = np.maximum(sign * state["pull"][row], 0.0)
    nats = pull * pull / (2.0 * power) * (state["age"][row] >= 0)
    likely = state["born_at"][row][nats >= nats.max() - SPAN_NATS]
    return float(state["epoch"][row] + likely.min()), float(state["epoch"][row] + likely.max())
