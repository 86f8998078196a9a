"""A few seconds of `make soak`: targets and labels that come and go leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import soak

if TYPE_CHECKING:
    from pathlib import Path


async def test_what_comes_and_goes_leaves_nothing_behind(tmp_path: Path) -> None:
    """Open files, store and the streams that are judged stay within their limits."""
    before, after = await soak.soak(1500, tmp_path)
    assert min(before.streams, after.streams) > soak.TARGETS
    assert max(before.streams, after.streams) <= soak.MOST_STREAMS
    assert after.store > 0
    # Caches find their size meanwhile: `make soak` allows a twentieth.
    assert soak.complaints(before, after, most_growth=0.5) == []
