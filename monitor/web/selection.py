"""Which streams a page is about, their order, and which part of them; read from a link and made into one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlencode

from monitor.core.vocabulary import EVENT_KINDS
from monitor.web import fields, levels, standings, states
from monitor.web.asking import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from monitor.web.asking import Ask
    from monitor.web.standings import ModelView
    from monitor.web.view import StreamView

TEXTS = ("q", "model", "engine", "state", "kind", "label", "target")
PARAMETERS = (*TEXTS, "sort", "page", "limit")
MOST_PAGES = 100_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters (empty: all), the order, and the page (from 1) of `limit` entries each.

    `q` is looked for in names of models, targets, replicas, engines, drafts and labels; `label` is
    `name=value`. `state` is the state of a stream, `kind` the kind of its open event.
    """

    q: str = ""
    model: str = ""
    engine: str = ""
    state: str = ""
    kind: str = ""
    label: str = ""
    target: str = ""
    sort: str = "worst"
    page: int = 1
    limit: int = 0

    @property
    def filtered(self) -> bool:
        """Whether any filter is set."""
        return any(getattr(self, name) for name in TEXTS)

    def query(self, default_limit: int, **changes: str | int) -> str:
        """Return the query of a link to the selection with some changes, `?` first; empty for all.

        Another filter or order begins at the first page.
        """
        fresh = {} if "page" in changes else {"page": 1}
        meant = replace(self, **{**fresh, **changes})  # type: ignore[arg-type]
        pairs = [(name, getattr(meant, name)) for name in TEXTS]
        pairs += [("sort", "" if meant.sort == "worst" else meant.sort)]
        pairs += [("page", "" if meant.page == 1 else meant.page)]
        pairs += [("limit", "" if meant.limit == default_limit else meant.limit)]
        found = urlencode([(name, value) for name, value in pairs if value])
        return f"?{found}" if found else ""


def asked(ask: Ask, default_limit: int, most: int) -> Selection:
    """Return what a request selects."""
    label = ask.query.get("label", "")
    if label and "=" not in label:
        raise Refused(400, f"parameter 'label' is {label!r}; expected name=value")
    # A form sends what was left empty too.
    ask = replace(ask, query={name: value for name, value in ask.query.items() if value})
    return Selection(
        **{name: ask.query.get(name, "") for name in ("q", "model", "engine", "label", "target")},
        state=ask.choice("state", states.STATES) or "",
        kind=ask.choice("kind", EVENT_KINDS) or "",
        sort=ask.choice("sort", ORDERS) or "worst",
        page=ask.whole("page", 1, 1, MOST_PAGES),
        limit=ask.whole("limit", default_limit, 1, most),
    )


def chosen(selection: Selection, streams: Iterable[StreamView]) -> list[StreamView]:
    """Return the streams that are meant, in the order in which they came."""
    tests = [test for name, test in _TESTS.items() if getattr(selection, name)]
    return [stream for stream in streams if all(test(selection, stream) for test in tests)]


def ordered(selection: Selection, streams: Iterable[StreamView], now: float) -> list[StreamView]:
    """Return the streams in the order that is asked for."""
    worst = states.worst_first(streams)
    order = ORDERS[selection.sort].stream
    return worst if order is None else sorted(worst, key=lambda stream: order(stream, now))


def ordered_models(selection: Selection, models: Sequence[ModelView]) -> list[ModelView]:
    """Return the models in the order that is asked for; they come worst first."""
    order = ORDERS[selection.sort].model
    return list(models) if order is None else sorted(models, key=order)


def part(selection: Selection, entries: Sequence[T]) -> Sequence[T]:
    """Return the entries of the page that is asked for."""
    start = (selection.page - 1) * selection.limit
    return entries[start : start + selection.limit]


@dataclass(frozen=True, slots=True)
class Order:
    """An order in words, and what sorts by it; None leaves the worst first."""

    words: str
    stream: Callable[[StreamView, float], tuple[float, str]] | None = None
    model: Callable[[ModelView], tuple[float, str]] | None = None


def _mal(stream: StreamView, now: float) -> tuple[float, str]:
    mal = fields.number(levels.of_stream(stream, now), "mal")
    return (float("inf") if mal is None else mal, stream.id)


def _lost(value: float | None) -> float:
    return float("inf") if value is None else -value


def _newest(value: float | None) -> float:
    return float("inf") if value is None else -value


ORDERS = {
    "worst": Order("worst first"),
    "name": Order("by name", lambda s, _: (0, s.id), lambda m: (0, m.model_name)),
    "mal": Order(
        "lowest MAL first", _mal, lambda m: (_lost(-m.level.mal if m.level.mal else None), m.model_name)
    ),
    "lost": Order(
        "most benefit lost first",
        lambda s, _: (_lost(s.benefit_lost_ratio), s.id),
        lambda m: (_lost(m.level.lost_ratio), m.model_name),
    ),
    "since": Order(
        "newest change first",
        lambda s, _: (_newest(standings.changed_at(s)), s.id),
        lambda m: (_newest(m.since), m.model_name),
    ),
    "size": Order("most streams first", None, lambda m: (-len(m.streams), m.model_name)),
}


def _words(stream: StreamView) -> str:
    labels = " ".join(f"{name}={value}" for name, value in stream.labels.items())
    names = (stream.id, stream.target, stream.model_name, stream.replica, stream.engine, stream.draft_model)
    return f"{' '.join(names)} {labels}".casefold()


_TESTS: dict[str, Callable[[Selection, StreamView], bool]] = {
    "q": lambda asked, s: all(word in _words(s) for word in asked.q.casefold().split()),
    "model": lambda asked, s: s.model_name == asked.model,
    "engine": lambda asked, s: s.engine == asked.engine,
    "state": lambda asked, s: s.state == asked.state,
    "kind": lambda asked, s: fields.text(s.open_event or {}, "kind") == asked.kind,
    "label": lambda asked, s: asked.label in {f"{name}={value}" for name, value in s.labels.items()},
    "target": lambda asked, s: s.target == asked.target,
}
