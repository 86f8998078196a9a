"""The pages in a real browser: sizes, light and dark, without scripts, with the keyboard, renewed in place."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.web import chromium, made_fleet
from tests.web.fleet_of_five import COLLAPSED_ID, Service
from tests.web.serving import client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(chromium.COMMAND is None, reason="no Chromium is installed (Debian package chromium)"),
]

STREAM = f"/report/{quote(COLLAPSED_ID, safe='')}"
PATHS = (
    "/",
    "/report",
    STREAM,
    f"/report/what-if?stream={STREAM.removeprefix('/report/')}",
    "/report/events/c0ffee1234",
    "/report/events",
    "/targets",
    "/config",
)
MANY = (
    "/report",
    f"/report/models/{quote(made_fleet.NAMES[0], safe='')}",
    "/report/events/fleet-1",
)
STROKE = "getComputedStyle(document.querySelector('svg .line')).stroke"
TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
HEIGHT = "document.documentElement.scrollHeight"
BOTTOM = "document.querySelector('{}').getBoundingClientRect().bottom"
# The script's renewal, to be called when the test wants it.
CATCH_RENEWAL = "window.setInterval = (renew) => { window.renew = renew; return 1; };"
FEW, WIDTHS = 5, (1440, 800, 390)
ALL_LOOKS = os.environ.get("LOOKS") == "all"
"""Whether every page is looked at in every way (`make pages`), not only in those that differ most."""
VIOLATIONS = (
    "axe.run().then((r) => JSON.stringify(r.violations.map((v) => "
    "[v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))])))"
)


def axe() -> Path | None:
    """Where axe.min.js is: that of `AXE_CORE`, or the one that axe-core-python brings; None without either."""
    if named := os.environ.get("AXE_CORE"):
        return Path(named)
    found = importlib.util.find_spec("axe_core_python")
    return Path(found.origin).with_name("axe.min.js") if found and found.origin else None


AXE = axe()


@dataclass(frozen=True, slots=True)
class Look:
    """One way to look at a page: how wide the screen is in CSS pixels, and whether it is dark."""

    path: str
    width: int
    dark: bool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[chromium.Tab]:
    """One browser for all tests of this file."""
    async with chromium.tab(tmp_path_factory.mktemp("browser")) as made:
        yield made


def looks(count: int) -> Iterator[Look]:
    """How the pages of a service are looked at: each wide and light, and narrow and dark; or every way there is."""
    paths = PATHS if count == FEW else MANY
    if ALL_LOOKS:
        ways = itertools.product(paths, WIDTHS, (False, True))
        yield from (Look(path, width, dark) for path, width, dark in ways)
    elif count in {FEW, 44}:
        yield from (Look(path, width, width < 500) for path in paths for width in (1440, 390))
    else:
        yield Look(paths[0], 800, count == 400)


async def faults(tab: chromium.Tab, address: str, look: Look) -> list[object]:
    """What is wrong with a page: too wide for the screen, more than its own style and script, and what axe finds."""
    await tab.show(address, look.width, dark=look.dark)
    found: list[object] = []
    if (await tab.value(TOO_WIDE), await tab.value("innerWidth")) != (0, look.width):
        found.append("wider than the screen")
    if await tab.value("[document.styleSheets.length, document.scripts.length].join()") != "1,1":
        found.append("more than one style sheet and one script")
    if AXE is not None:
        await tab.value(AXE.read_text())
        found += json.loads(str(await tab.run_script(VIOLATIONS)))
    return found


@pytest.mark.parametrize("count", [FEW, 4, 44, 400, 4000])
async def test_pages_in_a_browser(tab: chromium.Tab, count: int) -> None:
    """On a telephone and on screens, light and dark, with few streams and many, no page has a fault.

    Nothing is loaded from outside, and the browser has nothing to complain about.
    """
    found = {}
    async with client(Service() if count == FEW else made_fleet.service(count)) as session:
        for look in looks(count):
            found[look] = await faults(tab, str(session.make_url(look.path)), look)
        if count == 4000:
            await tab.show(str(session.make_url("/report")), 1440)
            assert int(str(await tab.value("document.documentElement.outerHTML.length"))) < 300_000
    assert {look: wrong for look, wrong in found.items() if wrong} == {}
    assert tab.complaints == []
    assert tab.outside == set()


@pytest.mark.skipif(AXE is None, reason="neither axe-core-python nor AXE_CORE brings an axe.min.js")
async def test_axe_finds_what_is_wrong(tab: chromium.Tab) -> None:
    """A picture without a text is found, so that finding nothing says something."""
    async with client() as session:
        address = str(session.make_url("/"))
        await tab.show(address, 1440)
        await tab.value("document.querySelector('main').append(new Image())")
        assert AXE is not None
        await tab.value(AXE.read_text())
        assert "image-alt" in str(await tab.run_script(VIOLATIONS))


@pytest.mark.parametrize("count", [44, 4000])
async def test_pages_say_the_same_without_a_script(tab: chromium.Tab, count: int) -> None:
    """Whoever forbids scripts reads what others read, at any number of streams."""
    async with client(made_fleet.service(count)) as session:
        for path in MANY if ALL_LOOKS else MANY[:1]:
            url = str(session.make_url(path))
            await tab.show(url, 1440)
            with_script = await tab.value("document.querySelector('main').innerText")
            await tab.call("Emulation.setScriptExecutionDisabled", value=True)
            await tab.show(url, 1440)
            assert await tab.value("document.querySelector('main').innerText") == with_script
            await tab.call("Emulation.setScriptExecutionDisabled", value=False)


async def test_a_telephone_shows_the_worst_first(tab: chromium.Tab) -> None:
    """The report of 400 streams is under 3,000 px long at 390; its first screen has verdict and worst model."""
    async with client(made_fleet.service(400)) as session:
        await tab.show(str(session.make_url("/report")), 390)
        assert int(str(await tab.value(HEIGHT))) < 3000
        for first in (".verdicts li", ".model .name"):
            assert float(str(await tab.value(BOTTOM.format(first)))) < 900


async def test_keyboard_alone(tab: chromium.Tab) -> None:
    """The first stop of the keyboard skips to the content; the folded replicas open with Enter."""
    async with client(made_fleet.service(44)) as session:
        await tab.show(str(session.make_url("/report")), 1440)
        await tab.press("Tab")
        assert await tab.value("document.activeElement.className") == "skip"
        await tab.value("document.querySelector('.model details summary').focus()")
        await tab.press("Enter")
        assert await tab.value("document.querySelectorAll('.model details[open]').length") == 1


async def test_pages_renew_themselves_in_place(tab: chromium.Tab) -> None:
    """What is new is shown without losing place, folds or focus; times are local on hovering."""
    before, after = made_fleet.service(400), made_fleet.service(84)
    shown = [before]
    async with client(before, make_view=lambda: shown[0]) as session:
        await tab.call("Page.enable")
        caught = await tab.call("Page.addScriptToEvaluateOnNewDocument", source=CATCH_RENEWAL)
        await tab.show(str(session.make_url("/report")), 1440)
        assert "in your time zone" in str(await tab.value("document.querySelector('time').title"))
        await tab.value("document.querySelectorAll('.model summary')[1].click(); scrollTo(0, 300)")
        await tab.value("document.querySelectorAll('.model .name a')[1].focus({preventScroll: true})")
        link = await tab.value("document.activeElement.getAttribute('href')")
        shown[0] = after
        await tab.run_script("window.renew()")
        assert await tab.value("document.querySelectorAll('.model').length") == 3
        assert await tab.value("scrollY") == 300
        assert await tab.value("document.querySelectorAll('.model details[open]').length") == 1
        assert await tab.value("document.activeElement.getAttribute('href')") == link
        await tab.call("Page.removeScriptToEvaluateOnNewDocument", identifier=caught["identifier"])
        assert tab.complaints == []


async def test_dark_mode_and_charts(tab: chromium.Tab) -> None:
    """Charts take their colours from the style sheet, others in the dark, and their links can be followed."""
    async with client() as session:
        url = str(session.make_url(STREAM))
        await tab.show(url, 1280)
        light = await tab.value(STROKE)
        background = await tab.value("getComputedStyle(document.body).backgroundColor")
        assert light == "rgb(11, 83, 148)"
        link = "document.querySelector('svg a:last-of-type').getAttribute('href')"
        assert await tab.value(link) == "/report/events/c0ffee1234"
        await tab.show(url, 1280, dark=True)
        assert await tab.value(STROKE) != light
        assert await tab.value("getComputedStyle(document.body).backgroundColor") != background
