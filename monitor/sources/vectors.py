"""Series from a Prometheus-compatible API -> the pages that the engines' own readers read.

Prometheus keeps what an engine exported and adds labels of its own; an engine's label of the same name it
calls `exported_…`. Here the added labels name the target, and are taken away again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from monitor.core.pages import engines
from monitor.core.pages.scrapes import Failure, Scrape
from monitor.sources import promql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

log = logging.getLogger(__name__)

# What Prometheus, its operator and common scrape configurations add to whatever an engine exports.
ADDED = (
    "cluster",
    "container",
    "endpoint",
    "instance",
    "job",
    "namespace",
    "node",
    "pod",
    "prometheus",
    "prometheus_replica",
    "service",
)
EXPORTED = "exported_"
LINGER_SECONDS = 600.0  # a target without series is missed for so long, and then it is gone
# The reason is what it usually is for Prometheus; a page that was read and is none is another matter.
_ABSENT = "no series of it at this time: Prometheus could not scrape it, or it is gone"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass(frozen=True, slots=True)
class QueriedSeries:
    """A series as the API tells it: its labels, among them the name, and its values by unix seconds."""

    labels: Mapping[str, str]
    values: Mapping[float, str]


@dataclass(frozen=True, slots=True)
class _Origin:
    """Which of Prometheus's scrapes a series comes from: the target's name and the labels that were added."""

    target: str
    added: tuple[str, ...]


@dataclass(slots=True)
class _Group:
    """The lines of one page, each with its values by time."""

    lines: list[tuple[str, Mapping[float, str]]] = field(default_factory=list)
    engine: bool = False


class Pages:
    """Makes a page of what each target has at a time, and remembers which targets there were.

    `target_labels` are those whose values name a target, none: namespace/pod, else instance. `wanted` says
    which names are ours to watch. Of two scrapes of one name, as a highly available pair of Prometheus makes
    them, the one that was read before is read on; `ambiguous` counts the names that have several. `targets`
    are the names of those there are, those included that are missed.
    """

    def __init__(
        self, target_labels: Sequence[str] = (), wanted: Callable[[str], bool] | None = None
    ) -> None:
        self._target_labels = tuple(target_labels)
        self._added = tuple(sorted({*ADDED, *target_labels}))
        self._wanted = wanted or (lambda _: True)
        self._origins: dict[str, _Origin] = {}
        self._seen: dict[str, float] = {}
        self._warned: set[str] = set()
        self.ambiguous = 0
        self.targets: tuple[str, ...] = ()

    def scrapes(self, queried: Sequence[QueriedSeries], times: Sequence[float]) -> Iterator[list[Scrape]]:
        """Yield, for each time in order, the scrapes of the targets: pages, and failures of those missed."""
        groups = self._grouped(queried)
        for at in times:
            yield self._at(groups, at)

    def _grouped(self, queried: Sequence[QueriedSeries]) -> dict[_Origin, _Group]:
        groups: dict[_Origin, _Group] = {}
        names: dict[str, bool] = {}
        for series in queried:
            target = self._target(series.labels)
            if target not in names:
                names[target] = bool(target) and self._wanted(target)
            if names[target]:
                origin = _Origin(target, tuple(series.labels.get(label, "") for label in self._added))
                group = groups.setdefault(origin, _Group())
                group.lines.append((self._line(series.labels), series.values))
                group.engine |= _counts(series.labels.get("__name__", ""))
        for group in groups.values():
            group.lines.sort(
                key=lambda line: line[0]
            )  # in one order always: what is known of a page stays true
        ordered = sorted(groups, key=lambda origin: (origin.target, origin.added))
        return {origin: groups[origin] for origin in ordered if groups[origin].engine}

    def _at(self, groups: Mapping[_Origin, _Group], unix_seconds: float) -> list[Scrape]:
        bodies: dict[str, dict[_Origin, bytes]] = {}
        for origin, group in groups.items():
            lines = [
                f"{line} {values[unix_seconds]}\n" for line, values in group.lines if unix_seconds in values
            ]
            body = "".join(lines).encode()
            if body and (origin.target in self._seen or engines.recognise(body) is not None):
                bodies.setdefault(origin.target, {})[origin] = body
        self.ambiguous = sum(len(several) > 1 for several in bodies.values())
        pages = [
            Scrape(target, unix_seconds, body=self._chosen(target, several))
            for target, several in bodies.items()
        ]
        self._seen |= dict.fromkeys(bodies, unix_seconds)
        for target in [name for name, seen in self._seen.items() if unix_seconds - seen > LINGER_SECONDS]:
            del self._seen[target]
            self._origins.pop(target, None)
            self._warned.discard(target)
        self.targets = tuple(self._seen)
        missed = [name for name in self.targets if name not in bodies]
        return [
            *pages,
            *(Scrape(name, unix_seconds, failure=Failure("connection", _ABSENT)) for name in missed),
        ]

    def _chosen(self, target: str, several: Mapping[_Origin, bytes]) -> bytes:
        origin = self._origins.get(target)
        if origin is None or origin not in several:
            origin = self._origins[target] = next(iter(several))
        if len(several) > 1 and target not in self._warned:
            self._warned.add(target)
            differ = [
                label
                for index, label in enumerate(self._added)
                if len({each.added[index] for each in several}) > 1
            ]
            detail = {"target": target, "scrapes": len(several), "differ_in": ",".join(differ)}
            log.warning(
                "one name for several scrapes, one is read: see prometheus.target_labels", extra=detail
            )
        return several[origin]

    def _target(self, labels: Mapping[str, str]) -> str:
        if self._target_labels:
            return "/".join(labels[label] for label in self._target_labels if labels.get(label))
        pod, namespace = labels.get("pod", ""), labels.get("namespace", "")
        if pod:
            return f"{namespace}/{pod}" if namespace else pod
        return labels.get("instance", "")

    def _line(self, labels: Mapping[str, str]) -> str:
        """Return the name and the labels as the engine wrote them."""
        own = {
            name: value for name, value in labels.items() if name not in self._added and name != "__name__"
        }
        for name in [name for name in own if name.startswith(EXPORTED)]:
            own[name.removeprefix(EXPORTED)] = own.pop(name)
        pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sorted(own.items()))
        return f"{labels.get('__name__', '')}{{{pairs}}}"


def _counts(name: str) -> bool:
    """Return whether a series makes a target; where one has very many labels, some may have been cut off."""
    return name != promql.COMMON and not name.endswith("_info")
