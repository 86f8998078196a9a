"""Which of several monitors watches a target: the same answer in each of them, from the target's name alone.

Each shard scores each name, and the highest score has it (rendezvous hashing). With one shard more, only the
targets that the new one takes over change hands, and only those have to be learnt anew.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.metrics import textformat
from monitor.settings import prometheus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.metrics.textformat import Family

_POD = re.compile(r".*-(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `total` monitors, counted from 0."""

    ordinal: int = 0
    total: int = 1

    def owns(self, target: str) -> bool:
        """Return whether the target of this name is this shard's."""
        return self.total == 1 or owner(target, self.total) == self.ordinal

    def families(self) -> Iterator[Family]:
        """Yield which shard this is; nothing where there is only one."""
        if self.total == 1:
            return
        help_text = "Which of the shards this monitor is, counted from 0."
        yield textformat.single("specmon_shard_ordinal", "gauge", help_text, self.ordinal)
        help_text = "How many shards there are by the settings of this monitor."
        yield textformat.single("specmon_shard_total", "gauge", help_text, self.total)


def owner(target: str, total: int) -> int:
    """Return the ordinal of the shard that watches the target of this name."""
    scores = [hashlib.blake2b(f"{shard}/{target}".encode(), digest_size=8).digest() for shard in range(total)]
    return scores.index(max(scores))


def told(ordinal: str, total: int, host: str) -> Shard:
    """Return the shard that the settings tell; `auto` reads the number at the end of `host`, a pod's name.

    Raises ValueError where there is no such shard.
    """
    if total == 1:
        return Shard()
    if ordinal == prometheus.AUTO:
        found = _POD.fullmatch(host)
        if found is None:
            raise ValueError(
                f"read the host name {host!r}, expected one such as specmon-0, or shards.ordinal set"
            )
        ordinal = found[1]
    if int(ordinal) >= total:
        raise ValueError(f"read the ordinal {ordinal} of {total} shards, expected 0 to {total - 1}")
    return Shard(int(ordinal), total)
