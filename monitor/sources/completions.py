"""Asks a server of the OpenAI API for one completion and takes the time of its tokens."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from monitor.sources import credentials

if TYPE_CHECKING:
    from monitor.sources.targets import Tls

LONGEST_LINE_BYTES = 1 << 20
SHOWN_BYTES = 200


class FailedCompletionError(Exception):
    """A completion that was refused or broke off; the message says which server, what was read."""


@dataclass(frozen=True, slots=True)
class CompletionServer:
    """A server to ask; an `Addressee` of credentials. `url` ends before /v1 or with it."""

    url: str
    model_name: str
    headers: tuple[tuple[str, str], ...] = ()
    bearer_token: str | None = None
    bearer_token_file: str | None = None
    tls: Tls | None = None


@dataclass(frozen=True, slots=True)
class TimedCompletion:
    """One answer: seconds to the first and the last token, how many there were, their text."""

    first: float
    total: float
    tokens: int
    text: str


async def ask(
    session: aiohttp.ClientSession,
    server: CompletionServer,
    prompt: str,
    *,
    max_tokens: int,
    temperature: float,
    seconds: float,
) -> TimedCompletion:
    """Return one streamed completion, within so many `seconds`. Raises FailedCompletionError."""
    options = credentials.Credentials(server, credentials.Certificates(), {}).options()
    base = str(credentials.address(server.url)).rstrip("/").removesuffix("/v1")
    body = {
        "model": server.model_name,
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began = time.perf_counter()
    try:
        async with session.post(
            f"{base}/v1/completions", json=body, timeout=aiohttp.ClientTimeout(total=seconds), **options
        ) as response:
            if response.status != 200:  # noqa: PLR2004 - HTTP
                read = (await response.content.read(SHOWN_BYTES)).decode(errors="replace")
                raise FailedCompletionError(f"{base} answered {response.status}: {read}")
            return await _streamed(response, began, base)
    except (aiohttp.ClientError, TimeoutError, credentials.UnusableCredentialsError) as error:
        raise FailedCompletionError(f"{base}: {str(error) or type(error).__name__}") from error


async def _streamed(response: aiohttp.ClientResponse, began: float, base: str) -> TimedCompletion:
    """Read the server-sent events; tokens are those of the usage record, else one an event."""
    first = last = 0.0
    pieces: list[str] = []
    tokens = 0
    async for line in response.content:
        text = line.decode(errors="replace").strip()
        if not text.startswith("data:") or text == "data: [DONE]":
            continue
        try:
            event = json.loads(text.removeprefix("data:"))
            piece = "".join(str(choice.get("text") or "") for choice in event.get("choices") or ())
            usage = event.get("usage") or {}
        except (ValueError, AttributeError, RecursionError) as error:
            raise FailedCompletionError(f"{base}: read {text[:SHOWN_BYTES]!r}, expected an event") from error
        if piece:
            last = time.perf_counter() - began
            first = first or last
            pieces.append(piece)
        if isinstance(usage.get("completion_tokens"), int):
            tokens = usage["completion_tokens"]
    if not pieces:
        raise FailedCompletionError(f"{base}: the answer has no token")
    return TimedCompletion(first, last, tokens or len(pieces), "".join(pieces))
