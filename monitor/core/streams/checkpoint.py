"""The pipeline's state as named blobs of bytes, and back: a restart goes on where the last save stood.

Tables are saved with the names and types of their fields. What another version of specmon saved in other
fields is refused, and the caller begins anew; the store keeps the events either way.
"""

from __future__ import annotations

import dataclasses
import json
import math
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import detectors, fleet, streams, tables
from monitor.core.counts import deltas, windows
from monitor.core.detectors.base import Level
from monitor.core.economics import fits
from monitor.core.economics.verdicts import Blocks, ReleaseVerdict
from monitor.core.events import Cost, Event, Opening, Past
from monitor.core.events.attribution import Cause
from monitor.core.events.attribution.signs import Mark
from monitor.core.pages.scrapes import StreamKey
from monitor.core.streams import STATUS, TABLES, Identity, State, TargetState, reference_files
from monitor.core.streams.groups import Groups
from monitor.core.streams.model_references import References
from monitor.core.streams.outsets import Outset
from monitor.core.streams.releases import Comparison, Releases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.core.streams.plans import Plan

VERSION = 1


class UnusableStateError(Exception):
    """The saved state cannot be continued; the message says what was read and what was expected."""


def freeze(state: State) -> dict[str, bytes]:
    """Return the state as blobs by name."""
    blobs = {name: tables.to_bytes(getattr(state, name)) for name in TABLES}
    words = {
        "version": VERSION,
        "windows": list(state.window_seconds),
        "num_positions": state.num_positions,
        "streams": [_identity_to_json(identity) for identity in state.identities],
        "targets": {name: _target_to_json(target) for name, target in state.targets.items()},
        "groups": list(state.groups.numbers),
        "references": [reference_files.as_json(each) for each in state.references.known.values()],
        "lessons": [reference_files.as_json(each) for each in state.references.lessons],
        "group_events": {number: event_to_json(event) for number, event in state.groups.open.items()},
        "releases": _releases_to_json(state.groups.releases),
    }
    blobs["release_streams"] = tables.to_bytes(state.groups.releases.streams)
    blobs["release_groups"] = tables.to_bytes(state.groups.releases.groups)
    blobs["fleet_streams"] = tables.to_bytes(state.groups.fleet.streams)
    blobs["fleet_groups"] = tables.to_bytes(state.groups.fleet.groups)
    blobs["words"] = json.dumps(words).encode()
    return blobs


def thaw(plan: Plan, blobs: Mapping[str, bytes]) -> State:
    """Return the state that `freeze` saved. Raises UnusableStateError where it cannot be continued."""
    try:
        words = json.loads(blobs["words"])
        found = (words["version"], tuple(words["windows"]))
        if found != (VERSION, plan.windows):
            raise UnusableStateError(
                f"saved with version and windows {found}, expected {(VERSION, plan.windows)}"
            )
        state = State(plan.detection, plan.windows)
        state.num_positions = words["num_positions"]
        dtypes = {
            "ledger": deltas.dtype(state.num_positions),
            "sums": windows.dtype(len(plan.windows), state.num_positions),
            "watch": detectors.allocate(plan.detection, 0).dtype,
            "status": STATUS,
            "step_times": fits.DTYPE,
        }
        for name, dtype in dtypes.items():
            setattr(state, name, tables.from_bytes(blobs[name], dtype))
        state.groups = _groups(words["groups"], words["group_events"], blobs)
        state.references = _references(words)
        state.targets = {name: _target_from_json(target) for name, target in words["targets"].items()}
        state.identities = [_identity_from_json(identity) for identity in words["streams"]]
        _join(state)
        state.groups.releases = _releases(words, blobs, state.groups)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UnusableStateError(f"the saved state is damaged: {error}") from error
    return state


