"""The settings of discovery: where the list of targets comes from when nobody writes it down."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from monitor.settings import section
from monitor.settings.section import NO_SECRET, Addressed, Section, TlsSettings
from monitor.settings.values import Duration, ListOf, ReadableFile, Secret, Url, WholeNumber

_MAX_PORT = 65_535
# What Kubernetes lets a port be called.
_PORT_NAME = re.compile(r"(?=.{1,15}$)(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*")


class HttpDiscovery(Addressed):
    """A URL that answers with Prometheus's list of target groups as JSON (http_sd)."""

    url: Url = Field(description="Address that answers with target groups as JSON, as Prometheus's http_sd.")
    bearer_token: Secret = Field(NO_SECRET, description="Token to send.")
    bearer_token_file: ReadableFile = Field(
        "", description="File that holds the token; read again when it changes."
    )
    tls: TlsSettings = Field(TlsSettings(), description="TLS of this address.")

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        section.refuse_two_tokens(self.bearer_token, self.bearer_token_file)
        return self


class KubernetesDiscovery(Section):
    """The pods that a label selector finds."""

    selector: str = Field(description="Label selector of the engines' pods, such as `app=vllm,tier!=test`.")
    namespaces: ListOf[str] = Field(
        (), description="Namespaces to look in, `*` for all. Empty: the monitor's own."
    )
    port: str = Field(
        "8000", description="Port of the metrics page, by number or by its name in the container."
    )
    path: str = Field("/metrics", description="Path of the metrics page.")
    scheme: Literal["http", "https"] = Field("http", description="Protocol of the metrics page.")
    kubeconfig: ReadableFile = Field(
        "", description="File with access to the cluster. Empty: the pod's own service account."
    )

    @field_validator("selector")
    @classmethod
    def _some(cls, given: str) -> str:
        if not given.strip():
            raise ValueError("expected a label selector such as app=vllm")
        return given

    @field_validator("path")
    @classmethod
    def _absolute(cls, given: str) -> str:
        if not re.fullmatch(r"/\S*", given):
            raise ValueError("expected a path such as /metrics")
        return given

    @field_validator("port", mode="before")
    @classmethod
    def _text(cls, given: object) -> object:
        return str(given) if isinstance(given, int) and not isinstance(given, bool) else given

    @field_validator("port")
    @classmethod
    def _port(cls, given: str) -> str:
        named = _PORT_NAME.fullmatch(given) is not None
        if not named and not (given.isascii() and given.isdigit() and 0 < int(given) <= _MAX_PORT):
            raise ValueError("expected a port such as 8000, or the name of one such as http")
        return given

    @field_validator("namespaces")
    @classmethod
    def _all_or_some(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if "*" in given and len(given) > 1:
            raise ValueError("expected * alone or names of namespaces")
        return tuple(dict.fromkeys(given))


class DiscoverySettings(Section):
    """Where targets are found, beside those that are listed."""

    files: ListOf[str] = Field(
        (), description="Files with target groups as JSON or YAML, as Prometheus's file_sd; `*` is allowed."
    )
    http: ListOf[HttpDiscovery] = Field((), description="URLs, or mappings of the settings below.")
    dns: ListOf[str] = Field((), description="Names whose SRV records are targets. Needs `specmon[dns]`.")
    kubernetes: ListOf[KubernetesDiscovery] = Field(
        (), description="Pods, as mappings of the settings below. Needs `specmon[kubernetes]`."
    )
    interval: Duration = Field(
        30.0, ge=1, description="Time from one look at files, URLs and names to the next; pods are watched."
    )
    max_targets: WholeNumber = Field(
        5000,
        ge=1,
        description="Most targets that are watched, per shard; what is found beyond is counted and left out.",
    )
    forget_after: Duration = Field(
        86_400.0, ge=600, description="Time after which the baseline of a target that is gone is forgotten."
    )

    @property
    def configured(self) -> bool:
        """Whether targets are looked for anywhere."""
        return bool(self.files or self.http or self.dns or self.kubernetes)
