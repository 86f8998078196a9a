"""Runs the service and its HTTP server until a signal, for `run` and `demo`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import time
from typing import TYPE_CHECKING

from monitor import notify, settings, store
from monitor.notify import alerts
from monitor.service import assembly, commands, garbage, service
from monitor.sources.discovery import running as discovering
from monitor.web import app
from monitor.web.door import guard, listening, webfile

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Sequence

    from aiohttp import web as http

    from monitor.core.pipeline import Plan
    from monitor.settings import Settings
    from monitor.sources.discovery import Provider
    from monitor.sources.targets import Target

log = logging.getLogger(__name__)

HANGUP_SECONDS = 0.2  # a storm of SIGHUP costs one reload in so long

# A thread that reads a page of 20 MB has the interpreter for so long before the event loop, which gives it
# away at each of its many system calls, gets it back: with Python's own 5 ms, 500 connects took seconds.
SWITCH_SECONDS = 0.0005

READ_AT_START = (
    "web",
    "store",
    "log",
    "prometheus",
    "shards",
)  # sections of the settings that only a restart takes up


async def serve(  # noqa: PLR0913 - what `run` and `demo` differ in
    effective: Settings,
    plan: Plan,
    targets: list[Target],
    *,
    reread: Callable[[], Settings] | None = None,
    finders: Sequence[Provider] = (),
    bucket: float = 60.0,
    simulated: bool = False,
    prepare: Callable[[store.Store], None] = lambda _: None,
) -> None:
    """Run until SIGTERM or SIGINT. `reread` reads the settings again on SIGHUP; None where they are fixed.

    `prepare` may fill the opened store before the service reads it.
    """
    in_force, stop = _InForce(effective, finders, {target.name for target in targets}), _stop_on_signals()
    sys.setswitchinterval(SWITCH_SECONDS)
    with _opened(effective) as kept:
        prepare(kept)
        notifier = notify.Notifier(assembly.notifications(effective), kept.notices(), clock=time.time)
        running = service.Service(
            plan,
            targets,
            kept,
            clock=time.time,
            bucket=bucket,
            config=lambda: settings.masked(in_force.settings),
            simulated=simulated,
            discovery=in_force.discovery,
            notifier=notifier,
            queried=assembly.query_reader(effective),
            shard=assembly.shard(effective),
            external_url=effective.web.external_url,
        )
        in_force.discovery.on_change(lambda: in_force.apply(running))
        reload = None if reread is None else _reloader(running, in_force, reread)
        file, guards = _door(effective)
        options = _options(effective, guards, running, reload)
        application = app.application(running.snapshot, options)
        async with _listening(application, effective, file.listening()) as address:
            _greet(f"{address}{options.prefix}/report", len(targets), effective, finders)
            with garbage.searched_shortly():
                await running.run(stop)


def _options(
    effective: Settings,
    guards: guard.Guard,
    running: service.Service,
    reload: Callable[[], Awaitable[str]] | None,
) -> app.Options:
    return app.Options(
        external_url=effective.web.external_url,
        route_prefix=effective.web.route_prefix or None,
        reload=reload if effective.web.enable_reload else None,
        guards=(guards.middleware,),
        tell=running.tell,
        probe=running.probe,
        runbook=lambda event: alerts.runbook(event, assembly.notifications(effective).site),
        grafana_url=effective.web.grafana_url,
    )


def _greet(report: str, count: int, effective: Settings, finders: Sequence[Provider]) -> None:
    """Say what is watched, and last where the report is."""
    watched = [f"{count} target{'' if count == 1 else 's'}"]
    watched += ["those that discovery finds"] if finders else []
    watched += ["those that the query API has"] if effective.prometheus.url else []
    print(f"specmon watches {' and '.join(watched)}. Report: {report}", flush=True)


def _stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    return stop


@contextlib.contextmanager
def _opened(effective: Settings) -> Iterator[store.Store]:
    try:
        wanted = effective.store
        kept = store.Store(wanted.path, retention=wanted.retention, size_limit=wanted.size_limit)
    except store.UnusableFileError as error:
        raise commands.Unusable(str(error)) from error
    try:
        yield kept
    finally:
        kept.close()


class _InForce:
    """The settings in force, and the discovery that they ask for."""

    def __init__(self, effective: Settings, finders: Sequence[Provider], taken: set[str]) -> None:
        self.settings = effective
        self.discovery = discovering.Discovery(finders, taken, _most(effective))

    def replace(self, new: Settings) -> None:
        """Go on with these settings, those aside that are read at the start only, which the log names.

        Raises MissingError, and changes nothing, where they cannot be met.
        """
        finders = assembly.providers(new)
        waiting = _waiting(self.settings, new)
        if waiting:
            log.warning("a restart is needed to take these up", extra={"settings": ",".join(waiting)})
        at_start = {section: getattr(self.settings, section) for section in READ_AT_START}
        self.settings = new.model_copy(update=at_start)
        self.discovery.replace(finders, {target.label for target in new.targets}, _most(new))

    def apply(self, running: service.Service) -> None:
        """Have the service watch the targets that are listed and those that are found."""
        found = self.discovery.targets
        running.replace(assembly.plan(self.settings, found), assembly.scrape_targets(self.settings, found))


def _most(effective: Settings) -> int:
    """Return how many targets may be found: each shard finds all of them and watches its share."""
    return effective.discovery.max_targets * effective.shards.total


def _waiting(old: Settings, new: Settings) -> list[str]:
    """Return the settings that differ and are not taken up before a restart."""
    return [
        f"{section}.{field}"
        for section in READ_AT_START
        for field in type(getattr(new, section)).model_fields
        if getattr(getattr(old, section), field) != getattr(getattr(new, section), field)
    ]


def _reloader(
    running: service.Service, in_force: _InForce, reread: Callable[[], Settings]
) -> Callable[[], Awaitable[str]]:
    """Return what reads the settings again; SIGHUP does it from now on."""

    async def reload() -> str:
        try:
            new = reread()
            in_force.replace(new)
            in_force.apply(running)
            running.notify(assembly.notifications(in_force.settings))
        except (settings.Invalid, settings.UnreadableFile, assembly.MissingError, ValueError) as error:
            log.error("the old settings stay in force: %s", error)  # noqa: TRY400 - expected
            running.note_reload(successful=False)
            return str(error)
        log.info("settings reloaded", extra={"targets": len(new.targets)})
        running.note_reload(successful=True)
        return ""

    _on_hangup(reload)
    return reload


def _on_hangup(reload: Callable[[], Awaitable[str]]) -> None:
    """Have SIGHUP reload; however many come within `HANGUP_SECONDS` are one."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    reloads: set[asyncio.Future[str]] = set()

    def begin() -> None:
        timers.clear()
        reloading = asyncio.ensure_future(reload())
        reloads.add(reloading)
        reloading.add_done_callback(reloads.discard)

    def hung_up() -> None:
        if not timers:
            timers.append(loop.call_later(HANGUP_SECONDS, begin))

    loop.add_signal_handler(signal.SIGHUP, hung_up)


def _door(effective: Settings) -> tuple[webfile.WebFile, guard.Guard]:
    """Return what stands before every path; raises Unusable where its file cannot be used."""
    web = effective.web
    try:
        file = webfile.WebFile(web.config_file)
    except (settings.Invalid, settings.UnreadableFile) as error:
        raise commands.Unusable(str(error)) from error
    rules = guard.Rules(web.hosts, web.admin_token.get_secret_value(), web.admin_token_file)
    if web.hosts is None and not web.config_file:
        log.info("other machines can read all pages: no web.config_file asks for a password or certificate")
    return file, guard.Guard(rules, file)


@contextlib.asynccontextmanager
async def _listening(
    application: http.Application, effective: Settings, tls: ssl.SSLContext | None
) -> AsyncIterator[str]:
    try:
        async with listening.listening(application, effective.web.sockets, tls) as addresses:
            host, port = addresses[0]
            shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host  # noqa: S104 - compared
            yield f"http{'' if tls is None else 's'}://{shown}:{port}"
    except listening.TakenError as error:
        raise commands.Unusable(str(error)) from error


if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
