"""Two ranges of a real Prometheus are compared, each side with its own times and selector."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from monitor.service import commands
from tests import captures
from tests.sources import scraped
from tests.test_commands import specmon

if TYPE_CHECKING:
    from pathlib import Path


def test_two_ranges_are_compared(tmp_path: Path) -> None:
    """Both halves of a run have all of its drafts; a selector that fits nothing leaves no stream."""
    pages = scraped.on_grid(captures.scrapes(captures.THINNED, "draftchange"), time.time() - 60)
    with scraped.prometheus(tmp_path, pages, scraped.POD) as server:
        source = (f"http://127.0.0.1:{server.port}",) * 2
        middle = pages[len(pages) // 4].at
        times = ["--start", f"{pages[0].at:.0f}", "--end", f"{middle:.0f}", "--step", "10s", "--json"]
        later = ["--candidate-start", f"{middle:.0f}", "--candidate-end", f"{pages[-1].at:.0f}"]
        done = specmon("compare", *source, *times, *later, "--baseline-selector", 'job=~"llm/.*"')
        whole = specmon("replay", source[0], *times[:2], "--end", later[-1], *times[4:])
        none = specmon("compare", *source, *times, "--candidate-selector", 'job="other"')
    assert (done.returncode, done.stderr) == (commands.UNDECIDED, "")
    found, expected = json.loads(done.stdout), json.loads(whole.stdout.splitlines()[-1])
    drafts = [side[0]["drafts"] for side in (found["baseline"], found["candidate"])]
    assert sum(drafts) == expected["drafts"]
    assert min(drafts) > 0
    assert (none.returncode, "read no stream" in none.stderr) == (commands.UNUSABLE, True)
