"""What chooses among many: counts by state, the search with its filters, links to the other pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import selection, sentences, states, wording
from monitor.web.markup import Markup, tag
from monitor.web.screens import layout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from monitor.web.screens.layout import Site
    from monitor.web.selection import Selection
    from monitor.web.view import StreamView

_LONGEST_LIST = 200


def counts(streams: Sequence[StreamView], site: Site, chosen: Selection, limit: int) -> Markup:
    """Return how many streams are in each state, each a link that filters by it, or no longer does."""
    items = []
    for name, number in states.counts(streams).items():
        current = chosen.state == name
        query = chosen.query(limit, state="" if current else name)
        link = tag(
            "a",
            f"{number:,} ",
            layout.state(name),
            href=site.links.to(f"/report{query}"),
            aria_current="true" if current else None,
        )
        items.append(tag("li", link))
    return tag("ul", items, class_="counts", aria_label="streams by state")


def form(streams: Sequence[StreamView], site: Site, chosen: Selection) -> Markup:
    """Return the search and the filters, a form that makes a link which can be shared."""
    known = {
        "model": sorted({stream.model_name for stream in streams} - {""}),
        "engine": sorted({stream.engine for stream in streams} - {""}),
        "state": list(states.counts(streams)),
    }
    more = [
        select("model", "Model", same(known["model"]), chosen.model),
        select("engine", "Engine", same(known["engine"]), chosen.engine),
        select("state", "State", same(known["state"]), chosen.state),
        select("kind", "Open event", sentences.KIND_WORDS, chosen.kind),
        text("label", "Label", chosen.label, "name=value"),
        text("target", "Target", chosen.target),
        select("sort", "Order", {name: each.words for name, each in selection.ORDERS.items()}, chosen.sort),
    ]
    set_ = (chosen.filtered and not chosen.q) or chosen.sort != "worst"
    clear = tag("a", "Clear", href=site.links.to("/report")) if chosen.filtered else None
    return tag(
        "form",
        tag(
            "p",
            text("q", "Search", chosen.q, "model, target, engine or label", kind="search"),
            tag("button", "Show"),
            clear,
        ),
        tag("details", tag("summary", "Filter and order"), tag("div", more, class_="fields"), open=set_),
        action=site.links.to("/report"),
        method="get",
        class_="choosing",
        role="search",
    )


def pages(site: Site, path: str, chosen: Selection, limit: int, total: int, noun: str) -> Markup | None:
    """Return where in `total` entries the page is, with links to the one before and after it."""
    last = -(-total // chosen.limit)
    if last <= 1 and chosen.page == 1:
        return None
    first = (chosen.page - 1) * chosen.limit + 1
    through = min(first + chosen.limit - 1, total)
    where = f"{first:,} to {through:,} of {wording.plural(total, noun)}"

    def link(words: str, number: int, rel: str) -> Markup:
        return tag("a", words, href=site.links.to(f"{path}{chosen.query(limit, page=number)}"), rel=rel)

    return tag(
        "nav",
        link("← Before", min(chosen.page - 1, max(last, 1)), "prev") if chosen.page > 1 else None,
        tag("span", where if first <= total else f"There are {wording.plural(total, noun)}"),
        link("After →", chosen.page + 1, "next") if chosen.page < last else None,
        class_="pages",
        aria_label=f"pages of {noun}s",
    )


def select(name: str, words: str, labels: Mapping[str, str], chosen: str) -> Markup:
    """Return a labelled choice of values (shown by their labels), or of any."""
    pairs = list(labels.items())[:_LONGEST_LIST]
    if chosen and chosen not in dict(pairs):
        pairs.append((chosen, labels.get(chosen, chosen)))
    first = [] if name == "sort" else [tag("option", "any", value="")]
    made = [tag("option", label, value=value, selected=value == chosen) for value, label in pairs]
    return tag("label", tag("span", words), tag("select", first, made, name=name))


def same(names: Iterable[str]) -> dict[str, str]:
    """Return names as their own labels."""
    return {name: name for name in names}


def text(name: str, words: str, value: str, hint: str = "", kind: str = "text") -> Markup:
    """Return a labelled field for text."""
    field = tag("input", type=kind, name=name, value=value or None, placeholder=hint or None)
    return tag("label", tag("span", words), field)
