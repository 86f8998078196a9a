"""Reads a page as a browser asks for it: its elements, texts and links, and that it is well formed."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

from tests.web.serving import client

if TYPE_CHECKING:
    from monitor.web.view import View

VOID = {"meta", "link", "br", "hr", "input"}


class Page(HTMLParser):
    """Collects what a page is made of, and complains about elements that are closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.tags.add(tag)
        if tag == "script":
            self.scripts.append(str(dict(attrs).get("src")))
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element of SVG that closes itself."""
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        """Close the element that was opened last."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        self.text += data


async def read(path: str, view: View) -> Page:
    """Return a page as a browser asks for it, parsed."""
    page = Page()
    async with (
        client(make_view=lambda: view) as session,
        session.get(path, headers={"Accept": "text/html"}) as response,
    ):
        assert response.content_type == "text/html"
        page.feed(await response.text())
    assert page.open == []
    return page
