"""The aiohttp application: paths, worker threads, compression, security headers and errors."""

from __future__ import annotations

import asyncio
import gzip
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING

from aiohttp import web

from monitor.metrics import selfmetrics
from monitor.web import answers, api, asking, gate, links, routes, tags, telling
from monitor.web.asking import Ask, Refused
from monitor.web.screens import layout, service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from aiohttp.typedefs import Middleware

    from monitor.web.answers import Answer
    from monitor.web.fields import Record
    from monitor.web.routes import Route
    from monitor.web.view import View

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

STATIC = {
    "report.css": "text/css; charset=utf-8",
    "report.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "specmon",
}
LARGEST_BODY_BYTES = 64 << 10
_PROBE_OFFSET_SECONDS = 0.5  # so much earlier than Prometheus gives up, as exporters do
_MOST_PROBES = 4
_WORTH_PACKING = 1024
_GZIP_LEVEL = 1
_THREADS = 2
# What machines ask for in short time, on a thread of its own: it must not wait behind people's big pages.
_URGENT = frozenset({"/metrics", "/-/ready"})


@dataclass(frozen=True, slots=True)
class Options:
    """How the application is reached; `reload` is None where reloading over HTTP is not enabled.

    `route_prefix` stands before every path here, `external_url` is how people reach us through a proxy;
    without a prefix of its own, the external URL's path is the prefix, as in Prometheus. `reload` returns an
    empty text, or one sentence that says why the old settings stay in force. `guards` stand before every
    path; `tell` keeps a change that somebody tells of, or gives back the one that has its id, and raises
    OSError where it cannot be kept; `probe` scrapes the target of that name once, within so many seconds
    (None: its own time).
    `runbook` gives the address of what to do about an event, `grafana_url` is where our dashboards are.
    """

    external_url: str = ""
    route_prefix: str | None = None
    reload: Callable[[], Awaitable[str]] | None = None
    tell: Callable[[Record], Awaitable[Record]] | None = None
    guards: tuple[Middleware, ...] = ()
    probe: Callable[[str, float | None], Awaitable[View | None]] | None = None
    runbook: Callable[[Record], str] = lambda _: ""
    grafana_url: str = ""

    @property
    def prefix(self) -> str:
        """The path before every route, without a last slash."""
        given = self.route_prefix
        if given is None:
            given = links.for_pages(self.external_url, "").base
        stripped = given.strip("/")
        return f"/{stripped}" if stripped else ""


def application(make_view: Callable[[], View], options: Options | None = None) -> web.Application:
    """Return the application; `make_view` is called on the event loop, once per request."""
    server = _Dispatcher(make_view, options or Options())
    app = web.Application(
        middlewares=[*server.options.guards, server.errors], client_max_size=LARGEST_BODY_BYTES
    )
    app.on_response_prepare.append(_secure)
    app.cleanup_ctx.append(server.threads)
    prefix = server.options.prefix
    for path, route in _routes().items():
        app.router.add_get(prefix + path, server.answering(route, urgent=path in _URGENT))
    app.router.add_get(f"{prefix}/-/healthy", _healthy)
    app.router.add_get(f"{prefix}/static/{{name}}", _static)
    app.router.add_get(f"{prefix}/probe", server.probe)
    app.router.add_post(f"{prefix}/-/reload", server.reload)
    app.router.add_post(f"{prefix}/api/v1/changes", server.tell)
    if prefix:
        for path in ("/", prefix):
            app.router.add_get(path, server.redirect)
    return app


