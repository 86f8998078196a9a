"""State as data: numpy structured arrays with one row per stream.

A step takes the rows that have news as one compact copy, works on its fields and puts it back. Rows
never influence each other, so it does not matter how scrapes are batched.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

Table = "npt.NDArray[np.void]"


def grow(table: npt.NDArray[np.void], fresh: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return `table` with the rows of `fresh` appended."""
    return np.concatenate((table, fresh))


def to_bytes(table: npt.NDArray[np.void]) -> bytes:
    """Return a table as bytes that `from_bytes` reads; the fields' names and types are part of them."""
    buffer = io.BytesIO()
    np.save(buffer, table, allow_pickle=False)
    return buffer.getvalue()


def from_bytes(data: bytes, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Return the table in `data`; ValueError where its fields are not those of `dtype`."""
    table: npt.NDArray[np.void] = np.load(io.BytesIO(data), allow_pickle=False)
    if table.dtype != dtype:
        msg = f"the saved state has the fields {table.dtype.names}, expected {dtype.names}"
        raise ValueError(msg)
    return table


def widen(table: npt.NDArray[np.void], dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Return `table` with fields whose last axis is longer, the rest of them zero."""
    wide = np.zeros(len(table), dtype)
    for name in dtype.names or ():
        field = table[name]
        wide[name][..., : field.shape[-1]] = field if field.ndim > 1 else field
    return wide
