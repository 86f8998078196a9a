"""What the log says of a target that cannot be watched as it should: once when it begins, once at its end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monitor.core.pages.scrapes import Failure

log = logging.getLogger(__name__)


class Complaints:
    """Remembers what was said already."""

    def __init__(self) -> None:
        self._failing: dict[str, str] = {}
        self._crowded: set[str] = set()

    def tell_failure(self, name: str, failure: Failure | None) -> None:
        """Say that a target has no good page, and why, or that it has one again (`failure` None)."""
        reason = failure.reason if failure is not None else ""
        if reason == self._failing.get(name, ""):
            return
        if failure is not None:
            log.warning("no good page", extra={"target": name, "reason": reason, "detail": failure.detail})
            self._failing[name] = reason
        else:
            log.info("a good page again", extra={"target": name})
            del self._failing[name]

    def tell_dropped(self, name: str, streams: int) -> None:
        """Say that there is no room for so many streams of a target, where there are any."""
        if streams and name not in self._crowded:
            log.warning("no room for more streams", extra={"target": name, "streams_left_out": streams})
            self._crowded.add(name)

    def forget(self, name: str) -> None:
        """Begin anew with a target that has ended or changed."""
        self._failing.pop(name, None)
        self._crowded.discard(name)
