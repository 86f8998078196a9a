"""Which targets there are: providers tell what they find, and the service watches what it adds up to.

A provider tells its whole set after each look. A failed look is told too, and the last set stays: an API
server that is down for an hour makes nobody forget a target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

# What the service itself says of a stream, and what Prometheus says of whatever it scrapes.
TAKEN_LABELS = frozenset({"target", "model_name", "replica", "instance", "job"})


@dataclass(frozen=True, slots=True)
class Found:
    """A target that was found, with what its finder knows of the engine; empty where it knows nothing.

    `facts` are what marks a change when it differs under the same name later: the image, the revision.
    """

    name: str
    url: str
    labels: tuple[tuple[str, str], ...] = ()
    draft_model: str = ""
    method: str = ""
    num_speculative_tokens: int = 0
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """A look that found nothing out: what was read, where, and what was expected."""

    reason: str


class MalformedError(Exception):
    """An answer that is no list of targets; the message says what was read, where, and what was expected."""


class Provider(Protocol):
    """One place that knows targets. Equal providers are the same one: a reload leaves it alone."""

    @property
    def kind(self) -> str:
        """The word for it in metrics and messages."""

    def news(self) -> AsyncGenerator[tuple[Found, ...] | Failed, None]:
        """Tell the whole set at the start and after each change or look, and each failed look; never end."""
