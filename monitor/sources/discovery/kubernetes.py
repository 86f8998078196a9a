"""Targets from a cluster: the pods that a label selector finds in one namespace, listed and then watched.

After an interruption the watch goes on from the last version seen; where the server no longer has that
(410 Gone), the pods are listed anew. The role needs get, list and watch on pods.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from httpx2 import HTTPError, HTTPStatusError
from lightkube import AsyncClient, KubeConfig
from lightkube.core.exceptions import ApiError, ConfigError
from lightkube.resources.core_v1 import Pod

from monitor.sources.discovery import Failed, Found, pods

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

    from lightkube.config.kubeconfig import SingleConfig

    from monitor.sources.discovery.pods import PodPage

log = logging.getLogger(__name__)

ALL_NAMESPACES = "*"
PODS_PER_ANSWER = 500
WATCH_SECONDS = 300  # the server ends a watch after this time, and the next one goes on from there
QUIET_SECONDS = WATCH_SECONDS + 30.0  # a connection that says nothing for longer is dead
LONGEST_PAUSE_SECONDS = 60.0
_GONE = 410
_REFUSED = (401, 403)
_EXPECTED = (HTTPError, ConfigError, msgspec.MsgspecError, OSError, KeyError)


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods with `selector` in `namespace` (`*`: all, empty: the monitor's own), and where their page is.

    `kubeconfig` is a file; empty: the service account that a pod finds mounted.
    """

    selector: str
    page: PodPage
    namespace: str = ""
    kubeconfig: str = ""
    kind: str = "kubernetes"

    async def news(self) -> AsyncGenerator[tuple[Found, ...] | Failed, None]:
        """Tell the targets after the list and after each change of one of the pods."""
        known = _Known(self.page)
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            begun = loop.time()
            try:
                async with aclosing(self._session(known)) as session:
                    async for targets in session:
                        yield targets
            except _EXPECTED as error:
                failures = 1 if loop.time() - begun > LONGEST_PAUSE_SECONDS else failures + 1
                if _status(error) == _GONE and known.version:
                    known.version = ""
                else:
                    yield Failed(f"{self._where()}: {_explained(error)}")
            await asyncio.sleep(pause(failures))

    async def _session(self, known: _Known) -> AsyncGenerator[tuple[Found, ...], None]:
        """List the pods if there is no version to go on from, and watch them until something fails."""
        client = AsyncClient(_access(self.kubeconfig))
        try:
            while True:
                if not known.version:
                    yield await self._list(client, known)
                async with aclosing(self._changes(client, known.version)) as changes:
                    async for what, pod in changes:
                        if known.note(what, pod):
                            yield known.targets()
        finally:
            await client.close()

    async def _list(self, client: AsyncClient, known: _Known) -> tuple[Found, ...]:
        # A key without a value is sent as it stands, so that the selector can be any that kubectl takes.
        listed = client.list(
            Pod,
            namespace=self.namespace or None,
            labels={self.selector: None},
            chunk_size=PODS_PER_ANSWER,
        )
        known.begin([pod async for pod in listed], listed.resourceVersion)
        return known.targets()

    async def _changes(self, client: AsyncClient, version: str) -> AsyncGenerator[tuple[str, Pod], None]:
        """Yield the changes since `version` until the connection has been quiet for too long."""
        watch: AsyncIterator[tuple[str, Pod]] = aiter(
            client.watch(
                Pod,
                namespace=self.namespace or None,
                labels={self.selector: None},
                resource_version=version,
                server_timeout=WATCH_SECONDS,
            )
        )
        try:
            while True:
                async with asyncio.timeout(QUIET_SECONDS):
                    change = await anext(watch)
                yield change
        except (TimeoutError, StopAsyncIteration):
            return

    def _where(self) -> str:
        return f"pods {self.selector!r} in {self.namespace or 'the own namespace'}"


class _Known:
    """The pods' targets as of a version."""

    def __init__(self, page: PodPage) -> None:
        self.version = ""
        self._page = page
        self._targets: dict[tuple[str, str], Found] = {}
        self._said: set[str] = set()

    def targets(self) -> tuple[Found, ...]:
        """Return the targets of all pods."""
        return tuple(self._targets.values())

    def begin(self, listed: list[Pod], version: str) -> None:
        """Forget all pods but those that are listed."""
        self._targets.clear()
        self._said.clear()
        for pod in listed:
            self._put(pod)
        self.version = version

    def note(self, kind: str, pod: Pod) -> bool:
        """Take in one change; return whether it changes the targets."""
        before = self._targets.get(_key(pod))
        if kind == "DELETED":
            self._targets.pop(_key(pod), None)
        else:
            self._put(pod)
        if pod.metadata and pod.metadata.resourceVersion:
            self.version = pod.metadata.resourceVersion
        return self._targets.get(_key(pod)) != before

    def _put(self, pod: Pod) -> None:
        found = pods.target(pod, self._page)
        if found is None:
            self._targets.pop(_key(pod), None)
        else:
            self._targets[_key(pod)] = found
        for problem in pods.problems(pod, self._page):
            if problem not in self._said:
                self._said.add(problem)
                log.warning("pod %s: %s", "/".join(_key(pod)), problem)


def pause(failures: int) -> float:
    """Return the seconds to wait after so many failures in a row: 1, 2, 4 … 60."""
    return min(2.0 ** (failures - 1), LONGEST_PAUSE_SECONDS) if failures else 0.0


def _access(kubeconfig: str) -> SingleConfig:
    """Return how to reach the cluster and as whom; raises ConfigError."""
    try:
        config = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_service_account()
        access = config.get()
    except Exception as error:  # the library lets through whatever its parsers raise
        reason = f"no access to a cluster ({type(error).__name__}: {error})"
        raise ConfigError(f"{reason}, expected a service account or a kubeconfig") from error
    if access is None or access.user is None:
        raise ConfigError(f"{kubeconfig}: no current context with a user, expected one")
    return access


def _key(pod: Pod) -> tuple[str, str]:
    meta = pod.metadata
    return (meta.namespace or "", meta.name or "") if meta else ("", "")


def _status(error: BaseException) -> int | None:
    """Return the HTTP status of an answer, also of one that came as a line of a watch."""
    if isinstance(error, ApiError) and error.status.code:
        return error.status.code
    return error.response.status_code if isinstance(error, HTTPStatusError) else None


def _explained(error: Exception) -> str:
    if isinstance(error, ConfigError):
        return str(error)
    first = str(error).partition("\n")[0]
    if (status := _status(error)) is not None:
        expected = "the right to list and watch pods" if status in _REFUSED else "a list of pods"
        return f"read status {status} ({first}), expected {expected}"
    return f"no answer from the API server ({type(error).__name__}: {first})"
