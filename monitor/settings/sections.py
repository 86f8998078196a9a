"""The sections of the configuration: each field's meaning, unit, bounds and default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from monitor.settings import quantities, references, section, values
from monitor.settings.discovery import DiscoverySettings
from monitor.settings.notify import Notify
from monitor.settings.prometheus import Prometheus, Shards
from monitor.settings.references import ReferenceSettings
from monitor.settings.section import NO_SECRET, Addressed, Section, TlsSettings
from monitor.settings.values import (
    Duration,
    EngineName,
    Header,
    Label,
    ListenAddress,
    ListOf,
    Name,
    Number,
    OptionalUrl,
    ReadableFile,
    RoutePrefix,
    Secret,
    Size,
    Url,
    WholeNumber,
)

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from monitor.settings.layers import Layer

_MAX_DERIVED_TIMEOUT = 10.0


class _Source(PydanticBaseSettingsSource):
    """One layer, as the library merges them."""

    def __init__(self, settings_cls: type[BaseSettings], layer: Layer) -> None:
        super().__init__(settings_cls)
        self._layer = layer

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[object, str, bool]:  # noqa: ARG002 - the library's signature
        return self._layer.values.get(field_name), field_name, False

    def __call__(self) -> dict[str, object]:
        return dict(self._layer.values)


class TargetSettings(Addressed):
    """A page to scrape, and what the operator knows of the engine behind it."""

    url: Url = Field(description="Address of the metrics page.")
    name: Name = Field(
        "", description="Label `target` of everything said about it; by default the URL's host:port."
    )
    labels: Mapping[Label, str] = Field({}, description="Labels to group and compare targets by.")
    model: str = Field("", description="Name of the model, where the page does not say it.")
    draft_model: str = Field("", description="Name of the draft model, where the page does not say it.")
    method: str = Field(
        "", description="Method of speculation, such as eagle3 or ngram, where the page is silent."
    )
    num_speculative_tokens: WholeNumber | None = Field(
        None, ge=1, le=1000, description="Tokens proposed per draft, where the page does not say it."
    )
    engine: EngineName = Field(
        "",
        description="Serving software; recognised from the page. `trtllm-json` reads what others then miss.",
    )
    headers: Mapping[Header, Secret] = Field({}, description="Headers to send. Their values are never shown.")
    bearer_token: Secret = Field(NO_SECRET, description="Token to send instead of `scrape.bearer_token`.")
    bearer_token_file: ReadableFile = Field(
        "", description="File that holds the token; read again when it changes."
    )
    tls: TlsSettings = Field(TlsSettings(), description="TLS of this target.")

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        section.refuse_two_tokens(self.bearer_token, self.bearer_token_file)
        return self

    @property
    def label(self) -> str:
        """The name that the target goes by: its own, or host:port and the path where that is not /metrics."""
        if self.name:
            return self.name
        parts = urlsplit(self.url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        port = parts.port or (443 if parts.scheme == "https" else 80)
        path = parts.path.rstrip("/")
        return f"{host}:{port}{'' if path == '/metrics' else path}"


class ScrapeSettings(Section):
    """How targets are read."""

    interval: Duration = Field(15.0, ge=0.1, description="Time from one scrape of a target to the next.")
    timeout: Duration = Field(
        _MAX_DERIVED_TIMEOUT,
        gt=0,
        description="Time for a whole scrape, below the interval. Unset: two thirds of it, at most 10s.",
    )
    body_limit: Size = Field(32 << 20, ge=1024, description="Largest page that is read, unpacked.")
    max_streams_per_target: WholeNumber = Field(
        1000, ge=1, description="Most streams of a target that are judged; more on its page are counted."
    )
    bearer_token: Secret = Field(NO_SECRET, description="Token to send to every target.")
    bearer_token_file: ReadableFile = Field(
        "", description="File that holds the token; read again when it changes."
    )

    @model_validator(mode="before")
    @classmethod
    def _derived_timeout(cls, given: object) -> object:
        if not isinstance(given, Mapping) or "timeout" in given or "interval" not in given:
            return given
        try:
            interval = quantities.duration(given["interval"])
        except ValueError:
            return given
        return {**given, "timeout": round(min(_MAX_DERIVED_TIMEOUT, interval * 2 / 3), 3)}

    @model_validator(mode="after")
    def _in_time(self) -> Self:
        section.refuse_two_tokens(self.bearer_token, self.bearer_token_file)
        if self.timeout >= self.interval:
            timeout, interval = map(quantities.duration_text, (self.timeout, self.interval))
            raise ValueError(
                f"expected a timeout shorter than the interval, read timeout {timeout}, interval {interval}"
            )
        return self


class Detection(Section):
    """What counts as a change."""

    false_alarms_per_month: Number = Field(
        1.0,
        gt=0,
        le=1000,
        description="False alarms that you accept per replica and 30 days; the limits follow from it.",
    )


class ModelEconomics(Section):
    """What one model's steps and GPUs cost, where it is not what holds for all."""

    model: str = Field(min_length=1, description="Served name of the model.")
    gpus_per_replica: WholeNumber | None = Field(None, ge=1, description="As economics.gpus_per_replica.")
    gpu_hour_cost: Number | None = Field(None, ge=0, description="As economics.gpu_hour_cost.")
    plain_step_seconds: Number | None = Field(None, gt=0, description="As economics.plain_step_seconds.")


