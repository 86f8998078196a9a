"""State as data: numpy structured arrays with one row per stream.

A step takes the rows that have news as one compact copy, works on its fields and puts it back. Rows
never influence each other, so it does not matter how scrapes are batched.
"""

from __future__ import annotations

import io
from tokenize import TokenError
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


# What numpy raises at damaged bytes: it takes them for other kinds of its files, or for Python.
_NO_TABLE = (ValueError, EOFError, SyntaxError, OverflowError, MemoryError, BadZipFile, TokenError)


def grow(table: npt.NDArray[np.void], fresh: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Return `table` with the rows of `fresh` appended."""
    return np.concatenate((table, fresh))


def take(table: npt.NDArray[np.void], rows: npt.NDArray[np.intp]) -> npt.NDArray[np.void]:
    """Return the rows to work on: a single one as it stands, several as a copy that `put` writes back.

    Rows are moved as plain bytes: numpy copies a record with fields within fields twenty times slower.
    """
    if len(rows) == 1:
        return table[rows[0] : rows[0] + 1]
    return keep(table, rows)


def keep(table: npt.NDArray[np.void], rows: npt.NDArray[np.intp]) -> npt.NDArray[np.void]:
    """Return a table of these rows alone; it shares nothing with `table`."""
    return table.view((np.void, table.dtype.itemsize))[rows].view(table.dtype)


def put(table: npt.NDArray[np.void], rows: npt.NDArray[np.intp], part: npt.NDArray[np.void]) -> None:
    """Write back what `take` returned for the same `rows`."""
    if len(rows) > 1:
        table.view((np.void, table.dtype.itemsize))[rows] = part.view((np.void, table.dtype.itemsize))


def to_bytes(table: npt.NDArray[np.void]) -> bytes:
    """Return a table as bytes that `from_bytes` reads; the fields' names and types are part of them."""
    buffer = io.BytesIO()
    np.save(buffer, table, allow_pickle=False)
    return buffer.getvalue()


def from_bytes(data: bytes, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Return the table in `data`; ValueError where its fields are not those of `dtype`."""
    try:
        table: npt.NDArray[np.void] = np.load(io.BytesIO(data), allow_pickle=False)
    except _NO_TABLE as error:
        msg = f"the saved state has a table that cannot be read ({error})"
        raise ValueError(msg) from error
    if getattr(table, "dtype", None) != dtype or table.ndim != 1:
        msg = f"the saved state has the fields {table.dtype.names}, expected {dtype.names}"
        raise ValueError(msg)
    return table


def widen(table: npt.NDArray[np.void], dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Return `table` with fields whose last axis is longer, the rest of them zero."""
    wide = np.zeros(len(table), dtype)
    for name in dtype.names or ():
        field = table[name]
        wide[name][..., : field.shape[-1]] = field
    return wide
