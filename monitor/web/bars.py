"""Inline SVG bars for the cells of tables: a ratio, evidence against its limit, shares on both sides of 0."""

from __future__ import annotations

from monitor.web.markup import Markup, escape

WIDTH, HEIGHT = 120, 12


def bar(value: float, reference: float | None, label: str) -> Markup:
    """Return a horizontal bar of a ratio 0..1 with a tick at its reference."""
    tick = ""
    if reference is not None:
        tick = f'<path class="base" d="M{round(min(reference, 1) * WIDTH, 1):g} 0V{HEIGHT}"/>'
    return _picture(label, 0.0, min(max(value, 0), 1) * WIDTH, tick)


def against_limit(score: float, label: str) -> Markup:
    """Return a bar of evidence in units of its limit, from 0 to twice the limit, with a tick at the limit."""
    return bar(score / 2, 0.5, label)


def to_either_side(value: float, most: float, label: str) -> Markup:
    """Return a bar from the middle, to the right above 0 and to the left below; `most` is half the width."""
    length = min(abs(value) / most, 1) * WIDTH / 2 if most else 0.0
    left = WIDTH / 2 - (length if value < 0 else 0.0)
    return _picture(label, left, length, f'<path class="base" d="M{WIDTH // 2} 0V{HEIGHT}"/>')


def _picture(label: str, left: float, length: float, tick: str) -> Markup:
    return Markup(
        f'<svg class="bar" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" width="{WIDTH}" height="{HEIGHT}" '
        f'aria-label="{escape(label)}"><rect class="track" width="{WIDTH}" height="{HEIGHT}"/>'
        f'<rect class="fill" x="{round(left, 1):g}" width="{round(length, 1):g}" height="{HEIGHT}"/>'
        f"{tick}</svg>"
    )
