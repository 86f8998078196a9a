"""Whether specmon finds the same while everything goes wrong: `make chaos` (minutes; CI runs a short one).

Two monitors look at 50 engines, of which some collapse and some of these recover. One works in peace. The other
gets a fault for a quarter of its pages, and is ended, killed, stopped, and deprived of disk, descriptors, store
and receiver in turn. Both must have raised, dated and told the same.

    python -m tests.chaos [--seed 1] [--engines 50] [--seconds 120]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.chaos import running


def main() -> int:
    """Run and say what differed; 1 where something did."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engines", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(
            running.run(
                Path(folder), kind="collapse", seed=given.seed, engines=given.engines, seconds=given.seconds
            )
        )
    print("gone wrong:", ", ".join(f"{name} {times}" for name, times in sorted(found.faults.items())))
    print(f"events: {len(found.clean)} in peace, {len(found.troubled)} in trouble; {len(found.told)} posts")
    print("ends took:", ", ".join(f"{seconds:.2f}" for seconds in found.ends), "s")
    said = running.complaints(found)
    print("\n".join(said) or "both found the same")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
