"""Named scenarios: those without a change measure false alarms, those with one how soon it is found."""

from __future__ import annotations

from dataclasses import replace

from tests.acceptbench.scenarios import Change, Profile, Scenario

HIGH = Profile()
STEADY = Profile(diurnal=0.0, load_amp=0.2, mix_sd=0.03)
STRONG = Profile(diurnal=0.40, mix_sd=0.10)
MED = Profile(slots=8, occupancy=0.6, load_burst=0.5, burst_shape=4.0)
LOW = Profile(slots=2, occupancy=0.30, load_burst=0.6, drafts_per_slot=150.0)
NIGHT = Profile(slots=8, occupancy=0.5, night=(0.0, 6.0), load_burst=0.4)
FAST = Profile(dt=2.0, slots=16, drafts_per_slot=40.0)
HUGE = Profile(slots=64, drafts_per_slot=8000.0, req_sd=0.35, mix_sd=0.05, occupancy=0.7)
K1 = Profile(k=1, cond=(0.80,), slots=16)
HEAVY = Profile(slots=24, occupancy=0.5, req_sd=0.8, life_sigma=1.6)
HEAVY_LOW = replace(LOW, req_sd=0.8, life_sigma=1.6)

PARTIAL = Change("shift", shift=-0.38)
"""MAL 3.4 → 2.9: a sixth of the tokens per step."""
SMALL = Change("shift", shift=-0.15)
"""MAL 3.4 → 3.2."""


def _messy(scenario: Scenario) -> Scenario:
    return replace(scenario, resets_per_day=4.0, gaps_per_day=6.0, dup_rate=0.02)


NULL = (
    Scenario("null-steady", STEADY, hours=72.0, reps=4),
    Scenario("null-diurnal", HIGH, hours=72.0, reps=6),
    Scenario("null-diurnal-strong", STRONG, hours=72.0, reps=5),
    Scenario("null-medium-bursty", MED, hours=72.0, reps=5),
    Scenario("null-low", LOW, hours=72.0, reps=6),
    Scenario("null-night-zero", NIGHT, hours=72.0, reps=4),
    Scenario("null-fast-2s", FAST, hours=24.0, reps=4),
    Scenario("null-huge", HUGE, hours=72.0, reps=3),
    _messy(Scenario("null-messy", HIGH, hours=72.0, reps=4)),
    Scenario("null-k1", K1, hours=72.0, reps=3),
)

HEAVY_TAILS = (  # requests much more unlike than a normal distribution has them
    Scenario("null-heavy", HEAVY, hours=72.0, reps=6),
    Scenario("null-heavy-low", HEAVY_LOW, hours=72.0, reps=6),
)

_COLLAPSE = Change("collapse")
_RAMP_8H = Change("ramp", shift=-0.50, ramp_h=8.0, at_h=(25.5, 26.5))
_LATE = Change("late", shift=-0.85, from_pos=4)
_LATE_SMALL = Change("late", shift=-0.35, from_pos=4)
CHANGE = tuple(
    scenario if scenario.expect == "up" else replace(scenario, expect="down")
    for scenario in (
        Scenario("collapse-high", HIGH, _COLLAPSE, horizon_h=1),
        Scenario("collapse-huge", HUGE, _COLLAPSE, horizon_h=1, reps=8),
        Scenario("collapse-medium", MED, _COLLAPSE, horizon_h=1),
        Scenario("collapse-low", LOW, _COLLAPSE, horizon_h=4),
        Scenario(
            "collapse-fast-2s", FAST, Change("collapse", at_h=(6.0, 7.0)), hours=9.0, reps=12, horizon_h=1
        ),
        _messy(Scenario("collapse-redeploy", HIGH, Change("collapse", reset=True), horizon_h=1)),
        Scenario("collapse-overnight", NIGHT, Change("collapse", at_h=(26.0, 28.0)), horizon_h=6),
        Scenario("collapse-cold-2h", HIGH, Change("collapse", at_h=(2.0, 2.5)), hours=6.0, horizon_h=2),
        Scenario("kchange-collapse", HIGH, Change("kchange", new_k=3, frac=-1), horizon_h=2),
        Scenario("partial-high", HIGH, PARTIAL, horizon_h=3),
        Scenario("partial-huge", HUGE, PARTIAL, horizon_h=3, reps=8),
        Scenario("partial-medium", MED, PARTIAL, horizon_h=4),
        Scenario("partial-low", LOW, PARTIAL, horizon_h=8),
        Scenario("small-high", HIGH, SMALL, horizon_h=6),
        Scenario("subset-30pct", HIGH, Change("subsetcollapse", frac=0.3), horizon_h=2),
        Scenario("blank-half", HIGH, Change("blank", frac=0.5), horizon_h=2),
        Scenario("blank-tenth", HIGH, Change("blank", frac=0.1), horizon_h=3),
        Scenario("late-high", HIGH, _LATE, horizon_h=4),
        Scenario("late-small-huge", HUGE, _LATE_SMALL, horizon_h=4, reps=8),
        Scenario("ramp-4h", HIGH, Change("ramp", shift=-0.65, ramp_h=4.0)),
        Scenario("ramp-8h", HIGH, _RAMP_8H, horizon_h=10, hours=37.0),
        Scenario("k1-partial", K1, Change("shift", shift=-0.75), horizon_h=3),
        Scenario("improve-high", HIGH, Change("shift", shift=+0.38), horizon_h=4, expect="up"),
    )
)

_TENANT = Change("tenant", shift=-0.7, frac=0.6, hours=0.75)
OTHER = (  # reported apart: a change of regime, and a tenant that passes
    Scenario("kchange-5to3", HIGH, Change("kchange", new_k=3), horizon_h=4, expect="regime"),
    Scenario("kchange-3to5", Profile(k=3), Change("kchange", new_k=5), horizon_h=4, expect="regime"),
    Scenario("tenant-45min", HIGH, _TENANT, horizon_h=2, expect="nuisance"),
)

FLEET = (  # replicas of one model behind one balancer: what moves everywhere is shared
    Scenario("fleet-null", HIGH, hours=48.0, reps=16, fleet=8),
    Scenario("fleet-one-partial", HIGH, PARTIAL, reps=32, fleet=8, horizon_h=3, expect="down"),
    Scenario("fleet-one-small", HIGH, SMALL, reps=32, fleet=8, horizon_h=6, expect="down"),
    Scenario("fleet-one-medium", MED, PARTIAL, reps=32, fleet=8, horizon_h=4, expect="down"),
    Scenario("fleet-all-partial", HIGH, PARTIAL, reps=32, fleet=8, hit=8, horizon_h=3, expect="down"),
)

GROUPS = {"null": NULL, "heavy": HEAVY_TAILS, "change": CHANGE, "other": OTHER, "fleet": FLEET}
ALL = {scenario.name: scenario for group in GROUPS.values() for scenario in group}


def named(words: str) -> list[Scenario]:
    """Return the scenarios of a comma list of groups and names; KeyError with the name that there is not."""
    found: list[Scenario] = []
    for word in words.split(","):
        found += GROUPS[word] if word in GROUPS else [ALL[word]]
    return found
