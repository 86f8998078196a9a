"""One look at an engine for commands without a service: pages from URLs or files through the pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.service import commands

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from monitor.core.pages.scrapes import Scrape
    from monitor.core.streams import State
    from monitor.core.streams.plans import Plan
    from monitor.core.streams.worth import Told


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The pages to look at, and how."""
    parser.add_argument(
        "pages",
        nargs="+",
        metavar="URL|FILE",
        help="pages of one engine, in time order; or engine logs, - for one on standard input",
    )
    parser.add_argument(
        "--wait",
        metavar="DURATION",
        default="",
        help="read the URL again after this time and show the difference",
    )
    parser.add_argument(
        "--timeout", metavar="DURATION", default="10s", help="time for a whole page (default: 10s)"
    )


def pages(arguments: argparse.Namespace) -> list[Scrape]:
    """Return the pages that were asked for, as looks at one target in time order. Raises Unusable.

    Of an engine's log each reading is a look at a target of the log's name.
    """
    return _logged(arguments.pages) or _in_time_order(_pages(arguments))


def stepped(scrapes: Sequence[Scrape], told: Mapping[str, Told] | None = None) -> tuple[Plan, State]:
    """Return plan and state after the pages. Raises Unusable where one cannot be read."""
    from monitor.core import pipeline

    plan = pipeline.Plan(told=told or {})
    state = pipeline.begin(plan)
    if len(scrapes) == 1 and scrapes[0].body is not None:
        _count_from_start(state, scrapes[0])
    for page in scrapes:
        pipeline.step(plan, state, [page])
        refusal = state.targets[page.target].failure
        if refusal is not None and refusal.reason != "unsupported":
            raise commands.Unusable(f"{page.target}: {refusal.detail}")
    return plan, state


def why_no_stream(state: State) -> str:
    """Return why the pages have no stream, in the words of the last one."""
    details = [target.failure.detail for target in state.targets.values() if target.failure is not None]
    return details[-1] if details else "the pages have no stream to advise on"


def _logged(given: Sequence[str]) -> list[Scrape]:
    """Return what engine logs say, in time order; nothing where pages are given."""
    from monitor import sources
    from monitor.sources import files

    try:
        found = [files.logged(each) for each in given if "://" not in each]
    except sources.Unreadable as error:
        raise commands.Unusable(str(error)) from error
    told = [each for each in found if each is not None]
    if told and len(told) < len(given):
        raise commands.Unusable("expected either pages or engine logs, read both")
    return sorted((scrape for each in told for scrape in each), key=lambda scrape: scrape.at)


def _pages(arguments: argparse.Namespace) -> list[Scrape]:
    from monitor import sources
    from monitor.settings import quantities
    from monitor.sources import files

    try:
        wait = quantities.duration(arguments.wait) if arguments.wait else 0.0
        timeout = quantities.duration(arguments.timeout)
    except ValueError as error:
        raise commands.Unusable(f"--wait, --timeout: {error}") from error
    remote = [page for page in arguments.pages if "://" in page]
    if wait and remote != arguments.pages:
        raise commands.Unusable("--wait: expected a URL to read twice, read a file")
    if remote:
        from monitor.service.commands import fetching

        urls = remote * 2 if wait and len(remote) == 1 else remote
        if len(urls) != len(arguments.pages) * (2 if wait else 1):
            raise commands.Unusable("expected either URLs or files, read both")
        return fetching.pages(urls, wait=wait, timeout=timeout)
    try:
        return [files.page(page) for page in arguments.pages]
    except sources.Unreadable as error:
        raise commands.Unusable(str(error)) from error


def _in_time_order(pages: Sequence[Scrape]) -> list[Scrape]:
    """Return the pages as looks at one target, each later than the one before it, as they were given."""
    ordered: list[Scrape] = []
    for page in pages:
        at = max(page.at, ordered[-1].at + 1.0) if ordered else page.at
        ordered.append(replace(page, at=at, target=pages[0].target))
    return ordered


def _count_from_start(state: State, page: Scrape) -> None:
    """Let the counters of the only page count from the engine's start, where the page tells it."""
    from monitor.core.pages import looks
    from monitor.core.streams import TargetState

    look = looks.read(looks.Memory(), page.body or b"", page.beside)
    starts = [reading.started_at for reading in look.readings if reading.started_at < page.at]
    starts += [reading.created_at for reading in look.readings if reading.created_at < page.at]
    state.targets[page.target] = TargetState(good_at=min(starts, default=page.at))
