"""The entity tag of an answer: the same while nothing but the clock has moved on."""

from __future__ import annotations

import hashlib
import json

from monitor.web import answers


def of(body: bytes, now: float) -> str:
    """Return the weak ETag of a JSON answer made at `now` (unix seconds), which it may say itself."""
    for clock in {json.dumps(answers.plain(now)), json.dumps(round(now, 6))}:
        body = body.replace(f'"at": {clock}'.encode(), b'"at"')
    return f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'


def matches(if_none_match: str, tag: str) -> bool:
    """Return whether a request has this answer already; compared weakly, as RFC 9110 wants of a GET."""
    given = [each.strip().removeprefix("W/") for each in if_none_match.split(",")]
    return "*" in given or tag.removeprefix("W/") in given
