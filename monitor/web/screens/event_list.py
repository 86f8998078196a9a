"""The index of events: filters, the list, its pages, and the feed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from monitor.core.vocabulary import SEVERITIES
from monitor.web import sentences
from monitor.web.markup import Markup, tag
from monitor.web.screens import choosing, events, layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.web.screens.layout import Site
    from monitor.web.view import EventFilter, View

PER_PAGE = 50
STATUSES = ("open", "closed")
SCOPES = ("replica", "fleet")
FILTERS = ("status", "kind", "severity", "scope", "model", "target", "stream")
_NAMES = {"model": "model_name"}


@dataclass(frozen=True, slots=True)
class EventPage:
    """Which events a page lists: filters by name, from and until when (unix seconds), and its place."""

    filters: Mapping[str, str]
    since: float | None = None
    until: float | None = None
    page: int = 1
    limit: int = PER_PAGE

    def of_view(self, more: int = 0) -> EventFilter:
        """Return what the view is asked for; `more` events than shown say whether another page follows."""
        found: EventFilter = {"limit": self.limit + more, "offset": (self.page - 1) * self.limit}
        for name, value in self.filters.items():
            found[_NAMES.get(name, name)] = value  # type: ignore[literal-required]
        return found | {"since": self.since, "until": self.until}

    def query(self) -> str:
        """Return the query of a link to it, `?` first; empty for all."""
        pairs = [(name, value) for name, value in self.filters.items() if value]
        pairs += [(name, f"{at:g}") for name, at in (("since", self.since), ("until", self.until)) if at]
        pairs += [("page", str(self.page))] if self.page > 1 else []
        pairs += [("limit", str(self.limit))] if self.limit != PER_PAGE else []
        return f"?{urlencode(pairs)}" if pairs else ""


def page(view: View, wanted: EventPage, site: Site) -> bytes:
    """Return the page of the events that are wanted."""
    found = view.events(**wanted.of_view(more=1))
    shown = found[: wanted.limit]
    feed = site.links.to(f"/report/events.atom{replace(wanted, page=1).query()}")
    return layout.page(
        site,
        "Events",
        _form(view, wanted, site),
        events.table(shown, site) if shown else tag("p", "No event is like that."),
        _pages(wanted, site, more=len(found) > wanted.limit),
        tag("p", tag("a", "These events as a feed (Atom)", href=feed, type="application/atom+xml")),
        json_link=site.links.to(f"/api/v1/events{_for_api(wanted)}"),
        feed=feed,
    )


def _for_api(wanted: EventPage) -> str:
    renamed = {_NAMES.get(name, name): value for name, value in wanted.filters.items()}
    return replace(wanted, filters=renamed).query()


def _form(view: View, wanted: EventPage, site: Site) -> Markup:
    def chosen(name: str) -> str:
        return wanted.filters.get(name, "")

    models = sorted({stream.model_name for stream in view.streams()} - {""})
    parts = [
        choosing.select("status", "Status", choosing.same(STATUSES), chosen("status")),
        choosing.select("severity", "Severity", choosing.same(SEVERITIES), chosen("severity")),
        choosing.select("kind", "What", sentences.KIND_WORDS, chosen("kind")),
        choosing.select("scope", "Of", {"replica": "one replica", "fleet": "a whole model"}, chosen("scope")),
        choosing.select("model", "Model", choosing.same(models), chosen("model")),
        choosing.text("target", "Target", chosen("target")),
    ]
    anything = any(wanted.filters.values())
    return tag(
        "form",
        tag("div", parts, class_="fields"),
        tag(
            "p",
            tag("button", "Show"),
            tag("a", "Clear", href=site.links.to("/report/events")) if anything else None,
        ),
        action=site.links.to("/report/events"),
        method="get",
        class_="choosing",
        role="search",
    )


def _pages(wanted: EventPage, site: Site, *, more: bool) -> Markup | None:
    if wanted.page == 1 and not more:
        return None

    def link(words: str, number: int, rel: str) -> Markup:
        href = site.links.to(f"/report/events{replace(wanted, page=number).query()}")
        return tag("a", words, href=href, rel=rel)

    return tag(
        "nav",
        link("← Newer", wanted.page - 1, "prev") if wanted.page > 1 else None,
        tag("span", f"Page {wanted.page:,}"),
        link("Older →", wanted.page + 1, "next") if more else None,
        class_="pages",
        aria_label="pages of events",
    )
