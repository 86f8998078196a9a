"""The types that settings are made of, and the description of each setting that is drawn from them."""

from __future__ import annotations

import json
import os
import re
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, Union, cast, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, Field, PlainSerializer, SecretStr

from monitor.core.pages import engines
from monitor.settings import quantities

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

MASK = "…"
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_USER = re.compile(r"//(?P<user>[^/\s?#:@]*)(?P<password>:[^/\s?#]*)?@")
_QUERY = re.compile(r"(?<=//)(?P<place>[^\s?#\"']*\?)(?P<query>[^\s#\"']+)")
_QUERY_VALUE = re.compile(r"(?<==)[^&]+|(?<![^&])[^&=]+(?![^&])")
_LISTEN = re.compile(r"(?P<host>\[[0-9a-fA-F:.%]+\]|[^:\[\]\s]*):(?P<port>\d{1,5})")
_MAX_PORT = 65_535
# A stream's own labels, and those that Prometheus gives to what it scrapes.
_RESERVED_LABELS = frozenset({"target", "model_name", "replica", "instance", "job"})


@dataclass(frozen=True, slots=True)
class SettingType:
    """What people read as the type of a setting."""

    words: str
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: a row of README's table, a flag, an environment variable.

    `name` has `[]` where a list is entered (`targets[].url`); such a setting lives in YAML and JSON only.
    `default` is as YAML writes it, None where a value is required.
    """

    name: str
    kind: str
    default: str | None
    description: str
    secret: bool
    repeatable: bool
    switch: bool

    @property
    def nested(self) -> bool:
        """Whether the setting is part of a list's item."""
        return "[]" in self.name


def without_secrets(text: str) -> str:
    """The text with what may be secret in a URL masked: password, a user without one, values of the query.

    Tokens are given in either place. Who is asked, and which parameters it is given, stays readable.
    """
    named = _USER.sub(lambda found: f"//{found['user']}:{MASK}@" if found["password"] else f"//{MASK}@", text)
    return _QUERY.sub(lambda found: found["place"] + _QUERY_VALUE.sub(MASK, found["query"]), named)


def _without_path(text: str) -> str:
    """The URL with everything after its host masked; the paths of many webhooks are their secret."""
    parts = urlsplit(without_secrets(text))
    secret = parts.path.strip("/") or parts.query
    return f"{parts.scheme}://{parts.netloc}/{MASK}" if secret else text


def host_and_port(address: str) -> tuple[str | None, int]:
    """What a listen address such as `:10101`, `127.0.0.1:0` or `[::1]:80` names; no host is None."""
    found = _LISTEN.fullmatch(address)
    if found is None or int(found["port"]) > _MAX_PORT:
        raise ValueError("expected host:port or :port, such as 127.0.0.1:10101, [::1]:10101 or :10101")
    return found["host"].strip("[]") or None, int(found["port"])


def _listen_address(given: object) -> object:
    if isinstance(given, str):
        host_and_port(given)
    return given


def _url(given: object) -> object:
    if not isinstance(given, str):
        return given
    try:
        parts = urlsplit(given)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(letter.isspace() for letter in given):
        raise ValueError("expected a URL such as http://engine-0:8000/metrics")
    return given


def _optional_url(given: object) -> object:
    return given if given == "" else _url(given)


def _readable(given: object) -> object:
    if isinstance(given, str) and given and (os.path.isdir(given) or not os.access(given, os.R_OK)):  # noqa: PTH112 - pathlib's raises for some names
        raise ValueError("expected a file that this process can read")
    return given


def _label(given: object) -> object:
    if isinstance(given, str):
        if not _LABEL.fullmatch(given):
            raise ValueError("expected a label name: letters, digits and _, no digit first")
        if given in _RESERVED_LABELS or given.startswith("__"):
            taken = ", ".join(sorted(_RESERVED_LABELS))
            raise ValueError(f"expected another name than {taken} and __…: these are taken")
    return given


def _no_truth(given: object) -> object:
    """Refuse true and false, which Python counts as 1 and 0."""
    if isinstance(given, bool):
        raise ValueError("expected a number")  # noqa: TRY004 - pydantic reports ValueError only
    return given


def _items(given: object) -> object:
    """The items of a list that came as one text: JSON where it opens with a bracket, else by commas."""
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("["):
        try:
            return json.loads(given)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"expected a JSON list or values separated by commas ({error})") from error
    return [item for part in given.split(",") if (item := part.strip())]


def _secret(given: object) -> object:
    """Refuse a secret with a line break: in a header it would begin another one."""
    if isinstance(given, str) and any(letter in given for letter in "\r\n\0"):
        raise ValueError("expected a text without line breaks")
    return given


def _header(given: object) -> object:
    if isinstance(given, str) and not _HEADER.fullmatch(given):
        raise ValueError("expected a header's name: letters, digits and -")
    return given


