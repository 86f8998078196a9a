"""How often the word on two sides is wrong while nothing differs, and how soon it tells a real difference.

Pairs of replicas of one fleet are simulated as elsewhere and compared minute by minute, the second with a
shift of all its conditional acceptances or none, and looked at again and again.

    python -m tests.acceptbench.sides [--profile medium] [--hours 24] [--pairs 20] [--shift -0.2] [--every 15]
"""

from __future__ import annotations

import argparse
import itertools
from typing import TYPE_CHECKING

import numpy as np

from monitor.core.detectors import base
from monitor.core.streams import comparing
from tests.acceptbench import catalogue, counters, generate
from tests.acceptbench.scenarios import Change, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tests.acceptbench.scenarios import Stream

    Minutes = dict[int, npt.NDArray[np.float64]]

PROFILES = {"high": catalogue.HIGH, "medium": catalogue.MED, "low": catalogue.LOW}
FIRST_LOOK = 10
AT_ONCE = 1e-9  # hours into the run


def minutes(stream: Stream) -> Minutes:
    """Return the sums [19] of what a stream counted, by minute."""
    found: Minutes = {}
    seen = list(counters.cumulative(stream))
    for last, now in itertools.pairwise(seen):
        drafts = now.drafts - last.drafts
        if drafts <= 0:
            continue
        kept = [new - old for new, old in zip(now.accepted, last.accepted, strict=True)]
        sums = found.setdefault(int(now.at // 60.0), np.zeros(base.NUM_SUMS))
        sums[: len(kept)] += [drafts, *kept[:-1]]
        sums[base.POSITIONS : base.POSITIONS + len(kept)] += kept
        sums[base.DRAFTS : base.TOKENS + 1] += [drafts, sum(kept), now.draft_tokens - last.draft_tokens]
    return found


def words(sides: tuple[Minutes, Minutes], every: int) -> Iterator[tuple[int, str]]:
    """Yield minutes since the begin, and the word at that time."""
    times = sorted(sides[0].keys() | sides[1].keys())
    for end in range(FIRST_LOOK, len(times) + 1, every):
        recorded = []
        for side in sides:
            held = {minute: side[minute] for minute in times[:end] if minute in side}
            recorded.append(comparing.Recorded(minutes=held, replicas={"one": np.array(sum(held.values()))}))
        yield end, comparing.compared(recorded[0], recorded[1]).word


def simulated(name: str, pair: int, hours: float, shift: float, seed: int) -> tuple[Minutes, Minutes]:
    """Return what both sides of a pair counted."""
    made = []
    for side in range(2):
        moved = Change("shift", at_h=(AT_ONCE, 2 * AT_ONCE), shift=shift) if side and shift else None
        change = moved or Change("none", at_h=(AT_ONCE, 2 * AT_ONCE))
        scenario = Scenario("sides", PROFILES[name], change, hours=hours, reps=2 * pair + 2, fleet=2, hit=2)
        made.append(minutes(generate.simulate(scenario, 2 * pair + side, seed)))
    return made[0], made[1]


def main() -> None:
    """Print in how many pairs a difference was said at any look, when, and when none was said to be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--profile", choices=PROFILES, default="medium")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--shift", type=float, default=0.0, help="logits; -0.2 is a tenth of the MAL")
    parser.add_argument("--every", type=int, default=15, help="minutes from one look to the next")
    parser.add_argument("--seed", type=int, default=7117)
    asked = parser.parse_args()
    told, alike = list[int](), list[int]()
    for pair in range(asked.pairs):
        sides = simulated(asked.profile, pair, asked.hours, asked.shift, asked.seed)
        said = list(words(sides, asked.every))
        told += [at for at, word in said if word in ("better", "worse")][:1]
        alike += [at for at, word in said if word == "no_difference"][:1]
    middle = f", median minute {np.median(told):.0f}" if told else ""
    print(f"a difference in {len(told)} of {asked.pairs} pairs{middle}")
    middle = f", first at median minute {np.median(alike):.0f}" if alike else ""
    print(f"no difference in {len(alike)} of {asked.pairs} pairs{middle}")


if __name__ == "__main__":
    main()