def _routes() -> dict[str, Route]:
    # Names of streams hold slashes (model names do): their patterns take the rest of the path, and come last.
    return {
        "/": routes.landing,
        "/metrics": routes.metrics(selfmetrics.registry()),
        "/report": routes.report,
        "/report/events": routes.report_events,
        "/report/events.atom": routes.report_feed,
        "/report/what-if": routes.what_if,
        "/report/events/{event}": routes.report_event,
        "/report/models/{model:.+}": routes.report_model,
        "/report/{stream:.+}": routes.report_stream,
        "/targets": routes.targets,
        "/config": routes.config,
        "/-/ready": routes.ready,
        "/api/v1/openapi.json": api.openapi,
        "/api/v1/fleet": api.fleet,
        "/api/v1/models": api.models,
        "/api/v1/models/{model:.+}": api.model,
        "/api/v1/streams": api.streams,
        "/api/v1/streams/{stream:.+}": api.stream,
        "/api/v1/events": api.events,
        "/api/v1/events/{event}": api.event,
        "/api/v1/changes": api.changes,
        "/api/v1/history/{stream:.+}": api.history,
        "/api/v1/model-history/{model:.+}": api.model_history,
        "/api/v1/advice/{stream:.+}": api.advice,
        "/api/v1/what-if": api.what_if,
        "/api/v1/verdict": gate.verdict,
    }


class _Dispatcher:
    """Joins routes with requests: makes the view, runs the route on a thread, packs its answer."""

    def __init__(self, make_view: Callable[[], View], options: Options) -> None:
        self.options = options
        self._make_view = make_view
        self._pages = links.for_pages(options.external_url, options.prefix)
        self._programs = links.for_programs(options.external_url, options.prefix)
        self._executor: ThreadPoolExecutor | None = None
        self._urgent: ThreadPoolExecutor | None = None
        self._probes = 0

    async def threads(self, _: web.Application) -> AsyncIterator[None]:
        """Keep a few threads while the application runs, so that a big page does not stop the scrapes."""
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="web")
        self._urgent = ThreadPoolExecutor(1, thread_name_prefix="web urgent")
        yield
        for executor in (self._executor, self._urgent):
            executor.shutdown(wait=False, cancel_futures=True)

    def answering(self, route: Route, *, urgent: bool = False) -> Handler:
        """Return the handler of a route."""

        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._respond(request, route, urgent=urgent)

        return handle

    @web.middleware
    async def errors(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn what is refused, here or by aiohttp, into a page or JSON that says why."""
        try:
            return await handler(request)
        except Refused as refused:
            status, message, headers = refused.status, refused.message, {}
        except web.HTTPMethodNotAllowed as refused:
            allowed = ", ".join(sorted(refused.allowed_methods))
            status, headers = 405, {"Allow": allowed}
            message = f"{request.method} is not possible on {request.path}; expected {allowed}"
        except web.HTTPNotFound:
            status, headers = 404, {}
            message = f"there is no page {request.path}; {self.options.prefix}/ lists them"
        response = await self._respond(request, lambda ask, _: _error(ask, request.path, status, message))
        response.headers.update(headers)
        return response

    async def reload(self, _: web.Request) -> web.StreamResponse:
        """Answer `POST /-/reload`."""
        if self.options.reload is None:
            raise Refused(403, "reloading over HTTP is not enabled; the setting web.enable_reload enables it")
        failure = await self.options.reload()
        if failure:
            raise Refused(500, f"the old settings stay in force: {failure}")
        return web.Response(text="reloaded\n")

    async def tell(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /api/v1/changes`: 201 where the change is new, 200 where it was told before."""
        if self.options.tell is None:
            raise Refused(403, "changes cannot be told to this monitor")
        told = telling.read(await request.read(), self._make_view().now)
        try:
            kept = await self.options.tell(told)
        except OSError as error:
            raise Refused(503, f"the change is not kept, tell it again: {error}") from error
        status = HTTPStatus.CREATED if kept is told else HTTPStatus.OK
        telling.refuse_other(kept, told)
        return await self._respond(request, lambda _, __: answers.as_json(kept, status))

    async def probe(self, request: web.Request) -> web.StreamResponse:
        """Answer `/probe?target=`: one scrape of a target that is listed, as a metrics page of its own."""
        name = request.query.get("target", "")
        if self.options.probe is None or self._probes >= _MOST_PROBES:
            raise Refused(503, "no probe is possible now")
        asked = asking.seconds(request.headers.get("X-Prometheus-Scrape-Timeout-Seconds", ""))
        self._probes += 1
        try:
            view = await self.options.probe(name, asked and max(asked - _PROBE_OFFSET_SECONDS, 0.1))
        finally:
            self._probes -= 1
        if view is None:
            raise Refused(404, f"no target {name[:80]!r}; /targets lists those that can be probed")
        return await self._respond(request, routes.probed, view=view)

    async def redirect(self, _: web.Request) -> web.StreamResponse:
        """Send whoever asks for the bare root to the landing page."""
        raise web.HTTPFound(self._pages.to("/"))

    async def _respond(
        self, request: web.Request, route: Route, *, urgent: bool = False, view: View | None = None
    ) -> web.Response:
        view = view or self._make_view()
        ask = self._ask(request, view)
        packed = asking.accepts_gzip(request.headers.get("Accept-Encoding", ""))
        loop = asyncio.get_running_loop()
        executor = self._urgent if urgent else self._executor
        answer, body = await loop.run_in_executor(executor, _work, route, ask, view, packed)
        response = web.Response(
            body=body, status=answer.status, headers={"Content-Type": answer.content_type}
        )
        response.headers["Vary"] = "Accept, Accept-Encoding"
        response.headers["Cache-Control"] = "no-store"
        if "/api/v1/" in request.path and answer.status == HTTPStatus.OK:
            tag = tags.of(answer.body, view.now)
            response.headers["Cache-Control"] = "no-cache"
            response.headers["ETag"] = tag
            if tags.matches(request.headers.get("If-None-Match", ""), tag):
                kept = {name: response.headers[name] for name in ("Vary", "Cache-Control", "ETag")}
                return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=kept)
        if body is not answer.body:
            response.headers["Content-Encoding"] = "gzip"
        return response

    def _ask(self, request: web.Request, view: View) -> Ask:
        refresh = request.query.get("refresh", "")
        seconds = int(refresh) if refresh.isascii() and refresh.isdigit() and len(refresh) < 5 else 0  # noqa: PLR2004
        site = layout.Site(
            self._pages,
            view.version,
            view.now,
            view.simulated,
            seconds,
            self.options.runbook,
            self.options.grafana_url,
        )
        accept = request.headers.get("Accept", "")
        return Ask(dict(request.query), dict(request.match_info), accept, site, self._programs)


