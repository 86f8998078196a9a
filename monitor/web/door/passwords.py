"""Basic authentication against bcrypt hashes, on a thread of its own and with a memory of what was right."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_WAITING = 16
MOST_REMEMBERED = 100
LONGEST_PASSWORD_BYTES = 72  # what comes after is not part of a bcrypt hash
# A hash that no password has, to take as long for a user that does not exist as for one that does.
_NOBODY = "$2b$10$" + "." * 53


class BusyError(Exception):
    """So many passwords wait to be looked at that one more would not be answered in time."""


class Passwords:
    """Looks at the Authorization header of requests."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="passwords")
        self._waiting = 0
        self._right: dict[bytes, None] = {}
        self._salt = secrets.token_bytes(16)  # what is remembered is of no use outside this process

    async def accept(self, header: str, users: Mapping[str, str]) -> bool:
        """Return whether the header has one of `users` (bcrypt hashes) and its password; raises BusyError."""
        given = _pair(header)
        if given is None:
            return False
        user, password = given
        known = users.get(user, _NOBODY)
        mark = hmac.digest(self._salt, f"{user}\0{known}\0".encode() + password, "sha256")
        if mark in self._right:
            return True
        if self._waiting >= MOST_WAITING:
            raise BusyError
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            right = await loop.run_in_executor(self._executor, _is_right, password, known)
        finally:
            self._waiting -= 1
        if right and user in users:
            while len(self._right) >= MOST_REMEMBERED:
                del self._right[next(iter(self._right))]
            self._right[mark] = None
            return True
        return False

    def close(self) -> None:
        """Let the thread end."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def same(given: str, expected: str) -> bool:
    """Return whether two tokens are the same, in a time that does not say where they differ."""
    digests = (hashlib.sha256(each.encode(errors="surrogateescape")).digest() for each in (given, expected))
    return hmac.compare_digest(*digests)


def _pair(header: str) -> tuple[str, bytes] | None:
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(value.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None


def _is_right(password: bytes, known: str) -> bool:
    import bcrypt  # noqa: PLC0415 - most monitors have no users

    if len(password) > LONGEST_PASSWORD_BYTES or b"\0" in password:
        return False
    try:
        return bcrypt.checkpw(password, known.encode())
    except ValueError:
        return False
