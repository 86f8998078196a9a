"""What a route gives back, and JSON that is always valid: unknown is null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass

HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
MARKDOWN = "text/markdown; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of a response, unpacked, with its type and status."""

    body: bytes
    content_type: str
    status: int = 200


def html(body: bytes, status: int = 200) -> Answer:
    """Return a page."""
    return Answer(body, HTML, status)


def text(body: str, status: int = 200, content_type: str = TEXT) -> Answer:
    """Return plain text, or another type of it."""
    return Answer(body.encode("utf-8", errors="replace"), content_type, status)


def as_json(value: object, status: int = 200) -> Answer:
    """Return `value` as JSON: records become objects, NaN and infinities become null."""
    body = json.dumps(plain(value), ensure_ascii=True, allow_nan=False, indent=1)
    return Answer(body.encode() + b"\n", JSON, status)


def plain(value: object) -> object:
    """Return `value` with nothing but what JSON has."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, Sequence):
        return [plain(each) for each in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(
        f"no JSON for {type(value).__name__}: expected numbers, texts, lists, mappings or records"
    )