def _work(route: Route, ask: Ask, view: View, packed: bool) -> tuple[Answer, bytes]:  # noqa: FBT001
    answer = route(ask, view)
    if packed and len(answer.body) > _WORTH_PACKING:
        return answer, gzip.compress(answer.body, _GZIP_LEVEL, mtime=0)
    return answer, answer.body


def _error(ask: Ask, path: str, status: int, message: str) -> Answer:
    reason = {400: "Bad request", 403: "Forbidden", 404: "Not found", 405: "Method not allowed"}.get(
        status, "Error"
    )
    types = ["text/html", "application/json", "text/plain"]
    liked = asking.best_media_type(ask.accept, types)
    if "/api/" in path or liked == "application/json" or ask.query.get("format") == "json":
        return answers.as_json({"status": status, "error": message}, status)
    if liked == "text/html" and ask.accept.strip() != "*/*":
        return answers.html(service.error(ask.site, status, reason, message), status)
    return answers.text(f"{status} {reason}: {message}\n", status)


async def _secure(_: web.Request, response: web.StreamResponse) -> None:
    # What the web configuration file says stays; the library's own name never does.
    missing = {name: value for name, value in HEADERS.items() if name not in response.headers}
    response.headers.update(missing | {"Server": HEADERS["Server"]})


async def _healthy(_: web.Request) -> web.StreamResponse:
    return web.Response(text="specmon is alive\n")


async def _static(request: web.Request) -> web.StreamResponse:
    name = request.match_info["name"]
    if name not in STATIC:
        raise web.HTTPNotFound
    body = resources.files("monitor.web").joinpath("static", name).read_bytes()
    headers = {"Content-Type": STATIC[name], "Cache-Control": "max-age=300"}
    return web.Response(body=body, headers=headers)
