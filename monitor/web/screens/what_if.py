"""What if: numbers of a stream, or anybody's, with another k, batch, draft, precision: form and picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import plots, sentences, supposing, wording
from monitor.web.markup import Child, Markup, tag
from monitor.web.screens import choosing, layout

if TYPE_CHECKING:
    from monitor.core.economics.suppositions import Prospect
    from monitor.web.screens.layout import Site
    from monitor.web.supposing import Asked

_FORMULAE = (
    "Tokens per step = 1 + c₀ + c₀·c₁ + …, with cⱼ the acceptance of position j given that the one before "
    "was accepted. Step = plain step + k × (draft step + batch size × verifying). "
    "TPOT = step ÷ tokens per step."
)
_WEIGHTS = (
    "Quantised weights: the target's step is at best as much shorter as its weights are smaller, 0.5 for fp8 "
    "and 0.28 for NVFP4 (4.5 of 16 bits); the draft's step stays as it is, so that the two speed-ups "
    "multiply only where drafting costs nothing."
)
_MEMORY = "Memory: what a draft takes is missing from the cache, so fewer requests fit; empty ignores it."


def page(asked: Asked, site: Site, query: str) -> bytes:
    """Return the page; `query` is what the request said, for the same as JSON."""
    found = asked.prospect
    mood = "calm" if found.speedup >= 1.0 or not asked.supposed.num_speculative_tokens else "warn"
    return layout.page(
        site,
        "What if",
        tag("p", supposing.sentence(asked), class_=f"headline {mood}"),
        _origin(asked, site),
        _form(asked, site),
        tag("h2", "What follows"),
        _facts(found),
        tag("div", _by_tokens(asked), _by_batch(asked), class_="plots"),
        tag("details", tag("summary", "Every k at this batch size"), _options(found)),
        tag("p", tag("small", _FORMULAE)),
        tag("p", tag("small", _WEIGHTS)),
        tag("p", tag("small", _MEMORY)),
        json_link=site.links.to(f"/api/v1/what-if{query}"),
    )


def _origin(asked: Asked, site: Site) -> Markup:
    """Return where the numbers in the form come from."""
    if asked.stream is None:
        return tag("p", "The numbers are an example. A stream's page leads here with its own.")
    link = tag("a", sentences.name(asked.stream), href=site.links.stream(asked.stream.id))
    notes = (f" {note}" for note in asked.notes)
    return tag("p", "Filled from ", link, " where you do not say otherwise.", notes)


def _form(asked: Asked, site: Site) -> Markup:
    """Return the form, which makes a link that can be shared."""
    hint = "0.8, or one for each position"
    acceptance = choosing.text(
        supposing.ACCEPTANCE,
        "Acceptance of each position (conditional)",
        asked.texts[supposing.ACCEPTANCE],
        hint,
    )
    again = tag("a", "Start again", href=site.links.to("/report/what-if"))
    of_stream = tag("input", type="hidden", name="stream", value=asked.stream.id) if asked.stream else None
    quantities = [
        choosing.text(name, f"{each.words} ({each.unit})", asked.texts[name])
        for name, each in supposing.QUANTITIES.items()
    ]
    return tag(
        "form",
        of_stream,
        tag("div", acceptance),
        tag("div", quantities, class_="fields"),
        tag("p", tag("button", "Work it out"), again),
        action=site.links.to("/report/what-if"),
        method="get",
        class_="choosing supposing",
    )


def _facts(found: Prospect) -> Markup:
    rows: list[tuple[str, Child]] = [
        ("Tokens per step (MAL)", wording.length(found.mal)),
        ("Step", wording.seconds(found.step_seconds)),
        ("Plain step", wording.seconds(found.plain_step_seconds)),
        ("TPOT", wording.seconds(found.tpot_seconds)),
        ("Speed-up", f"{found.speedup:.2f}×"),
        ("With the quantised weights", f"{found.speedup_of_both:.2f}× plain steps of now"),
        ("Tokens per second, all requests", wording.count(found.tokens_per_second)),
        ("Best k at this batch", str(found.best)),
    ]
    return layout.facts(rows)


def _by_tokens(asked: Asked) -> Markup:
    found, size = asked.prospect, asked.supposed.batch_size
    return plots.plot(
        plots.Plot(
            "by-k",
            f"Speed-up by k at a batch of {size:g}; best {found.best}",
            "k, draft tokens a step",
            "speed-up",
            [str(each.num_speculative_tokens) for each in found.options],
            [each.speedup for each in found.options],
            asked.supposed.num_speculative_tokens,
            1.0,
        )
    )


def _by_batch(asked: Asked) -> Markup:
    found, tokens = asked.prospect, asked.supposed.num_speculative_tokens
    return plots.plot(
        plots.Plot(
            "by-batch",
            f"Speed-up by batch size at k = {tokens}; below the dashed line plain steps are faster",
            "batch size, requests",
            "speed-up",
            [str(size) for size, _ in found.by_batch],
            [speedup for _, speedup in found.by_batch],
            None,
            1.0,
        )
    )


def _options(found: Prospect) -> Markup:
    headers = ("k", "Tokens per step", "Its last token adds", "Tokens per second of a request", "Speed-up")
    rows = [
        [
            f"{each.num_speculative_tokens} (best)"
            if each.num_speculative_tokens == found.best
            else str(each.num_speculative_tokens),
            wording.length(each.mal),
            wording.ratio(each.gain),
            wording.count(each.tokens_per_second),
            f"{each.speedup:.2f}×",
        ]
        for each in found.options
    ]
    return layout.table("Every k at this batch size", headers, rows, "options")
