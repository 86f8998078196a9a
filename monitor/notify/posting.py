"""One HTTP exchange with a receiver: a post that is accepted or not, and the question since when it runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp

from monitor.sources import bodies, credentials

if TYPE_CHECKING:
    from monitor.notify.plan import Receiver

LONGEST_ASKED_PAUSE_SECONDS = 600.0
TEXT_SHOWN = 200
LARGEST_STATUS_BYTES = 1 << 20
_ALERTS = "/api/v2/alerts"
_STATUS = "/api/v2/status"
_OK = 200
# The message itself is refused, not us and not for now: the same again would be refused again.
_FINAL = frozenset((400, 413, 422))


class UndeliveredError(Exception):
    """A post that was not accepted; the message says what was read and what was expected.

    `final` where the same would be refused again, `pause` the seconds that the receiver asked us to wait.
    """

    def __init__(self, message: str, *, final: bool = False, pause: float = 0.0) -> None:
        super().__init__(message)
        self.final = final
        self.pause = pause


class Line:
    """The line to one receiver; token and certificates are read again for each exchange."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._credentials = credentials.Credentials(receiver, credentials.Certificates(), {})
        self._base = str(credentials.address(receiver.url))
        if receiver.kind == "alertmanager":
            # Also where the address of its API was given.
            self._base = self._base.rstrip("/").removesuffix(_ALERTS).removesuffix("/api/v2").rstrip("/")

    async def post(self, session: aiohttp.ClientSession, content: object, key: str) -> None:
        """Post JSON; raises UndeliveredError. `key` lets a webhook know a second attempt as one."""
        hook = self._receiver.kind == "webhook"
        url = self._base if hook else self._base + _ALERTS
        try:
            options = self._credentials.options()
            if hook:
                options["headers"] = {**options["headers"], "Idempotency-Key": key}
            async with session.post(url, json=content, **options) as answer:
                if answer.status // 100 != 2:  # noqa: PLR2004 - the range of success
                    raise await _refusal(answer)
        except (
            aiohttp.ClientError,
            credentials.UnusableCredentialsError,
            TimeoutError,
            OSError,
            ValueError,
        ) as error:
            raise UndeliveredError(_explained(error)) from error

    async def started(self, session: aiohttp.ClientSession) -> str:
        """Return since when an Alertmanager runs, as it says it; empty where it does not say."""
        try:
            async with session.get(self._base + _STATUS, **self._credentials.options()) as answer:
                if answer.status != _OK:
                    return ""
                return _uptime(await bodies.received(answer, LARGEST_STATUS_BYTES))
        except (aiohttp.ClientError, credentials.UnusableCredentialsError, OSError, ValueError):
            return ""  # the post will say what is wrong
        except bodies.TooLongError:
            return ""  # an answer that does not say it


def _uptime(body: bytes) -> str:
    """Return what the answer says, whatever it is: its size is bounded, its words and its depth are not."""
    try:
        return str(json.loads(body).get("uptime", ""))[:TEXT_SHOWN]
    except (ValueError, AttributeError, RecursionError):
        return ""


async def _refusal(answer: aiohttp.ClientResponse) -> UndeliveredError:
    text = " ".join((await answer.content.read(4 * TEXT_SHOWN)).decode(errors="replace").split())[:TEXT_SHOWN]
    message = f"read status {answer.status} {answer.reason}{f' ({text})' if text else ''}, expected 2xx"
    asked = answer.headers.get("Retry-After", "")
    pause = min(float(asked), LONGEST_ASKED_PAUSE_SECONDS) if asked.isdecimal() else 0.0
    return UndeliveredError(message, final=answer.status in _FINAL, pause=pause)


def _explained(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientResponseError):  # its text has the URL, whose path may be a secret
        return f"read what is no HTTP/1.1 answer ({error.message.strip().partition(chr(10))[0][:TEXT_SHOWN]})"
    if isinstance(error, aiohttp.InvalidURL):
        return "the URL cannot be asked"
    return str(error) or type(error).__name__
