"""Changes that somebody told of: a rollout, a new draft, other traffic. Marks beside what pages show."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core.events.attribution.signs import Mark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from monitor.core.events.attribution.signs import MarkKind
    from monitor.core.pages.scrapes import StreamKey
    from monitor.core.streams import Identity, State
    from monitor.core.vocabulary import ChangeKind

MOST_CHANGES = 500
"""So many are looked at; older ones give way, and stay in the store."""

ROLLOUT_SECONDS = 3600.0
"""How long after a change is everywhere a process that begins is still taken to be of that rollout."""

RELEASED: Mapping[str, ChangeKind] = {
    "told draft": "draft",
    "told target model": "target_model",
    "told engine": "engine",
    "told config": "config",
}
"""What a told change adds to what tells a release, by its name there; other traffic is no release."""

MARK_OF: Mapping[ChangeKind, MarkKind] = {
    "draft": "told_draft",
    "target_model": "told_target_model",
    "engine": "told_engine",
    "config": "told_config",
    "traffic": "told_traffic",
}
"""What a told change is a mark of."""


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A change that began at `at` (unix seconds) and was everywhere `seconds` later, in its teller's words.

    `id` is the teller's own. Without a `model_name` it is of every model, without a `target` of every target.
    It was told at `told_at`, maybe long after.
    """

    id: str
    at: float
    kind: ChangeKind
    text: str
    seconds: float = 0.0
    model_name: str = ""
    target: str = ""
    told_at: float = 0.0


def tell(state: State, change: ToldChange) -> None:
    """Keep a change with the state, in order of time; one with the same id is replaced."""
    others = [each for each in state.told if each.id != change.id]
    state.told = sorted([*others, change], key=lambda each: (each.at, each.id))[-MOST_CHANGES:]


def from_record(record: Mapping[str, object]) -> ToldChange:
    """Return a change as the store keeps it; whatever else the record holds is left out."""
    names = [field.name for field in dataclasses.fields(ToldChange)]
    return ToldChange(**{name: record[name] for name in names})  # type: ignore[arg-type]


def as_record(change: ToldChange) -> dict[str, object]:
    """Return a change as the timeline has it."""
    return {**dataclasses.asdict(change), "source": "told", "stream": None}


def as_seen(identity: Identity, mark: Mark) -> dict[str, object]:
    """Return what a stream's pages showed as the timeline has it."""
    return {
        "source": "seen",
        "id": None,
        "at": mark.at,
        "kind": mark.kind,
        "text": mark.text,
        "seconds": mark.lasting,
        "model_name": identity.key.model_name,
        "target": identity.key.target,
        "stream": identity.id,
        "told_at": None,
    }


def timeline(state: State) -> list[dict[str, object]]:
    """Return what changed, newest first: what pages showed of each stream, and what somebody told of."""
    found = [as_record(change) for change in state.told]
    found += [as_seen(identity, mark) for identity in state.identities for mark in identity.marks]
    return sorted(found, key=lambda each: (-float(each["at"]), str(each["stream"]), str(each["text"])))  # type: ignore[arg-type]


def marks(changes: Sequence[ToldChange], key: StreamKey) -> tuple[Mark, ...]:
    """Return the marks of a stream among the changes, oldest first."""
    return tuple(_mark(change) for change in changes if concerns(change, key))


def concerns(change: ToldChange, key: StreamKey) -> bool:
    """Return whether a change is one of this stream."""
    return change.model_name in ("", key.model_name) and change.target in ("", key.target)


def released(changes: Sequence[ToldChange], key: StreamKey, now: float) -> dict[str, str]:
    """Return what was told of the release of a process of this stream that begins at `now`.

    Of each kind it is the newest change that had begun and was not over; nothing where none was under way.
    """
    newest = {
        change.kind: f"{change.id}: {change.text}"
        for change in changes
        if concerns(change, key) and 0.0 <= now - change.at <= change.seconds + ROLLOUT_SECONDS
    }
    return {name: newest[kind] for name, kind in RELEASED.items() if kind in newest}


def _mark(change: ToldChange) -> Mark:
    text = f"told change {change.id} ({change.kind.replace('_', ' ')}): {change.text}"
    return Mark(change.at, MARK_OF[change.kind], text, change.seconds)
