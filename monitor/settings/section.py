"""What every section of the configuration is made of, and the sections that several others have in them."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from monitor.settings.values import ReadableFile

NO_SECRET = SecretStr("")


class Section(BaseModel):
    """A group of settings that never changes and takes no unknown key."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Addressed(Section):
    """A section with a `url` that may be given as that URL alone."""

    @model_validator(mode="before")
    @classmethod
    def _from_url(cls, given: object) -> object:
        return {"url": given} if isinstance(given, str) else given


class TlsSettings(Section):
    """How to speak TLS with a server."""

    ca_file: ReadableFile = Field("", description="Authorities to trust instead of the system's, PEM.")
    cert_file: ReadableFile = Field("", description="Client certificate, PEM.")
    key_file: ReadableFile = Field("", description="Key of the client certificate, PEM.")
    server_name: str = Field(
        "", description="Name to expect in the certificate, where it is not the URL's host."
    )
    insecure_skip_verify: bool = Field(False, description="Accept any certificate; for tests.")

    @model_validator(mode="after")
    def _pair(self) -> Self:
        if bool(self.cert_file) != bool(self.key_file):
            raise ValueError("expected cert_file and key_file together")
        return self


def refuse_two_tokens(token: SecretStr, file: str) -> None:
    """Raise ValueError where a token is given and a file that holds one too."""
    if token.get_secret_value() and file:
        raise ValueError("expected bearer_token or bearer_token_file, read both")
