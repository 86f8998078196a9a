"""Where a target's page may be when its URL does not say.

Paths are tried in the order of `engines.PROBE_PATHS`. Ports are tried only where the URL has none and nothing
secret goes along with the request, which is meant for the server that the operator named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarl import URL

from monitor.core.pages import engines

if TYPE_CHECKING:
    from monitor.sources.targets import Target


def places(target: Target) -> tuple[URL, ...]:
    """Return the URLs to try, best first: one where the target's URL has a path, as it is."""
    url = URL(target.url)
    if url.path not in ("", "/"):
        return (url,)
    ports: list[int | None] = [url.explicit_port]
    if url.explicit_port is None and not _has_secrets(target):
        ports += engines.PROBE_PORTS
    return tuple(
        url.with_port(port).with_path(path, keep_query=True) for port in ports for path in engines.PROBE_PATHS
    )


def is_engine(page: bytes) -> bool:
    """Return whether a page is one of an engine, and not only one that is known."""
    schema = engines.recognise(page)
    return schema is not None and schema.engine.name in engines.ENGINES


def _has_secrets(target: Target) -> bool:
    given = (target.headers, target.bearer_token, target.bearer_token_file, URL(target.url).password)
    return any(bool(each) for each in given)
