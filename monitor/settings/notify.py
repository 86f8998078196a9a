"""The settings of notifications: who is told of events directly, without Prometheus rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from monitor.core.vocabulary import Severity
from monitor.settings import section
from monitor.settings.section import NO_SECRET, Addressed, Section, TlsSettings
from monitor.settings.values import (
    Duration,
    Header,
    ListOf,
    Name,
    OptionalUrl,
    ReadableFile,
    Secret,
    Url,
    WebhookUrl,
)


class ReceiverSettings(Addressed):
    """Somebody who is told: a URL, or a mapping of these."""

    url: Url = Field(
        description="Address, with the path prefix if there is one; each of a cluster by itself."
    )
    name: Name = Field("", description="Label `receiver` of the metrics; by default the URL's host:port.")
    headers: Mapping[Header, Secret] = Field({}, description="Headers to send. Their values are never shown.")
    bearer_token: Secret = Field(NO_SECRET, description="Token to send.")
    bearer_token_file: ReadableFile = Field(
        "", description="File that holds the token; read with every post."
    )
    tls: TlsSettings = Field(TlsSettings(), description="TLS of this address.")

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        section.refuse_two_tokens(self.bearer_token, self.bearer_token_file)
        return self

    @property
    def label(self) -> str:
        """The name that the receiver goes by; a path would tell the secret of many webhooks."""
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return self.name or f"{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"


class Webhook(ReceiverSettings):
    """A URL that takes each change of an event once, as JSON."""

    url: WebhookUrl = Field(
        repr=False, description="Address; its path is never shown, since it often is the secret."
    )


class Notify(Section):
    """Who is told of events directly; nobody by default, for where Prometheus has the rules in alerts/."""

    alertmanagers: ListOf[ReceiverSettings] = Field(
        (), description="Alertmanagers to post alerts to: URLs or mappings, every member of a cluster."
    )
    webhooks: ListOf[Webhook] = Field(
        (), description="Webhooks to post each change of an event to: URLs or mappings."
    )
    min_severity: Severity = Field("warning", description="Least severe event that is told.")
    resend_interval: Duration = Field(
        60.0, ge=1, description="Time after which an open alert is posted to Alertmanagers again."
    )
    runbooks_url: OptionalUrl = Field(
        "", description="Where alerts/runbooks is published, for the link in a notification."
    )

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        seen = set()
        for receiver in (*self.alertmanagers, *self.webhooks):
            if receiver.label in seen:
                raise ValueError(f"expected different names, read {receiver.label!r} twice; set `name`")
            seen.add(receiver.label)
        return self
