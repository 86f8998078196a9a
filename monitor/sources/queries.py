"""Asks the query API of Prometheus, Thanos, Mimir or VictoriaMetrics; its error says what went wrong."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Self, get_args

import aiohttp

from monitor.sources import bodies, client, credentials, lookups, targets
from monitor.sources.vectors import QueriedSeries

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.sources.targets import Tls

Reason = Literal[
    "timeout", "connection", "dns", "tls", "unauthorised", "http_status", "too_large", "refused", "malformed"
]
REASONS: tuple[Reason, ...] = get_args(Reason)
MOST_POINTS = 11_000  # of one series that Prometheus answers with
_SHOWN = 300
_OK = 200
_UNAUTHORISED = frozenset((401, 403))
# Thanos would answer without what a store does not tell, VictoriaMetrics would move the times of a range.
_ALWAYS = {"partial_response": "false", "nocache": "1"}
_API = "/api/v1"


class QueryError(Exception):
    """A query without a usable answer; `reason` for machines, the message for people."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class QueryServer:
    """Where the API is and what it is shown. `timeout` is in seconds, `body_limit` in bytes, unpacked."""

    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    bearer_token: str = field(default="", repr=False)
    bearer_token_file: str = ""
    tls: Tls | None = None
    timeout: float = 30.0
    body_limit: int = 256 << 20


class Api:
    """The connections to one server; `async with` opens and closes them."""

    def __init__(self, server: QueryServer) -> None:
        self._server = server
        self._base = str(credentials.address(server.url)).rstrip("/").removesuffix(_API)
        certificates = credentials.Certificates()
        self._credentials = credentials.Credentials(server, certificates, {"User-Agent": client.USER_AGENT})
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=self._server.timeout)
        self._session = aiohttp.ClientSession(connector=lookups.connector(), timeout=timeout)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def instant(self, query: str, unix_seconds: float) -> list[QueriedSeries]:
        """Return the series at one time; raises QueryError."""
        return await self._asked("/query", {"query": query, "time": f"{unix_seconds:.3f}"})

    async def over(self, query: str, start: float, end: float, step: float) -> list[QueriedSeries]:
        """Return the series at `start` and each `step` later up to `end`; raises QueryError."""
        times = {"start": f"{start:.3f}", "end": f"{end:.3f}", "step": f"{step:.3f}"}
        return await self._asked("/query_range", {"query": query, **times})

    async def _asked(self, path: str, parameters: Mapping[str, str]) -> list[QueriedSeries]:
        url = f"{self._base}{_API}{path}"
        try:
            body = await self._posted(
                url, {**parameters, **_ALWAYS, "timeout": f"{self._server.timeout * 1000:.0f}ms"}
            )
            # Beside the event loop: an answer for thousands of engines takes a while to read.
            return await asyncio.to_thread(read, body)
        except QueryError as error:
            raise QueryError(error.reason, f"{targets.shown(url)}: {error}") from None

    async def _posted(self, url: str, form: Mapping[str, str]) -> bytes:
        assert self._session is not None, "used outside `async with`"  # noqa: S101 - a mistake of the caller
        limit = self._server.body_limit
        try:
            async with self._session.post(url, data=form, **self._credentials.options()) as answer:
                body = await bodies.received(answer, limit)
                if answer.status != _OK:
                    raise _refused(answer, body)
                return body
        except bodies.TooLongError:
            detail = f"the answer is longer than {limit} bytes, expected less"
            raise QueryError(
                "too_large", f"{detail}: narrow prometheus.selector or raise body_limit"
            ) from None
        except credentials.UnusableCredentialsError as error:
            raise QueryError(error.reason, str(error)) from None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise _explained(error, self._server.timeout) from error


def read(body: bytes) -> list[QueriedSeries]:
    """Return the series of an answer, vector or matrix; raises QueryError where it is none."""
    try:
        answer = json.loads(body)
        if answer["status"] != "success":
            raise QueryError("refused", f"{answer.get('errorType', 'error')}: {answer.get('error', '')}")
        kind = answer["data"]["resultType"]
        if kind not in ("vector", "matrix"):
            raise QueryError("malformed", f"read a result of type {kind!r}, expected a vector or a matrix")
        return [
            QueriedSeries(
                _labels(each["metric"]), _values(each["values"] if kind == "matrix" else [each["value"]])
            )
            for each in answer["data"]["result"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        shown = repr(body[:_SHOWN].decode("utf-8", "replace"))
        raise QueryError("malformed", f"read {shown}, expected the JSON of a query API") from None


def _labels(metric: dict[str, str]) -> dict[str, str]:
    """Return the labels; raises what `read` catches where they are no mapping of texts."""
    "".join([*metric.keys(), *metric.values()]).encode()
    return metric


def _values(pairs: list[tuple[float, str]]) -> dict[float, str]:
    return {round(float(at), 3): str(value) for at, value in pairs}


def _refused(answer: aiohttp.ClientResponse, body: bytes) -> QueryError:
    status = f"read status {answer.status} {answer.reason}"
    if answer.status in _UNAUTHORISED:
        return QueryError("unauthorised", f"{status}, expected to be let in")
    try:
        told = json.loads(body)
        return QueryError("refused", f"{status} ({told['errorType']}: {str(told['error'])[:_SHOWN]})")
    except (ValueError, KeyError, TypeError, RecursionError):
        text = " ".join(body[:_SHOWN].decode("utf-8", "replace").split())
        return QueryError("http_status", f"{status}{f' ({text})' if text else ''}, expected 200")


def _explained(error: Exception, timeout: float) -> QueryError:
    if isinstance(error, TimeoutError):
        return QueryError("timeout", f"no whole answer within {timeout:g}s")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return QueryError("dns", f"the host name cannot be resolved ({error})")
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return QueryError("tls", f"no TLS connection ({error})")
    if isinstance(error, aiohttp.ClientError):
        return QueryError("connection", f"no connection ({error})")
    return QueryError("connection", f"no request can be made ({error})")
