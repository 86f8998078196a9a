"""Runs the providers side by side and keeps what they add up to.

Each provider is a task of its own and keeps its last good set, so that a failing one takes nothing away.
Changes are passed on a moment later: a rollout that replaces a hundred pods is a few changes.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

from yarl import URL

from monitor.metrics import textformat
from monitor.metrics.textformat import Column, Family
from monitor.sources.discovery import Failed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from monitor.sources.discovery import Found, Provider

log = logging.getLogger(__name__)

SETTLE_SECONDS = 0.5


class Discovery:
    """What `providers` find: at most `most` targets, none called by a name that is taken.

    `targets` are those to watch, in the order of their names.
    """

    def __init__(self, providers: Sequence[Provider], taken: Collection[str], most: int) -> None:
        self.targets: tuple[Found, ...] = ()
        self._taken = frozenset(taken)
        self._most = most
        self._sets: dict[Provider, tuple[Found, ...] | None] = dict.fromkeys(providers)
        self._failures: dict[str, int] = {}
        self._failing: dict[Provider, str] = {}
        self._dropped: dict[str, int] = {"limit": 0, "name_taken": 0}
        self._tasks: dict[Provider, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._news = asyncio.Event()
        self._call: Callable[[], None] = lambda: None

    def complete(self) -> bool:
        """Return whether every provider has told a set since the start.

        Before that a target that is not among `targets` may still be there.
        """
        return None not in self._sets.values()

    def on_change(self, call: Callable[[], None]) -> None:
        """Have `call` made whenever `targets` is another one."""
        self._call = call

    async def run(self) -> None:
        """Run the providers until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for provider in self._sets:
                self._start(provider)
            while True:
                await self._news.wait()
                await asyncio.sleep(SETTLE_SECONDS)
                self._news.clear()
                before = self.targets
                self._merge()
                if before != self.targets:
                    log.info("targets found", extra={"targets": len(self.targets)})
                    self._call()

    def replace(self, providers: Sequence[Provider], taken: Collection[str], most: int) -> None:
        """Go on with other providers; those that are equal to one of before keep running, and their sets."""
        self._taken, self._most = frozenset(taken), most
        for gone in set(self._sets) - set(providers):
            self._failing.pop(gone, None)
            if task := self._tasks.pop(gone, None):
                task.cancel()
        fresh = [provider for provider in providers if provider not in self._sets]
        self._sets = {provider: self._sets.get(provider) for provider in providers}
        for provider in fresh:
            self._start(provider)
        self._merge()

    def families(self) -> Iterator[Family]:
        """Yield what is known of discovery itself, by kind of provider; nothing where there is none."""
        kinds = dict.fromkeys(provider.kind for provider in self._sets)
        if not kinds:
            return
        found = dict.fromkeys(kinds, 0)
        for provider, told in self._sets.items():
            found[provider.kind] += len(told or ())
        failures = {kind: self._failures.get(kind, 0) for kind in kinds}
        yield _family("discovery_targets", "gauge", "Targets found, by provider.", "provider", found)
        yield _family("discovery_failures", "counter", "Looks for targets that failed.", "provider", failures)
        help_text = "Targets found and not watched: above discovery.max_targets, or of a name that is taken."
        yield _family("targets_dropped", "gauge", help_text, "reason", self._dropped)

    def _start(self, provider: Provider) -> None:
        if self._group is not None:
            name = f"discovery {provider.kind}"
            self._tasks[provider] = self._group.create_task(self._follow(provider), name=name)

    async def _follow(self, provider: Provider) -> None:
        async with aclosing(provider.news()) as news:
            async for each in news:
                told = each if isinstance(each, Failed) else _usable(each)
                if isinstance(told, Failed):
                    self._note_failure(provider, told.reason)
                    continue
                if self._failing.pop(provider, ""):
                    log.info("discovery works again", extra={"provider": provider.kind})
                if told != self._sets[provider]:
                    self._sets[provider] = told
                    self._news.set()

    def _note_failure(self, provider: Provider, reason: str) -> None:
        """Count a failure, and say it once for as long as it is the same."""
        self._failures[provider.kind] = self._failures.get(provider.kind, 0) + 1
        if self._failing.get(provider) != reason:
            self._failing[provider] = reason
            log.warning("discovery keeps the targets it has: %s", reason, extra={"provider": provider.kind})

    def _merge(self) -> None:
        """Add up the sets: of two targets with one name the first stays, under the limit those of before."""
        first: dict[str, Found] = {}
        clashes = 0
        for each in (target for told in self._sets.values() for target in told or ()):
            clashes += each.name in self._taken or first.setdefault(each.name, each).url != each.url
        names = [name for name in first if name not in self._taken]
        before = {target.name for target in self.targets}
        names.sort(key=lambda name: (name not in before, name))
        room = max(self._most - len(self._taken), 0)
        dropped = {"limit": max(len(names) - room, 0), "name_taken": clashes}
        if dropped != self._dropped and any(dropped.values()):
            log.warning("targets are found and not watched", extra=dropped)
        self._dropped = dropped
        self.targets = tuple(first[name] for name in sorted(names[:room]))


def _usable(discovered: tuple[Found, ...]) -> tuple[Found, ...] | Failed:
    """Return the targets, or what is wrong with the first that could not be asked for its page."""
    for target in discovered:
        try:
            if URL(target.url).host:
                continue
            reason = "no host"
        except ValueError as error:
            reason = str(error)
        return Failed(f"{target.name}: read {target.url!r} ({reason}), expected a URL with a host")
    return discovered


def _family(
    name: str, kind: textformat.FamilyKind, help_text: str, label: str, values: dict[str, int]
) -> Family:
    columns = (Column((textformat.labels({label: key}),), (value,)) for key, value in values.items())
    return Family(f"specmon_{name}", kind, help_text, tuple(columns))