def _join(state: State) -> None:
    """Find each row's place in its target and its group; ValueError where the parts do not fit together."""
    lengths = {len(getattr(state, name)) for name in TABLES} | {len(state.identities)}
    if len(lengths) > 1:
        raise ValueError(f"its parts have {sorted(lengths)} rows, expected as many each")
    state.noted = streams.unnoted(len(state.identities))
    numbers = state.groups.numbers
    state.groups.group_of_row = np.array(
        [numbers[identity.key.model_name] for identity in state.identities], np.int64
    )
    for row, identity in enumerate(state.identities):
        state.rows[identity.key] = row
        state.targets[identity.key.target].rows.add(row)


def _groups(
    names: list[str], saved: Mapping[str, Mapping[str, object]], blobs: Mapping[str, bytes]
) -> Groups:
    fresh = fleet.allocate(0, 0)
    return Groups(
        fleet=fleet.Fleet(
            tables.from_bytes(blobs["fleet_streams"], fresh.streams.dtype),
            tables.from_bytes(blobs["fleet_groups"], fresh.groups.dtype),
        ),
        numbers={name: number for number, name in enumerate(names)},
        open={int(number): event_from_json(event) for number, event in saved.items()},
    )


def _releases_to_json(releases: Releases) -> dict[str, object]:
    return {
        "serial": releases.serial,
        "current": list(releases.current.items()),
        "comparisons": [[each, dataclasses.asdict(made)] for each, made in releases.comparisons.items()],
        "held": [[each, dataclasses.asdict(made)] for each, made in releases.held.items()],
    }


def _releases(words: Mapping[str, object], blobs: Mapping[str, bytes], groups: Groups) -> Releases:
    """Return what was saved of releases; a state from before there were any has none to go on with."""
    fresh = Releases()
    fresh.add(len(groups.group_of_row), len(groups.numbers))
    saved = words.get("releases")
    if saved is None:
        return fresh
    streams = tables.from_bytes(blobs["release_streams"], fresh.streams.dtype)
    numbers = tables.from_bytes(blobs["release_groups"], fresh.groups.dtype)
    if (len(streams), len(numbers)) != (len(fresh.streams), len(fresh.groups)):
        raise ValueError(f"releases of {len(streams)} streams, expected {len(fresh.streams)}")
    fields = dict(saved)  # type: ignore[call-overload]
    fields["current"] = dict(fields["current"])
    for name in ("comparisons", "held"):
        fields[name] = {number: _comparison_from_json(made) for number, made in fields[name]}
    return Releases(streams, numbers, **fields)


def _comparison_from_json(saved: Mapping[str, object]) -> Comparison:
    fields = dict(saved)
    for name in ("beside", "edge"):
        seen = dict(fields[name])  # type: ignore[call-overload]
        fields[name] = Blocks(**seen | {"blocks": tuple((weight, pull) for weight, pull in seen["blocks"])})
    fields["changes"] = [(name, text) for name, text in fields["changes"]]  # type: ignore[attr-defined]
    replicas = fields["replicas"].items()  # type: ignore[attr-defined]
    fields["replicas"] = {each: tuple(seen) for each, seen in replicas}
    fields["event"] = event_from_json(fields["event"]) if fields["event"] else None  # type: ignore[arg-type]
    return Comparison(**fields)  # type: ignore[arg-type]


def _references(words: Mapping[str, list[dict[str, object]]]) -> References:
    known = [reference_files.from_json(saved) for saved in words["references"]]
    lessons = [reference_files.from_json(saved) for saved in words["lessons"]]
    return References({each.key: each for each in known}, lessons)


def _identity_to_json(identity: Identity) -> dict[str, object]:
    return {
        "key": [identity.key.target, identity.key.model_name, identity.key.replica],
        "id": identity.id,
        "engine": identity.engine,
        "engine_version": identity.engine_version,
        "num_speculative_tokens": identity.num_speculative_tokens,
        "config": identity.config,
        "facts": identity.facts,
        "regimes": identity.regimes,
        "marks": [dataclasses.astuple(mark) for mark in identity.marks],
        "event": event_to_json(identity.event) if identity.event else None,
        "doubt": event_to_json(identity.doubt) if identity.doubt else None,
        "note": event_to_json(identity.note) if identity.note else None,
        "noted": list(identity.noted),
        "outset": dataclasses.asdict(identity.outset) if identity.outset else None,
        "net_loss": event_to_json(identity.net_loss) if identity.net_loss else None,
        "losing": identity.losing,
        "shortfall": event_to_json(identity.shortfall) if identity.shortfall else None,
        "short_windows": identity.short_windows,
        "plain": identity.plain,
        "contradiction": identity.contradiction,
        "ended": identity.ended,
        "change_counts": list(identity.change_counts.items()),
        "last_change_at": identity.last_change_at,
        "begun": bool(identity.seen),
    }


