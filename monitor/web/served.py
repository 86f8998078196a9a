"""What streams of one model run side by side: each engine version, method, draft and k with its level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import fields, levels, states

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from monitor.web.fields import Record
    from monitor.web.view import StreamView, View

_MOST_EVENTS = 200


@dataclass(frozen=True, slots=True)
class Served:
    """What some streams run, "" and 0 where it is not said, and how they do; None where unknown.

    `event` is the newest event that compares one of them with what ran before, as it says `verdict`.
    """

    engine: str
    engine_version: str
    method: str
    draft_model: str
    num_speculative_tokens: int
    streams: Sequence[str]
    counts: Mapping[str, int]
    mal: float | None
    mal_low: float | None
    mal_high: float | None
    reference_mal: float | None
    event: str
    verdict: Record | None

    @property
    def words(self) -> str:
        """Its name for people."""
        parts = [f"{self.engine} {self.engine_version}".strip(), self.method, self.draft_model]
        if self.num_speculative_tokens:
            parts.append(f"k = {self.num_speculative_tokens}")
        return ", ".join(filter(None, parts)) or "not said"


def of(streams: Iterable[StreamView], compared: Sequence[Record], now: float) -> list[Served]:
    """Return what runs, most streams first; `compared` are events with a verdict, newest first."""
    groups: dict[tuple[str, str, str, str, int], list[StreamView]] = {}
    for each in streams:
        key = each.engine, each.engine_version, each.method, each.draft_model, each.num_speculative_tokens
        groups.setdefault(key, []).append(each)
    ordered = sorted(groups.items(), key=lambda pair: -len(pair[1]))
    return [_served(key, group, compared, now) for key, group in ordered]


def compared(view: View, model_name: str) -> list[Record]:
    """Return the latest events of a model that say what a release or a new regime did, newest first."""
    found = view.events(model_name=model_name, limit=_MOST_EVENTS)
    return [event for event in found if fields.record(event, "verdict")]


def advised(view: View, streams: Iterable[StreamView]) -> tuple[StreamView, Record]:
    """Return the stream with the most drafts, and the advice for it."""
    best = max(streams, key=lambda each: fields.number(each.estimate, "drafts") or 0)
    return best, view.advice(best.id)


def _served(
    key: tuple[str, str, str, str, int], group: Sequence[StreamView], compared: Sequence[Record], now: float
) -> Served:
    level = levels.of(group, now)
    ids = [each.id for each in group]
    event = next((each for each in compared if not set(ids).isdisjoint(_subjects(each))), {})
    return Served(
        *key,
        streams=ids,
        counts=states.counts(group),
        mal=level.mal,
        mal_low=level.low,
        mal_high=level.high,
        reference_mal=level.reference,
        event=fields.text(event, "id"),
        verdict=fields.record(event, "verdict") or None,
    )


def _subjects(event: Record) -> list[str]:
    return [*fields.texts(event, "streams"), fields.text(event, "stream")]
