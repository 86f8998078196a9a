"""What all pages share: the frame, tables that fit a telephone, states, times, values that may be unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.web import states, wording
from monitor.web.markup import Child, Markup, join, tag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from monitor.web.fields import Record
    from monitor.web.links import Links
    from monitor.web.view import StreamView

_PAGES = (
    ("/report", "Report"),
    ("/report/events", "Events"),
    ("/report/what-if", "What if"),
    ("/targets", "Targets"),
    ("/config", "Settings"),
    ("/metrics", "Metrics"),
)


@dataclass(frozen=True, slots=True)
class Site:
    """What every page needs beside its subject; `refresh` in seconds, 0 for never.

    `runbook` gives the address of what to do about an event, empty where nobody said where runbooks are;
    `grafana` is the address of the Grafana that has the dashboards, empty where nobody said so.
    """

    links: Links
    version: str
    now: float
    simulated: bool = False
    refresh: int = 0
    runbook: Callable[[Record], str] = lambda _: ""
    grafana: str = ""


def page(
    site: Site,
    title: str,
    *body: Child,
    json_link: str = "",
    feed: str = "",
    newest: float | None = None,
) -> bytes:
    """Return a whole page; `json_link` is where the same facts are as JSON, `feed` where its feed is.

    `newest` is when its newest data was read (unix seconds); such a page renews itself.
    """
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="refresh", content=site.refresh) if site.refresh else None,
        tag("title", f"{title} · specmon"),
        tag("link", rel="stylesheet", href=site.links.to("/static/report.css")),
        tag("link", rel="icon", type="image/svg+xml", href=site.links.to("/static/icon.svg")),
        tag("script", src=site.links.to("/static/report.js"), defer=True),
        tag("link", rel="alternate", type="application/atom+xml", href=feed) if feed else None,
    )
    banner = tag(
        "p",
        tag("strong", "Simulated engines."),
        " These numbers come from ",
        tag("code", "specmon demo"),
        ", not from a real deployment.",
        class_="banner",
        role="note",
    )
    content = tag(
        "body",
        _header(site),
        tag(
            "main", banner if site.simulated else None, tag("h1", title), _age(newest, site), *body, id="main"
        ),
        _footer(site, json_link),
    )
    return f"<!doctype html>\n{tag('html', head, content, lang='en')}\n".encode("utf-8", errors="replace")


def table(caption: str, headers: Sequence[str], rows: Iterable[Sequence[Child]], class_: str = "") -> Markup:
    """Return a table whose first column names its row; on narrow screens each row becomes a card."""
    body = [_row(headers, cells) for cells in rows]
    head = tag("tr", (tag("th", header, scope="col", role="columnheader") for header in headers), role="row")
    return tag(
        "table",
        tag("caption", caption),
        tag("thead", head, role="rowgroup"),
        tag("tbody", body, role="rowgroup"),
        class_=class_ or None,
        role="table",
    )


def facts(rows: Iterable[tuple[str, Child]]) -> Markup:
    """Return a list of names and values."""
    return tag("dl", (tag("div", tag("dt", name), tag("dd", value)) for name, value in rows), class_="facts")


def state(name: str) -> Markup:
    """Return a state as word, shape and colour, its meaning on hovering."""
    known = states.STATES.get(name)
    shape = tag("span", known.shape if known else "", aria_hidden="true", class_="shape")
    return tag("span", shape, " ", name, class_=f"state {name}", title=known.meaning if known else None)


def moment(unix_seconds: float | None, now: float, why_unknown: str = "not known") -> Markup:
    """Return a time as UTC and as distance from now."""
    if unix_seconds is None:
        return unknown(why_unknown)
    return join(
        (
            tag("time", wording.clock(unix_seconds), datetime=wording.iso(unix_seconds)),
            " ",
            tag("small", wording.ago(unix_seconds, now)),
        )
    )


def near(unix_seconds: float | None, now: float, why_unknown: str = "not known") -> Markup:
    """Return a time as UTC, without its date where it is today's, and as distance from now."""
    if unix_seconds is None:
        return unknown(why_unknown)
    return tag(
        "time",
        wording.clock_near(unix_seconds, now),
        datetime=wording.iso(unix_seconds),
        title=wording.clock(unix_seconds),
    )


def value(text: str, why_unknown: str) -> Child:
    """Return a formatted value, or the dash of an unknown one with the reason on hovering."""
    return unknown(why_unknown) if text == wording.UNKNOWN else text


def unknown(why: str) -> Markup:
    """Return the dash that stands for an unknown value, and why it is not known."""
    return tag("abbr", wording.UNKNOWN, title=f"unknown: {why}", class_="unknown")


def _row(headers: Sequence[str], cells: Sequence[Child]) -> Markup:
    first, *rest = cells
    return tag(
        "tr",
        tag("th", first, scope="row", role="rowheader", data_label=headers[0]),
        (
            tag("td", tag("span", cell), role="cell", data_label=header)
            for header, cell in zip(headers[1:], rest, strict=True)
        ),
        role="row",
    )


def _age(newest: float | None, site: Site) -> Markup | None:
    if newest is None:
        return None
    words = wording.ago(newest, site.now)
    time = tag("time", words, datetime=wording.iso(newest), title=wording.clock(newest))
    return tag("p", "Newest data: ", time, class_="age", data_renew=True)


def newest(streams: Iterable[StreamView]) -> float | None:
    """Return when the newest data of some streams was read."""
    return max((each.last_good_at for each in streams if each.last_good_at is not None), default=None)


def _header(site: Site) -> Markup:
    items = (tag("a", words, href=site.links.to(path)) for path, words in _PAGES)
    return tag(
        "header",
        tag("a", "Skip to content", href="#main", class_="skip"),
        tag("a", "specmon", href=site.links.to("/"), class_="brand"),
        tag("nav", items, aria_label="pages"),
    )


def _footer(site: Site, json_link: str) -> Markup:
    return tag(
        "footer",
        f"specmon {site.version} · all times UTC · made {wording.clock(site.now)}",
        (" · ", tag("a", "this page as JSON", href=json_link)) if json_link else None,
    )
