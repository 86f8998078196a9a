"""The web configuration file: TLS, client certificates, users and headers, in the format of exporter-toolkit.

What is not supported is refused by name, never passed over: a door that is less closed than its file says is
worse than none. Format: prometheus/exporter-toolkit, docs/web-configuration.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from monitor.settings import documents
from monitor.settings.layers import Invalid, UnreadableFile
from monitor.settings.section import Section
from monitor.settings.values import Duration, ListOf

_HASH = re.compile(r"\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53}")
_HeaderName = Literal[
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
]


def _hash(given: str) -> str:
    if not _HASH.fullmatch(given):
        raise ValueError("expected a bcrypt hash such as `htpasswd -nBC 10` makes, of cost 4 to 14")
    return given


def _value(given: str) -> str:
    if not given.isprintable():
        raise ValueError("expected one line of characters that can be seen")
    return given


class ServerTls(Section):
    """Certificate, and who may connect. Files are read again when they change."""

    cert_file: str = Field("", description="Certificate, PEM.")
    key_file: str = Field("", description="Its key, PEM.")
    client_auth_type: Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"] = (
        Field("NoClientCert", description="Whether clients show a certificate.")
    )
    client_ca_file: str = Field("", description="Authorities of the clients' certificates, PEM.")
    client_allowed_sans: ListOf[str] = Field((), description="Names of which a certificate must have one.")
    min_version: Literal["TLS12", "TLS13"] = Field("TLS12", description="Oldest version.")
    max_version: Literal["TLS12", "TLS13"] = Field("TLS13", description="Newest version.")
    cipher_suites: ListOf[str] = Field((), description="Suites of TLS 1.2, by their names in Go.")
    prefer_server_cipher_suites: bool = Field(True, description="Whether the server's order counts.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.cert_file or not self.key_file:
            raise ValueError("expected cert_file and key_file")
        if self.client_auth_type != "NoClientCert" and not self.client_ca_file:
            raise ValueError(f"expected client_ca_file with client_auth_type {self.client_auth_type}")
        if self.client_auth_type == "NoClientCert" and (self.client_ca_file or self.client_allowed_sans):
            raise ValueError("expected client_auth_type with client_ca_file or client_allowed_sans")
        if self.min_version > self.max_version:
            raise ValueError("expected a min_version that is not above max_version")
        return self


class HttpServer(Section):
    """Headers of every answer."""

    http2: bool = Field(True, description="Taken for compatibility; answers are HTTP/1.1.")
    headers: Mapping[_HeaderName, Annotated[str, AfterValidator(_value)]] = Field(
        {}, description="In place of our own."
    )


class RateLimit(Section):
    """How many requests are answered: `burst` at once, one more each `interval`; the others get 429."""

    burst: int = Field(0, ge=0, description="Requests at once.")
    interval: Duration = Field(0.0, ge=0, description="Time until one more; 0: no limit.")


class Door(Section):
    """The whole file; empty, it changes nothing."""

    tls_server_config: ServerTls | None = Field(None, description="TLS; absent: none.")
    http_server_config: HttpServer = Field(HttpServer(), description="Headers.")
    basic_auth_users: Mapping[str, Annotated[str, AfterValidator(_hash)]] = Field(
        {}, description="bcrypt hashes of passwords by user."
    )
    rate_limit: RateLimit = Field(RateLimit(), description="How many requests are answered.")


def read(file: str) -> Door:
    """Return what the file says; raises Invalid or UnreadableFile, naming the file and never a hash."""
    try:
        found = documents.read(Path(file).read_text(encoding="utf-8"))
        return Door.model_validate({} if found is None else found)
    except documents.NotYaml as error:
        raise Invalid(f"{file}: {error}") from None
    except ValidationError as error:
        raise Invalid("\n".join(_line(file, each) for each in error.errors())) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise UnreadableFile(f"{file}: {reason.lower()}; expected a web configuration file") from None


def _line(file: str, problem: Mapping[str, object]) -> str:
    place = ".".join(str(part) for part in problem["loc"])  # type: ignore[attr-defined]
    said = str(problem["msg"]).removeprefix("Value error, ")
    return f"{file}: {place}: {said}" if place else f"{file}: {said}"
