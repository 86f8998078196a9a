"""The pages in a real browser: sizes, light and dark, without scripts, with the keyboard, renewed in place."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import pytest_asyncio

from tests.web import chromium, made_fleet
from tests.web.fleet_of_five import COLLAPSED_ID, Service
from tests.web.serving import client

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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
AXE = os.environ.get("AXE_CORE", "")
"""Where axe.min.js of npm's axe-core is, which is no part of this project."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[chromium.Tab]:
    """One browser for all tests of this file."""
    async with chromium.tab(tmp_path_factory.mktemp("browser")) as made:
        yield made


async def test_pages_in_a_browser(tab: chromium.Tab) -> None:
    """On a telephone and on a screen no page is too wide, and the browser has nothing to complain about."""
    async with client() as session:
        for path in PATHS:
            for width in (390, 1440):
                await tab.show(str(session.make_url(path)), width)
                assert (await tab.value(TOO_WIDE), await tab.value("innerWidth")) == (0, width), path
                assert await tab.value("document.styleSheets.length") == 1
                assert await tab.value("document.scripts.length") == 1
    assert tab.complaints == []


async def test_many_streams(tab: chromium.Tab) -> None:
    """Pages of 44, 400 and 4,000 streams fit each width, dark and light, and say the same without a script."""
    for count in (44, 400, 4000):
        async with client(made_fleet.service(count)) as session:
            for path in MANY if count == 400 else MANY[:1]:
                for width in (800, 390) if count == 400 else (1440,):
                    url = str(session.make_url(path))
                    await tab.show(url, width, dark=width == 800)
                    assert await tab.value(TOO_WIDE) == 0, (path, width, count)
            if count == 4000:
                assert int(str(await tab.value("document.documentElement.outerHTML.length"))) < 300_000
            with_script = await tab.value("document.querySelector('main').innerText")
            await tab.call("Emulation.setScriptExecutionDisabled", value=True)
            await tab.show(url, width)
            assert await tab.value("document.querySelector('main').innerText") == with_script
            await tab.call("Emulation.setScriptExecutionDisabled", value=False)
    assert tab.complaints == []


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


@pytest.mark.skipif(not AXE, reason="the variable AXE_CORE names no axe.min.js: npm's axe-core is not there")
async def test_accessibility(tab: chromium.Tab) -> None:
    """axe-core finds nothing on any page, light or dark."""
    script = Path(AXE).read_text()  # noqa: ASYNC240 - nothing else waits
    found: dict[str, object] = {}
    for service, paths in ((made_fleet.service(44), MANY), (Service(), PATHS)):
        async with client(service) as session:
            for path in paths:
                for dark in (False, True):
                    await tab.show(str(session.make_url(path)), 1440, dark=dark)
                    await tab.value(script)
                    told = await tab.run_script(
                        "axe.run().then((r) => JSON.stringify(r.violations.map((v) => "
                        "[v.id, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160))])))"
                    )
                    found |= {f"{path} {dark}": json.loads(str(told))} if told != "[]" else {}
    assert found == {}, json.dumps(found, indent=1)


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
