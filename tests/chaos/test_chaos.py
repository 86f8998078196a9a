"""A few seconds of `make chaos`: what is found, told and kept is the same while everything goes wrong."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from tests.chaos import faults, running

if TYPE_CHECKING:
    from pathlib import Path

SECONDS, ENGINES = 8.0, 10


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process can be set on Linux only")
async def test_the_same_is_found_while_everything_goes_wrong(tmp_path: Path) -> None:
    """Each fault once, every fourth page spoilt: no event is missed, false or doubled, each is told once."""
    found = await running.run(tmp_path, kind="dead_draft", seed=1, engines=ENGINES, seconds=SECONDS)
    assert running.complaints(found) == []
    assert sorted(event["status"] for event in found.clean) == ["closed", "closed", "open", "open"]
    assert found.faults.keys() & faults.PROCESS_FAULTS.keys() == faults.PROCESS_FAULTS.keys()
