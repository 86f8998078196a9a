"""Events as an Atom feed (RFC 4287), for readers and chat bots that only know feeds."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from monitor.web import fields, guidance, sentences, wording
from monitor.web.markup import Markup, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from monitor.web.fields import Record
    from monitor.web.links import Links

ATOM = "application/atom+xml; charset=utf-8"
_HEAD = '<?xml version="1.0" encoding="utf-8"?>\n'


def atom(records: Sequence[Record], links: Links, path: str, now: float) -> bytes:
    """Return the feed of these events, newest first; `path` is the feed's own."""
    updated = max((_updated(event, now) for event in records), default=now)
    content = tag(
        "feed",
        _element("title", "specmon: events of speculative decoding"),
        _element("id", links.to(path)),
        Markup(f"<updated>{wording.iso(updated)}</updated>"),
        Markup(f"<author>{_element('name', 'specmon')}</author>"),
        _link("self", links.to(path)),
        _link("alternate", links.to("/report/events")),
        (_entry(event, links, now) for event in records),
        xmlns="http://www.w3.org/2005/Atom",
    )
    return (_HEAD + content + "\n").encode("utf-8", errors="replace")


def _entry(event: Record, links: Links, now: float) -> Markup:
    event_id = fields.text(event, "id")
    raised = fields.number(event, "raised_at") or now
    # Without "25 min ago": an entry that changes by itself is news to every reader again.
    summary = sentences.event(event, raised)
    steps = guidance.steps(event)
    kind = fields.text(event, "kind")
    status = fields.text(event, "status")
    where = fields.text(event, "target") or fields.text(event, "model_name")
    return tag(
        "entry",
        _element("title", f"{sentences.KIND_WORDS.get(kind, kind).capitalize()} on {where} ({status})"),
        _element("id", f"urn:specmon:event:{event_id}"),
        Markup(f"<updated>{wording.iso(_updated(event, now))}</updated>"),
        Markup(f"<published>{wording.iso(raised)}</published>"),
        _link("alternate", links.event(event_id)),
        tag("category", term=_printable(kind)),
        _element("summary", f"{summary} {steps[0] if steps else ''}".strip()),
    )


def _updated(event: Record, now: float) -> float:
    """Return when an event last changed its status."""
    return fields.number(event, "closed_at") or fields.number(event, "raised_at") or now


def _element(name: str, text: str) -> Markup:
    return tag(name, _printable(text))


def _link(rel: str, href: str) -> Markup:
    # `link` has no end in HTML, which is what `tag` writes.
    return Markup(f'<link rel="{rel}" href="{escape(href)}"/>')


def _printable(text: str) -> str:
    """Return a text without what XML 1.0 has no way to write, control characters above all."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)
