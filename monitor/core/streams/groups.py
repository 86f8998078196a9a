"""Which streams serve one model: the groups that are compared, their numbers and their open events.

Streams with one model name on at least three targets or replicas are compared (`fleet`). The state of a
group is a row of the fleet's table; its name and its open event stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import fleet
from monitor.core.streams.releases import Releases

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from monitor.core.events import Event


@dataclass(slots=True)
class Groups:
    """Groups of streams: `numbers` by model name, `group_of_row` by stream row, `open` their open events.

    `releases` are compared within them.
    """

    fleet: fleet.Fleet = field(default_factory=lambda: fleet.allocate(0, 0))
    numbers: dict[str, int] = field(default_factory=dict)
    group_of_row: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    open: dict[int, Event] = field(default_factory=dict)
    releases: Releases = field(default_factory=Releases)

    def add(self, model_names: Sequence[str]) -> None:
        """Append rows for new streams."""
        before = len(self.numbers)
        for name in model_names:
            self.numbers.setdefault(name, len(self.numbers))
        fresh = fleet.allocate(len(model_names), len(self.numbers) - before)
        self.fleet.streams = np.concatenate((self.fleet.streams, fresh.streams))
        self.fleet.groups = np.concatenate((self.fleet.groups, fresh.groups))
        self.releases.add(len(model_names), len(self.numbers) - before)
        self.group_of_row = np.concatenate((self.group_of_row, [self.numbers[name] for name in model_names]))

    def keep(self, rows: npt.NDArray[np.intp]) -> None:
        """Keep these rows of streams, and the groups that they or an open event belong to, numbered anew."""
        group_of_row = self.group_of_row[rows]
        held = np.unique(
            np.array(
                [*group_of_row.tolist(), *self.open, *self.releases.comparisons, *self.releases.held],
                np.int64,
            )
        )
        numbers = {before: number for number, before in enumerate(held.tolist())}
        self.releases.keep(rows, numbers)
        self.fleet.streams, self.fleet.groups = self.fleet.streams[rows], self.fleet.groups[held]
        group = self.fleet.streams["group"]
        self.fleet.streams["group"] = np.where(group >= 0, np.searchsorted(held, group), group)
        self.numbers = {name: numbers[before] for name, before in self.numbers.items() if before in numbers}
        self.group_of_row = np.searchsorted(held, group_of_row)
        seen = self.fleet.streams["group"] != fleet.SKIPPED
        self.fleet.streams["group"] = np.where(seen, self.group_of_row, fleet.SKIPPED)
        self.open = {numbers[before]: event for before, event in self.open.items()}
