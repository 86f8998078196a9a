"""The addresses of our own pages, below whatever path a proxy gives us."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlsplit


@dataclass(frozen=True, slots=True)
class Links:
    """Makes links; `base` is what stands before every path, a path or a whole URL, without a last slash."""

    base: str = ""

    def to(self, path: str) -> str:
        """Return the link to a path of ours, which begins with a slash."""
        return self.base + path

    def stream(self, stream_id: str) -> str:
        """Return the link to a stream's page."""
        return self.to(f"/report/{quote(stream_id, safe='')}")

    def model(self, model_name: str) -> str:
        """Return the link to a model's page."""
        return self.to(f"/report/models/{quote(model_name, safe='')}")

    def event(self, event_id: str) -> str:
        """Return the link to an event's page."""
        return self.to(f"/report/events/{quote(event_id, safe='')}")


def for_pages(external_url: str, route_prefix: str) -> Links:
    """Return links for HTML: below the external URL's path if there is one, else below the route prefix."""
    return Links((urlsplit(external_url).path if external_url else route_prefix).rstrip("/"))


def for_programs(external_url: str, route_prefix: str) -> Links:
    """Return links for JSON and text, whole URLs where the external one is known."""
    return Links((external_url or route_prefix).rstrip("/"))
