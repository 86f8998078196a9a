"""Targets from files with Prometheus's target groups, JSON or YAML.

The content is looked at, not the file system's notices: Kubernetes swaps a symbolic link when a ConfigMap
changes, which those notices miss.
"""

from __future__ import annotations

import asyncio
import glob
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.settings import documents
from monitor.sources.discovery import Failed, Found, MalformedError, target_groups

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

MOST_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Files:
    """The files that `patterns` name, looked at every `interval` seconds."""

    patterns: tuple[str, ...]
    interval: float
    kind: str = "file"

    async def news(self) -> AsyncGenerator[tuple[Found, ...] | Failed, None]:
        """Tell the targets of all files; a file that is broken keeps those that it had."""
        kept: dict[str, _File] = {}
        while True:
            kept, failures = await asyncio.to_thread(_look, self.patterns, kept)
            for failure in failures:
                yield failure
            if kept or not failures:
                yield tuple(target for path in sorted(kept) for target in kept[path].targets)
            await asyncio.sleep(self.interval)


@dataclass(frozen=True, slots=True)
class _File:
    """A file as last read: its bytes, and the targets of the last good ones."""

    content: bytes
    targets: tuple[Found, ...]


def _look(patterns: tuple[str, ...], before: dict[str, _File]) -> tuple[dict[str, _File], list[Failed]]:
    after: dict[str, _File] = {}
    failures = []
    for path in dict.fromkeys(path for pattern in patterns for path in _paths(pattern)):
        known = before.get(path)
        try:
            content = _content(path)
            good = known is not None and known.content == content
            after[path] = (
                known if known and good else _File(content, target_groups.found(_parsed(path, content)))
            )
        except (OSError, MalformedError) as error:
            reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
            failures.append(Failed(f"{path}: {reason}"))
            if known is not None:
                # Read again next time: the bytes that were good are not those that are there.
                after[path] = _File(b"", known.targets)
    return after, failures


def _paths(pattern: str) -> list[str]:
    """Return the files of a pattern; a plain name is one whether or not it is there."""
    return sorted(glob.glob(pattern)) if glob.has_magic(pattern) else [pattern]  # noqa: PTH207 - pathlib has no absolute ones


def _content(path: str) -> bytes:
    with Path(path).open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise MalformedError(f"more than {MOST_BYTES} bytes, expected a list of target groups")
    return content


def _parsed(path: str, content: bytes) -> object:
    try:
        text = content.decode()
        # Not every JSON is YAML: tabs are not.
        return json.loads(text) if path.endswith(".json") else documents.read(text)
    except UnicodeDecodeError as error:
        raise MalformedError(f"not UTF-8 at byte {error.start}, expected JSON or YAML") from None
    except json.JSONDecodeError as error:
        raise MalformedError(f"not JSON: line {error.lineno}: {error.msg}") from None
    except (documents.NotYaml, RecursionError) as error:
        raise MalformedError(str(error)) from None
