"""A small HTML builder in which text is escaped unless it was built here."""

from __future__ import annotations

import html
from collections.abc import Iterable

_VOID = frozenset({"br", "hr", "input", "link", "meta"})


_CONTROLS = {*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")}
_DIRECTIONS = {0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)}
_REPLACED = dict.fromkeys(_CONTROLS | _DIRECTIONS, "\N{REPLACEMENT CHARACTER}")


class Markup(str):
    """HTML that is safe to send as it is."""

    __slots__ = ()


Child = Markup | str | int | None | Iterable["Child"]
Attribute = str | int | bool | None


def escape(text: str) -> str:
    """Return a text in which nothing is HTML, and nothing turns what stands around it the other way round."""
    return html.escape(text if text.isprintable() else text.translate(_REPLACED))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Return the element `name`; an attribute's trailing underscore is dropped, others become hyphens.

    None and False leave an attribute or a child out, True gives an attribute without a value.
    """
    opening = f"<{name}{''.join(_attribute(*pair) for pair in attributes.items())}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Markup:
    """Return the children one after the other, plain text escaped."""
    return Markup("".join(map(_child, children)))


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str | int):
        return escape(str(child))
    return join(child)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
