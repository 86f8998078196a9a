"""The pages in a real browser: the policy holds, the style sheet applies, nothing is wider than the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from tests.web import chromium
from tests.web.fleet_of_five import COLLAPSED_ID
from tests.web.serving import client

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    chromium.COMMAND is None, reason="no Chromium is installed (Debian package chromium)"
)

PATHS = (
    "/",
    "/report",
    f"/report/{quote(COLLAPSED_ID, safe='')}",
    "/report/events/c0ffee1234",
    "/targets",
    "/config",
)
STROKE = "getComputedStyle(document.querySelector('svg .line')).stroke"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def test_pages_in_a_browser(tmp_path: Path) -> None:
    """On a telephone and on a screen no page is too wide, and the browser has nothing to complain about."""
    async with client() as session, chromium.tab(tmp_path) as tab:
        for path in PATHS:
            for width in (390, 1280):
                await tab.show(str(session.make_url(path)), width)
                assert (await tab.value(TOO_WIDE), await tab.value("innerWidth")) == (0, width), path
                assert await tab.value("document.styleSheets.length") == 1
                assert await tab.value("document.scripts.length") == 0
        assert tab.complaints == []


async def test_dark_mode_and_charts(tmp_path: Path) -> None:
    """Charts take their colours from the style sheet, others in the dark, and their links can be followed."""
    async with client() as session, chromium.tab(tmp_path) as tab:
        url = str(session.make_url(f"/report/{quote(COLLAPSED_ID, safe='')}"))
        await tab.show(url, 1280)
        light = await tab.value(STROKE)
        background = await tab.value("getComputedStyle(document.body).backgroundColor")
        assert light == "rgb(11, 83, 148)"
        link = "document.querySelector('svg a:last-of-type').getAttribute('href')"
        assert await tab.value(link) == "/report/events/c0ffee1234"
        await tab.show(url, 1280, dark=True)
        assert await tab.value(STROKE) != light
        assert await tab.value("getComputedStyle(document.body).backgroundColor") != background
