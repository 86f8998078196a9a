"""The description of an HTTP target: where its pages are, how they are asked for, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field

from yarl import URL

ONCE = float("inf")


@dataclass(frozen=True, slots=True)
class Tls:
    """How a target's certificate is checked, and the certificate that it is shown."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


@dataclass(frozen=True, slots=True)
class Beside:
    """Another page of the engine.

    `period` is in seconds: 0 with every scrape, ONCE at the start and after a restart.
    """

    path: str
    period: float = ONCE


@dataclass(frozen=True, slots=True)
class Target:
    """One page to read every `interval` seconds, and what to send with the request.

    A `url` without a path is probed (`sources.probing`). `headers` and the token are sent to this host only.
    `body_limit` is in bytes and holds for the unpacked page. Raises ValueError where the timeout is not
    shorter than the interval or the URL is none.
    """

    name: str
    url: str
    labels: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    bearer_token_file: str | None = None
    tls: Tls | None = None
    interval: float = 15.0
    timeout: float = 10.0
    body_limit: int = 32 << 20
    beside: tuple[Beside, ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.timeout < self.interval:
            read = f"timeout {self.timeout:g}s, interval {self.interval:g}s"
            raise ValueError(f"target {self.name}: {read}; expected a timeout above 0 and below the interval")
        url = URL(self.url)
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError(
                f"target {self.name}: {shown(self.url)!r} is no http:// or https:// URL with a host"
            )


def shown(url: str | URL) -> str:
    """Return the URL for messages: without user and password, the values of its query masked."""
    try:
        parsed = URL(url) if isinstance(url, str) else url
        bare = parsed.with_user(None) if parsed.raw_user or parsed.raw_password else parsed
        if not bare.raw_query_string:
            return str(bare)
        return f"{bare.with_query(None)}?{'&'.join(f'{name}=…' for name in bare.query)}"
    except ValueError:
        return "<not a URL>"
