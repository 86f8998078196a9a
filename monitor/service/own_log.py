"""Structured messages on standard error, as logfmt or JSON, with no secret in them.

Modules log as Python does, with what varies as fields and not in the text:
`_log.warning("scrape failed", extra={"target": name, "reason": "timeout"})`.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from monitor.settings import values

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TextIO

_MASK = "…"
_BARE = re.compile(r"[^\s\"=\\\x00-\x1f\x7f]+")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def start(
    level: Literal["debug", "info", "warning", "error"] = "info",
    form: Literal["logfmt", "json"] = "logfmt",
    *,
    secrets: Collection[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send every message of `level` and above to `stream` (standard error); may be called again.

    `secrets` are texts that are masked wherever they turn up; passwords and queries in URLs always are.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(_Formatter(form, secrets))
    handler.addFilter(_is_ours)
    root = logging.getLogger()
    for old in [each for each in root.handlers if isinstance(each.formatter, _Formatter)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())


def _is_ours(record: logging.LogRecord) -> bool:
    """Return whether a message is worth a line; what anybody can cause by sending no HTTP is not."""
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or "HttpProcessingError" not in {each.__name__ for each in kind.__mro__}


class _Formatter(logging.Formatter):
    """One message, one line: time, level, logger, text, then the fields in the order they were given."""

    def __init__(self, form: Literal["logfmt", "json"], secrets: Collection[str]) -> None:
        super().__init__()
        self._form = form
        # The longest first: one secret may be the beginning of another.
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        fields = self._fields(record)
        if self._form == "json":
            return json.dumps(fields, ensure_ascii=False, default=str)
        return " ".join(f"{key}={_quoted(value)}" for key, value in fields.items())

    def _fields(self, record: logging.LogRecord) -> dict[str, object]:
        moment = datetime.fromtimestamp(record.created, UTC)
        fields: dict[str, object] = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        fields.update((key, value) for key, value in vars(record).items() if key not in _STANDARD)
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return {key: self._clean(value) for key, value in fields.items()}

    def _clean(self, value: object) -> object:
        """The value without secrets; numbers, truth values and None stay what they are."""
        if value is None or isinstance(value, int | float):
            return value
        text = values.without_secrets(str(value))
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text


def _quoted(value: object) -> str:
    """The value as logfmt has it: bare where it is one plain word, else as a JSON string."""
    word = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
    return word if _BARE.fullmatch(word) else json.dumps(word, ensure_ascii=False)