def _name(given: object) -> object:
    if isinstance(given, str) and not given.isprintable():
        raise ValueError("expected a name of characters that can be seen")
    return given


def _engine(given: object) -> object:
    if isinstance(given, str) and given and given not in engines.choices():
        raise ValueError(f"expected one of {', '.join(engines.choices())}")
    return given


def _prefix(given: object) -> object:
    if not isinstance(given, str):
        return given
    if given.strip("/") and not re.fullmatch(r"(/[A-Za-z0-9._~-]+)+/?", given):
        raise ValueError("expected a path such as /specmon")
    return given.rstrip("/")


def _masked(value: SecretStr) -> str:
    return MASK if value.get_secret_value() else ""


Item = TypeVar("Item")
ListOf = Annotated[tuple[Item, ...], BeforeValidator(_items)]

Duration = Annotated[
    float,
    BeforeValidator(quantities.duration),
    PlainSerializer(quantities.duration_text, when_used="json"),
    SettingType("duration"),
]
Size = Annotated[
    int,
    BeforeValidator(quantities.size),
    PlainSerializer(quantities.size_text, when_used="json"),
    SettingType("size"),
]
Number = Annotated[float, BeforeValidator(_no_truth), Field(allow_inf_nan=False), SettingType("number")]
WholeNumber = Annotated[int, BeforeValidator(_no_truth), SettingType("whole number")]
Url = Annotated[
    str, BeforeValidator(_url), PlainSerializer(without_secrets, when_used="json"), SettingType("URL")
]
OptionalUrl = Annotated[
    str,
    BeforeValidator(_optional_url),
    PlainSerializer(without_secrets, when_used="json"),
    SettingType("URL"),
]
WebhookUrl = Annotated[
    str,
    BeforeValidator(_url),
    PlainSerializer(_without_path, when_used="json"),
    SettingType("URL", secret=True),
]
ListenAddress = Annotated[str, BeforeValidator(_listen_address), SettingType("host:port")]
RoutePrefix = Annotated[str, BeforeValidator(_prefix), SettingType("path")]
EngineName = Annotated[str, BeforeValidator(_engine), SettingType(" or ".join(engines.choices()))]
ReadableFile = Annotated[str, BeforeValidator(_readable), SettingType("file")]
Label = Annotated[str, BeforeValidator(_label)]
Header = Annotated[str, BeforeValidator(_header)]
Name = Annotated[str, BeforeValidator(_name)]
Secret = Annotated[
    SecretStr,
    BeforeValidator(_secret),
    PlainSerializer(_masked, when_used="json"),
    SettingType("secret", secret=True),
]


def describe(model: type[BaseModel], defaults: Mapping[str, object], prefix: str = "") -> Iterator[Setting]:
    """Every setting of a section, in its order; `defaults` are its JSON values when nothing is set."""
    for key, field in model.model_fields.items():
        name = prefix + key
        inner = _section(field.annotation)
        if inner is not None and get_origin(field.annotation) is not tuple:
            section = defaults.get(key)
            yield from describe(inner, section if isinstance(section, dict) else {}, f"{name}.")
            continue
        kind = _kind(field)
        yield Setting(
            name=name,
            kind=kind.words,
            default=None if field.is_required() else json.dumps(defaults.get(key), ensure_ascii=False),
            description=field.description or "",
            secret=kind.secret,
            repeatable=get_origin(field.annotation) is tuple,
            switch=field.annotation is bool,
        )
        if inner is not None:
            item = inner.model_construct().model_dump(mode="json", warnings=False)
            yield from describe(inner, item, f"{name}[].")


def _section(annotation: object) -> type[BaseModel] | None:
    """The model that a section or a list of sections is made of."""
    candidate = get_args(annotation)[0] if get_origin(annotation) is tuple else annotation
    return candidate if isinstance(candidate, type) and issubclass(candidate, BaseModel) else None


def _kind(field: FieldInfo) -> SettingType:
    own = next((mark for mark in field.metadata if isinstance(mark, SettingType)), None)
    return own or _kind_of(field.annotation)


def _kind_of(annotation: object) -> SettingType:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        own = next((mark for mark in arguments if isinstance(mark, SettingType)), None)
        return own or _kind_of(arguments[0])
    if origin in {Union, types.UnionType}:
        return _kind_of(next(argument for argument in arguments if argument is not type(None)))
    if origin is Literal:
        return SettingType(" or ".join(str(argument) for argument in arguments))
    if origin is tuple:
        return SettingType(f"list of {_kind_of(arguments[0]).words}")
    if origin is Mapping:
        return SettingType("mapping", secret=_kind_of(arguments[1]).secret)
    plain = {bool: "true or false", str: "text"}.get(cast("type", annotation))
    # A section of its own: only one with an address can be written as that alone.
    return SettingType(plain or ("URL or mapping" if "url" in annotation.model_fields else "mapping"))  # type: ignore[attr-defined]
