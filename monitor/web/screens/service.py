"""Pages about the service itself: landing page, targets, settings, and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from monitor.web.screens.layout import Site
    from monitor.web.view import TargetView, View

_PAGES = (
    ("/report", "what has happened to speculative decoding, for people"),
    ("/metrics", "everything measured, for Prometheus"),
    ("/targets", "what is scraped, and the last error of each"),
    ("/config", "the settings in force, secrets masked"),
    ("/report/events", "all events"),
    ("/api/v1/fleet", "the same facts as JSON: all streams together"),
    ("/api/v1/streams", "all streams as JSON"),
    ("/api/v1/openapi.json", "what the API answers, as OpenAPI"),
    ("/api/v1/events", "events as JSON"),
    ("/-/healthy", "whether the process lives"),
    ("/-/ready", "whether all loops run"),
)


def landing(view: View, site: Site) -> bytes:
    """Return the landing page: name, version, links."""
    revision = f", revision {view.revision}" if view.revision else ""
    uptime = wording.span(site.now - view.started_at)
    items = (tag("li", tag("a", path, href=site.links.to(path)), f": {words}") for path, words in _PAGES)
    return layout.page(
        site,
        "specmon",
        tag("p", "Says that, when, why and at what cost speculative decoding stopped paying."),
        tag("p", f"Version {view.version}{revision}, running for {uptime}."),
        tag("ul", items),
    )


def targets(view: View, site: Site) -> bytes:
    """Return what is scraped, the failing ones first."""
    found = sorted(view.targets(), key=lambda target: (target.up, target.name))
    down = sum(not target.up for target in found)
    headers = (
        "Target",
        "State",
        "Address",
        "Engine",
        "Last scrape",
        "Last good",
        "Streams",
        "Last error",
    )
    rows = [_target(target, site) for target in found]
    headline = f"{down} of {wording.plural(len(found), 'target')} gave no good page at the last scrape."
    if not found:
        headline = "No target is configured."
    elif not down:
        headline = f"All of {wording.plural(len(found), 'target')} gave a good page at the last scrape."
    return layout.page(
        site,
        "Targets",
        tag("p", headline, class_="headline warn" if down else "headline calm"),
        layout.table("Scrape targets, failing first", headers, rows, "targets") if rows else None,
        json_link=site.links.to("/targets?format=json"),
    )


def settings(view: View, site: Site) -> bytes:
    """Return the settings in force."""
    return layout.page(site, "Settings", tag("p", "In force now, secrets masked."), tag("pre", view.config()))


def error(site: Site, status: int, reason: str, message: str) -> bytes:
    """Return the page of a request that could not be answered."""
    back = tag("a", "the report", href=site.links.to("/report"))
    return layout.page(site, f"{status} {reason}", tag("p", message), tag("p", "Back to ", back, "."))


def _target(target: TargetView, site: Site) -> list[Child]:
    streams: list[Child] = [(tag("a", each, href=site.links.stream(each)), " ") for each in target.streams]
    up = (
        tag("span", "● up", class_="state ok")
        if target.up
        else tag("span", "✕ down", class_="state collapsed")
    )
    return [
        target.name,
        up,
        tag("code", target.url),
        target.engine or layout.unknown(target.unrecognised or "no page was recognised yet"),
        _looked(target, site),
        layout.moment(target.last_success_at, site.now, "there was no good scrape yet"),
        streams or layout.unknown("no stream was seen"),
        _failures(target),
    ]


def _looked(target: TargetView, site: Site) -> Markup:
    took = tag("small", f"took {wording.seconds(target.duration)}") if target.duration is not None else None
    return tag("span", layout.moment(target.last_scrape_at, site.now, "it was not scraped yet"), took)


def _failures(target: TargetView) -> Markup:
    counted = ", ".join(f"{number} {reason}" for reason, number in sorted(target.failures.items()))
    last = f"{target.error_reason}: {target.error_detail}" if target.error_reason else ""
    return tag(
        "span",
        last or "none",
        tag("small", f"since start: {counted}") if counted else None,
        tag("small", f"not recognised: {target.unrecognised}") if target.unrecognised else None,
        class_="stack",
    )
