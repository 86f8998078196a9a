"""The settings of the query source: a Prometheus-compatible API that has the engines' series already."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from monitor.settings import section
from monitor.settings.section import NO_SECRET, Section, TlsSettings
from monitor.settings.values import (
    Duration,
    Header,
    ListOf,
    OptionalUrl,
    ReadableFile,
    Secret,
    SettingType,
    Size,
    WholeNumber,
)

AUTO = "auto"
"""The value of `shards.ordinal` that reads the number at the end of the pod's name."""

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_MATCHER = r'\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\')\s*'
_SELECTOR = re.compile(rf"\{{?{_MATCHER}(?:,{_MATCHER})*,?\s*\}}?")


class Prometheus(Section):
    """A query API to read the engines' counters from, instead of scraping the engines."""

    url: OptionalUrl = Field(
        "", description="Address of Prometheus, Thanos, Mimir or VictoriaMetrics, without /api/v1."
    )
    selector: str = Field(
        "", description='More matchers for the engines\' series, such as `cluster="eu",job=~"vllm.*"`.'
    )
    target_labels: ListOf[str] = Field(
        (), description="Labels whose values name a target. Empty: namespace/pod, else instance."
    )
    offset: Duration = Field(
        30.0, ge=0, description="Time that samples need to arrive; so much later each time is asked for."
    )
    lookback: Duration = Field(
        3600.0, ge=0, description="Most of the past that is read at a start or after an outage."
    )
    timeout: Duration = Field(30.0, gt=0, description="Time for a whole answer.")
    body_limit: Size = Field(256 << 20, ge=1 << 20, description="Longest answer that is read, unpacked.")
    headers: Annotated[Mapping[Header, Secret], SettingType("mapping", secret=True)] = Field(
        {},
        description="Headers to send, such as X-Scope-OrgID; never shown. Environment: JSON.",
    )
    bearer_token: Secret = Field(NO_SECRET, description="Token to send.")
    bearer_token_file: ReadableFile = Field(
        "", description="File that holds the token; read with every query."
    )
    tls: TlsSettings = Field(TlsSettings(), description="TLS of this address.")

    @field_validator("selector")
    @classmethod
    def _matchers(cls, given: str) -> str:
        if given.strip() and not _SELECTOR.fullmatch(given.strip()):
            raise ValueError('expected matchers such as cluster="eu",job=~"vllm.*"')
        return given

    @field_validator("headers", mode="before")
    @classmethod
    def _from_json(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        try:
            return json.loads(given)
        except ValueError:
            raise ValueError('expected JSON such as {"X-Scope-OrgID": "team"}') from None

    @field_validator("target_labels")
    @classmethod
    def _names(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for name in given:
            if not _LABEL.fullmatch(name):
                raise ValueError(f"expected label names such as namespace, read {name!r}")
        return given

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        section.refuse_two_tokens(self.bearer_token, self.bearer_token_file)
        return self


class Shards(Section):
    """How several monitors share the targets: each of these settings alike in all of them."""

    total: WholeNumber = Field(1, ge=1, le=1000, description="How many monitors share the targets.")
    ordinal: str = Field(
        AUTO,
        description="Which of them this one is, from 0. `auto`: the number at the end of the host's name.",
    )

    @field_validator("ordinal", mode="before")
    @classmethod
    def _text(cls, given: object) -> object:
        return str(given) if isinstance(given, int) and not isinstance(given, bool) else given

    @field_validator("ordinal")
    @classmethod
    def _number(cls, given: str) -> str:
        if given != AUTO and not (given.isascii() and given.isdigit()):
            raise ValueError("expected a number from 0, or auto")
        return given

    @model_validator(mode="after")
    def _below_total(self) -> Self:
        if self.ordinal != AUTO and int(self.ordinal) >= self.total:
            raise ValueError(
                f"expected an ordinal below total, read ordinal {self.ordinal}, total {self.total}"
            )
        return self