class Economics(Section):
    """What a step and a GPU cost: for the verdict whether speculation pays, and for the price of an event."""

    gpus_per_replica: WholeNumber = Field(1, ge=1, description="GPUs that one replica occupies.")
    gpu_hour_cost: Number | None = Field(
        None, ge=0, description="Price of one GPU for an hour, in your currency."
    )
    plain_step_seconds: Number | None = Field(
        None, gt=0, description="Seconds of one engine step without speculation, as you measured it."
    )
    models: ListOf[ModelEconomics] = Field(
        (), description="Models for which other numbers hold, each a mapping with the key model."
    )
    calibrations: ListOf[ReadableFile] = Field(
        (), description="Files that `specmon calibrate --json` wrote: plain step times per concurrency."
    )


class Web(Section):
    """Where metrics, report and API are served."""

    listen_address: ListOf[ListenAddress] = Field(
        ("127.0.0.1:10101",),
        description="Addresses to listen on. `:10101`, the default in a container, is every interface.",
    )
    config_file: ReadableFile = Field(
        "", description="TLS, users and headers, in exporter-toolkit's format; read again when it changes."
    )
    allowed_hosts: ListOf[str] = Field(
        (),
        description=(
            "Host names to answer to. Empty: any; listening on loopback alone: localhost and external_url's."
        ),
    )
    admin_token: Secret = Field(
        NO_SECRET, description="Token that a request which changes something must have; without it none may."
    )
    admin_token_file: ReadableFile = Field(
        "", description="File that holds the token; read again for each such request."
    )
    external_url: OptionalUrl = Field(
        "", description="Address under which people reach this monitor; for links."
    )
    route_prefix: RoutePrefix = Field("", description="Path that all routes start with.")
    grafana_url: OptionalUrl = Field(
        "", description="Address of the Grafana that has alerts/dashboards; events link to them."
    )
    enable_reload: bool = Field(
        False,
        description="Whether POST /-/reload, with the token, reads the settings again; SIGHUP always does.",
    )

    @field_validator("listen_address")
    @classmethod
    def _some(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        if not given:
            raise ValueError("expected at least one address")
        return given

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if self.admin_token.get_secret_value() and self.admin_token_file:
            raise ValueError("expected admin_token or admin_token_file, read both")
        if self.enable_reload and not (self.admin_token.get_secret_value() or self.admin_token_file):
            raise ValueError("expected admin_token or admin_token_file with enable_reload, read neither")
        return self

    @property
    def hosts(self) -> frozenset[str] | None:
        """The host names to answer to beside addresses, None: any."""
        outer = {urlsplit(self.external_url).hostname or ""} - {""}
        if self.allowed_hosts:
            return frozenset({each.lower() for each in self.allowed_hosts} | outer)
        heard = {host or "" for host, _ in self.sockets}
        if all(host in {"localhost", "::1"} or host.startswith("127.") for host in heard):
            return frozenset({"localhost"} | heard | outer)
        return None

    @property
    def sockets(self) -> tuple[tuple[str | None, int], ...]:
        """Host (None: every interface) and port of each listen address."""
        return tuple(values.host_and_port(address) for address in self.listen_address)


class StoreSettings(Section):
    """Where state, history and events are kept."""

    path: str = Field(
        "", description="SQLite file. Empty: memory, so that a restart forgets baselines and events."
    )
    retention: Duration = Field(
        30 * 86_400.0, ge=3600, description="Time that history and closed events are kept."
    )
    size_limit: Size = Field(
        2 << 30,
        ge=1 << 20,
        description="Size of the file beyond which its oldest history goes.",
    )


class Log(Section):
    """What is written to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least severe message written."
    )
    format: Literal["logfmt", "json"] = Field("logfmt", description="Form of a message.")


class Settings(BaseSettings):
    """The whole configuration. Made by `settings.load`; equal when nothing differs."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    targets: ListOf[TargetSettings] = Field(
        (),
        description="Pages to scrape: URLs, or mappings of the settings below. Environment: JSON or commas.",
    )
    discovery: DiscoverySettings = Field(
        DiscoverySettings(), description="Where targets are found, beside those listed."
    )
    prometheus: Prometheus = Field(
        Prometheus(), description="A query API to read the engines' counters from, beside the targets."
    )
    shards: Shards = Field(Shards(), description="How several monitors share the targets.")
    scrape: ScrapeSettings = Field(ScrapeSettings(), description="How targets are read.")
    detection: Detection = Field(Detection(), description="What counts as a change.")
    references: ListOf[ReferenceSettings] = Field(
        (),
        description="What acceptance you expect of a model: a mapping each, with the key model.",
    )
    economics: Economics = Field(Economics(), description="What a step and a GPU cost.")
    web: Web = Field(Web(), description="Where metrics, report and API are served.")
    store: StoreSettings = Field(StoreSettings(), description="Where state, history and events are kept.")
    notify: Notify = Field(Notify(), description="Who is told of events directly.")
    log: Log = Field(Log(), description="What is written to standard error.")

    @field_validator("references")
    @classmethod
    def _one_of_each(cls, given: tuple[ReferenceSettings, ...]) -> tuple[ReferenceSettings, ...]:
        references.refuse_two_of_a_kind(given)
        return given

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        seen: dict[str, str] = {}
        for target in self.targets:
            if target.label in seen:
                raise ValueError(
                    f"targets: expected different names, read {target.label!r} twice; set `name`"
                )
            seen[target.label] = target.url
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature; it reads os.environ
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The layers that `load` found, in their order: the library's own sources let misspelt names pass."""
        given = init_settings().get("layers", ())
        return tuple(_Source(settings_cls, layer) for layer in given)
