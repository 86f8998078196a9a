"""Runs the service and its HTTP server until a signal, for `run` and `demo`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
from typing import TYPE_CHECKING

from aiohttp import web as http

from monitor import assembly, commands, service, settings, store
from monitor.web import app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from monitor.pipeline import Plan
    from monitor.settings import Settings
    from monitor.sources.targets import Target

log = logging.getLogger(__name__)


async def serve(
    effective: Settings,
    plan: Plan,
    targets: list[Target],
    *,
    reread: Callable[[], Settings] | None = None,
    bucket: float = 60.0,
    simulated: bool = False,
) -> None:
    """Run until SIGTERM or SIGINT. `reread` reads the settings again on SIGHUP; None where they are fixed."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    with _opened(effective) as kept:
        running = service.Service(
            plan,
            targets,
            kept,
            clock=time.time,
            bucket=bucket,
            config=lambda: settings.masked(effective),
            simulated=simulated,
        )
        reload = None if reread is None else _reloader(running, reread)
        if reload is not None:
            loop.add_signal_handler(signal.SIGHUP, lambda: asyncio.ensure_future(reload()))
        options = app.Options(
            external_url=effective.web.external_url,
            route_prefix=effective.web.route_prefix or None,
            reload=reload if effective.web.enable_reload else None,
        )
        async with _listening(app.application(running.snapshot, options), effective) as address:
            print(
                f"specmon watches {len(targets)} targets. Report: {address}{options.prefix}/report",
                flush=True,
            )
            await running.run(stop)


@contextlib.contextmanager
def _opened(effective: Settings) -> Iterator[store.Store]:
    try:
        kept = store.Store(effective.store.path, retention=effective.store.retention)
    except store.UnusableError as error:
        raise commands.Unusable(str(error)) from error
    try:
        yield kept
    finally:
        kept.close()


def _reloader(running: service.Service, reread: Callable[[], Settings]) -> Callable[[], Awaitable[str]]:
    async def reload() -> str:
        try:
            new = reread()
            running.replace(assembly.plan(new), assembly.scrape_targets(new))
        except (settings.Invalid, settings.Unreadable, ValueError) as error:
            log.error("the old settings stay in force: %s", error)  # noqa: TRY400 - expected
            running.note_reload(successful=False)
            return str(error)
        log.info("settings reloaded", extra={"targets": len(new.targets)})
        running.note_reload(successful=True)
        return ""

    return reload


@contextlib.asynccontextmanager
async def _listening(application: http.Application, effective: Settings) -> AsyncIterator[str]:
    runner = http.AppRunner(application, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        for host, port in effective.web.sockets:
            try:
                await http.TCPSite(runner, host, port).start()
            except OSError as error:
                raise commands.Unusable(f"cannot listen on {host or ''}:{port}: {error.strerror}") from error
        host, port = runner.addresses[0][:2]
        shown = "127.0.0.1" if host in ("0.0.0.0", "::", "") else f"[{host}]" if ":" in host else host  # noqa: S104 - compared
        yield f"http://{shown}:{port}"
    finally:
        await runner.cleanup()


if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
