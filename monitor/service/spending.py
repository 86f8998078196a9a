"""What open changes cost at present, for the pages and for `/metrics`: by stream, by event and by model."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from monitor import metrics
from monitor.core import events
from monitor.core.economics import accounting
from monitor.core.events import Cost, event_records
from monitor.core.streams import losses

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from monitor.core.events import Event
    from monitor.core.pipeline import Plan
    from monitor.core.streams import State
    from monitor.core.streams.losses import Losses

    Rows = npt.NDArray[np.intp]

PRESENT = (*(name for name in Cost.__slots__ if not name.endswith("_ratio")), "busy_ratio")
"""The fields of a cost that are measured at present; the ratios are those of the event."""


class Spending:
    """What the open changes of all streams cost now; the state's lock is held while it is made."""

    def __init__(self, plan: Plan, state: State) -> None:
        self._state = state
        self._rows = losses.open_rows(state, np.arange(len(state.identities)))
        self._found = losses.of_rows(plan, state, self._rows) if len(self._rows) else None

    def of_row(self, row: int) -> Mapping[str, object] | None:
        """What a stream's open change costs, as in its event's JSON; None where none is open."""
        return self._by_row.get(row)

    def of_streams(self, streams: Iterable[str], *, shared: bool = True) -> Mapping[str, object] | None:
        """What the open changes of some streams cost together; None where none of them has one."""
        cost = self._together(Cost(), streams, shared=shared)
        return None if cost is None else _record(cost)

    def at_present(self, event: Event) -> Event:
        """The event, an open one with what it costs now in place of what was told last."""
        if event.status != "open" or event.kind not in events.COSTLY:
            return event
        fleet = event.scope == "fleet"
        cost = self._together(event.cost, event.streams if fleet else (str(event.stream),), shared=fleet)
        return event if cost is None else replace(event, cost=cost)

    def table(self, rows: Rows) -> metrics.LossTable | None:
        """The columns of `/metrics` for these rows; None where no change is open."""
        places = {row: n for n, row in enumerate(self._rows.tolist())}
        if self._found is None or not places.keys() & set(rows.tolist()):
            return None
        place = np.array([places.get(row, -1) for row in rows.tolist()])
        found = self._found

        def column(values: Sequence[float] | npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
            found_at: npt.NDArray[np.float64] = np.append(np.asarray(values, float), np.nan)[place]
            return found_at

        now, so_far = found.now, found.so_far
        return metrics.LossTable(
            tokens_per_second=column([each.tokens_per_second for each in now]),
            gpu_seconds_per_million_tokens=column([each.gpu_seconds_per_million_tokens for each in now]),
            gpu_hours_per_day=column([each.gpu_hours_per_day for each in now]),
            money_per_day=column([each.money_per_day for each in now]),
            tokens=column([each.tokens for each in so_far]),
            gpu_hours=column([each.gpu_hours for each in so_far]),
            money=column([each.money for each in so_far]),
            tpot_log_shares={name: column(found.shares[name]) for name in accounting.NAMES},
        )

    def _together(self, cost: Cost, streams: Iterable[str], *, shared: bool) -> Cost | None:
        """Return a cost with what some streams lose now; None where none of them has an open change."""
        places = sorted(self._places[each] for each in streams if each in self._places)
        if not places or self._found is None:
            return None
        return losses.joined(cost, _part(self._found, places), shared=shared)

    @cached_property
    def _places(self) -> dict[str, int]:
        identities = self._state.identities
        return {identities[row].id: place for place, row in enumerate(self._rows.tolist())}

    @cached_property
    def _by_row(self) -> dict[int, Mapping[str, object]]:
        if self._found is None:
            return {}
        return {
            row: _record(losses.joined(Cost(), _part(self._found, [place]), shared=False))
            for place, row in enumerate(self._rows.tolist())
        }


def _part(lost: Losses, places: Sequence[int]) -> Losses:
    return losses.Losses(
        now=tuple(lost.now[n] for n in places),
        so_far=tuple(lost.so_far[n] for n in places),
        delivered=lost.delivered[list(places)],
        busy=lost.busy[list(places)],
        shares={name: values[list(places)] for name, values in lost.shares.items()},
    )


def _record(cost: Cost) -> dict[str, object]:
    whole = event_records.cost_as_json(cost)
    return {name: whole[name] for name in PRESENT}
