"""What a request asks for: its parameters checked against what is known, and its format by name or by Accept.

A request that cannot be answered is `Refused` with what was read and what was expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from monitor.web.links import Links
    from monitor.web.screens.layout import Site
    from monitor.web.view import StreamView, View

MEDIA_TYPES = {
    "html": "text/html",
    "json": "application/json",
    "text": "text/plain",
    "markdown": "text/markdown",
}
MAX_LIMIT = 1000
LATEST_TIME = 253402300799.0  # the end of year 9999; beyond are milliseconds or nonsense


class Refused(Exception):  # noqa: N818 - what happened to the request, not an error of ours
    """A request that cannot be answered: an HTTP status and one sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: its query, the parts of its path, its Accept header, and the links to answer with."""

    query: Mapping[str, str]
    path: Mapping[str, str]
    accept: str
    site: Site
    programs: Links

    def expect(self, *known: str) -> None:
        """Refuse a parameter that is not one of `known`: a misspelt filter must not look like an answer."""
        for name in self.query:
            if name not in known:
                raise Refused(400, f"parameter {name!r} is not known here; expected {_listed(known)}")

    def format(self, *offered: str) -> str:
        """Return the format of the answer, one of `offered`: by ?format=, else by Accept, else the first."""
        asked = self.choice("format", offered)
        if asked is not None:
            return asked
        types = {MEDIA_TYPES[name]: name for name in offered}
        return types[best_media_type(self.accept, list(types)) or MEDIA_TYPES[offered[0]]]

    def choice(self, name: str, known: Collection[str]) -> str | None:
        """Return the parameter `name`, which must be one of `known`; None where it is absent."""
        value = self.query.get(name)
        if value is not None and value not in known:
            raise Refused(400, f"parameter {name!r} is {value!r}; expected one of {_listed(known)}")
        return value

    def whole(self, name: str, default: int, least: int, most: int) -> int:
        """Return the parameter `name` as a whole number within its bounds."""
        value = self.query.get(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdigit() and len(value) < 10 and least <= int(value) <= most):  # noqa: PLR2004
            raise Refused(
                400, f"parameter {name!r} is {value!r}; expected a whole number from {least} to {most}"
            )
        return int(value)

    def time(self, name: str) -> float | None:
        """Return the parameter `name` as unix seconds; it may be written as such or as RFC 3339."""
        value = self.query.get(name)
        if value is None:
            return None
        at = _time(value)
        if at is None:
            message = (
                f"parameter {name!r} is {value!r}; expected unix seconds or a time like 2026-05-01T12:00:00Z"
            )
            raise Refused(400, message)
        return at


def known_stream(view: View, stream_id: str) -> StreamView:
    """Return the stream of this id, which must be known."""
    found = view.stream(stream_id)
    if found is None:
        raise Refused(404, f"no stream {stream_id!r}; /api/v1/streams lists them")
    return found


def best_media_type(accept: str, offered: Sequence[str]) -> str | None:
    """Return which of `offered` the Accept header likes best, None where it likes none; ties go to the first.

    A wildcard speaks only for what the header does not name itself.
    """
    wishes = dict(_wish(part) for part in accept.split(",") if part.strip())
    best, best_quality = None, 0.0
    for media_type in offered:
        patterns = (media_type, media_type.split("/")[0] + "/*", "*/*")
        quality = next((wishes[pattern] for pattern in patterns if pattern in wishes), 0.0)
        if quality > best_quality:
            best, best_quality = media_type, quality
    return best


def seconds(header: str) -> float | None:
    """Return the seconds that a header such as Prometheus's time-out says, None where it says none."""
    try:
        value = float(header)
    except ValueError:
        return None
    return value if 0 < value < 3600 else None  # noqa: PLR2004


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether the Accept-Encoding header allows gzip by name."""
    wishes = dict(_wish(part) for part in accept_encoding.split(",") if part.strip())
    return wishes.get("gzip", 0.0) > 0


def _wish(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                quality = min(max(float(value), 0.0), 1.0)
            except ValueError:
                quality = 0.0
    return name.lower(), quality


def _time(value: str) -> float | None:
    try:
        at = float(value)
    except ValueError:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        # Nothing was scraped before 1970: whoever asks for such a time means everything.
        at = max((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), 0.0)
    # Seconds beyond year 9999 are milliseconds or nonsense; NaN compares false.
    return at if 0 <= at <= LATEST_TIME else None


def _listed(known: Collection[str]) -> str:
    return ", ".join(known) if known else "none"