def _identity_from_json(saved: dict[str, object]) -> Identity:
    fields = dict(saved)
    fields["key"] = StreamKey(*fields["key"])  # type: ignore[misc]
    fields["marks"] = [Mark(*mark) for mark in fields["marks"]]  # type: ignore[attr-defined]
    fields["plain"] = tuple((span, tuple(sums)) for span, sums in fields.get("plain", ()))  # type: ignore[attr-defined]
    fields["noted"] = tuple(fields.get("noted", (math.nan,) * 3))  # type: ignore[arg-type]
    for name in ("event", "doubt", "note", "net_loss", "shortfall"):
        fields[name] = event_from_json(fields[name]) if fields.get(name) else None  # type: ignore[arg-type]
    # In older files the direction, which the kind tells, stands between the two.
    fields["change_counts"] = {kind: times for kind, *_, times in fields["change_counts"]}  # type: ignore[attr-defined]
    outset = dict(fields.get("outset") or {})  # type: ignore[call-overload]
    fields["outset"] = Outset(**outset | {"counted": tuple(outset["counted"])}) if outset else None
    fields["seen"] = ("restored",) if fields.pop("begun") else ()
    return Identity(**fields)  # type: ignore[arg-type]


def _target_to_json(target: TargetState) -> dict[str, object]:
    return {
        "scrapes": target.scrapes,
        "failures": target.failures,
        "last_at": target.last_at,
        "good_at": target.good_at,
        "problems": target.problems,
        "dropped": target.dropped,
        "gone_at": target.gone_at,
        "left": target.left,
    }


def _target_from_json(saved: dict[str, object]) -> TargetState:
    return TargetState(**saved)  # type: ignore[arg-type]


def event_to_json(event: Event) -> dict[str, object]:
    """Return an event with every digit, for `event_from_json`; people get `event_records.as_json`."""
    return dataclasses.asdict(event)


def event_from_json(saved: Mapping[str, object]) -> Event:
    """Return the event that `event_to_json` saved."""
    fields = dict(saved)
    fields["key"] = StreamKey(**fields["key"]) if fields["key"] else None  # type: ignore[arg-type]
    fields |= _told(fields) | {"before": _level(fields["before"])}
    fields.setdefault("present_at", fields["raised_at"])
    if fields.get("at_opening") is not None:
        fields["at_opening"] = Opening(**_told(fields["at_opening"]))  # type: ignore[arg-type]
    fields["past"] = Past(**fields.get("past") or {})  # type: ignore[arg-type]
    verdict = fields.get("verdict")
    fields["verdict"] = ReleaseVerdict(**verdict) if verdict else None  # type: ignore[arg-type]
    for name in ("positions", "facts", "streams"):
        fields[name] = tuple(fields[name])  # type: ignore[arg-type]
    return Event(**fields)  # type: ignore[arg-type]


def _told(saved: Mapping[str, object]) -> dict[str, object]:
    """Return what changes while an event is open."""
    return {
        "after": _level(saved["after"]),
        "cost": _saved_cost(saved["cost"]),
        "causes": tuple(Cause(**cause) for cause in saved["causes"]),  # type: ignore[attr-defined]
    }


def _saved_cost(saved: object) -> Cost:
    cost = dict(saved)  # type: ignore[call-overload]
    shares = tuple((name, share) for name, share in cost.get("tpot_log_shares", ()))
    return Cost(**cost | {"tpot_log_shares": shares})


def _level(saved: object) -> Level:
    level = dict(saved)  # type: ignore[call-overload]
    return Level(**level | {"conditional": tuple(level["conditional"])})
