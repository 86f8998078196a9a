"""Rows of the state are numbered anew as a whole: whatever is indexed by a stream's row follows."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from monitor.core import pipeline
from monitor.core.pages.scrapes import StreamKey
from monitor.core.streams import State, history
from monitor.core.vocabulary import STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

NUM_STREAMS = 37  # a length that no other axis has
KEPT = np.array([0, 1, 5, 6, 20, 36])
MODELS = 3


def filled() -> State:
    """A state of so many streams of three models, every array that has a row for each filled with its row's number."""
    state = pipeline.begin(pipeline.Plan())
    state.add([StreamKey(f"t{row}", f"m{row % MODELS}", "0") for row in range(NUM_STREAMS)])
    history.Recorder().take(state, STATES, 0.0)
    for array in dict(by_row(state, NUM_STREAMS)).values():
        array.view(np.uint8).reshape(NUM_STREAMS, -1)[:] = np.arange(1, NUM_STREAMS + 1)[:, None]
    state.groups.group_of_row = np.arange(NUM_STREAMS) % MODELS
    state.groups.fleet.streams["group"] = state.groups.group_of_row
    return state


def by_row(part: object, length: int, path: str = "state") -> Iterator[tuple[str, Array]]:
    """Every array of that length in a part of the state, however deep, by where it is."""
    if isinstance(part, np.ndarray):
        if part.ndim and len(part) == length:
            yield path, part
    elif isinstance(part, dict):
        for name, each in part.items():
            yield from by_row(each, length, f"{path}[{name!r}]")
    elif isinstance(part, list | tuple):
        for place, each in enumerate(part):
            yield from by_row(each, length, f"{path}[{place}]")
    elif dataclasses.is_dataclass(part) or isinstance(part, State):
        names = (
            [field.name for field in dataclasses.fields(part)]
            if dataclasses.is_dataclass(part)
            else vars(part)
        )
        for name in names:
            yield from by_row(getattr(part, name), length, f"{path}.{name}")


def test_every_array_follows() -> None:
    """Of each array with a row for every stream the kept rows are left, as they were, in their order."""
    state = filled()
    before = {path: array[KEPT].tobytes() for path, array in by_row(state, NUM_STREAMS)}
    state.keep(KEPT)
    assert dict(by_row(state, NUM_STREAMS)) == {}
    after = {path: array.tobytes() for path, array in by_row(state, len(KEPT))}
    assert {path for path in before if before[path] != after.get(path)} == set()
    assert len(before) >= 10


def test_every_name_follows() -> None:
    """Streams, targets and groups are found under their new numbers; a group that has no stream left is gone."""
    state = filled()
    few = np.array([1, 2, 4, 5])  # none of m0
    keys = [state.identities[row].key for row in few.tolist()]
    state.keep(few)
    assert [identity.key for identity in state.identities] == keys
    assert state.rows == {key: row for row, key in enumerate(keys)}
    assert {name: target.rows for name, target in state.targets.items() if target.rows} == {
        key.target: {row} for row, key in enumerate(keys)
    }
    names = {number: name for name, number in state.groups.numbers.items()}
    assert [names[number] for number in state.groups.group_of_row.tolist()] == [
        key.model_name for key in keys
    ]
    assert state.groups.fleet.streams["group"].tolist() == state.groups.group_of_row.tolist()
    assert len(state.groups.fleet.groups) == len(state.groups.releases.groups) == len(names) == MODELS - 1
