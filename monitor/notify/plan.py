"""Whom to tell, of what, and where the links in a notification lead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from monitor.core.vocabulary import SEVERITIES, Severity

if TYPE_CHECKING:
    from monitor.sources.targets import Tls


@dataclass(frozen=True, slots=True)
class Receiver:
    """An Alertmanager or a webhook; `name` is unique among both and shown, the path of a webhook never is."""

    kind: Literal["alertmanager", "webhook"]
    name: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    bearer_token: str = ""
    bearer_token_file: str = ""
    tls: Tls | None = None

    @property
    def shown(self) -> str:
        """Where it is, for a log: without password, and of a webhook without its path."""
        parts = urlsplit(self.url)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path if self.kind == 'alertmanager' else '/…'}"


@dataclass(frozen=True, slots=True)
class LinkBases:
    """What links begin with: this monitor's own address, the folder of the runbooks; empty: no such link."""

    report: str = ""
    runbooks: str = ""


@dataclass(frozen=True, slots=True)
class NotifyPlan:
    """All that notifying needs to know; without receivers nothing is ever told.

    `resend_seconds` is how often an open alert is posted to an Alertmanager again; one that is not posted
    for four times as long ends there by itself.
    """

    receivers: tuple[Receiver, ...] = ()
    min_severity: Severity = "warning"
    resend_seconds: float = 60.0
    site: LinkBases = LinkBases()

    def covers(self, severity: object) -> bool:
        """Return whether an event of this severity is told."""
        return severity in SEVERITIES[: SEVERITIES.index(self.min_severity) + 1]
