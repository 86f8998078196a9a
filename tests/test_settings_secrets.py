"""A secret is found by its type, wherever it may stand in the settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from monitor import settings

if TYPE_CHECKING:
    from pathlib import Path


def secret_places() -> list[str]:
    """Every setting that holds a secret, found by its type."""
    return [setting.name for setting in settings.describe() if setting.secret]


def with_secret(place: str, secret: str) -> str:
    """Return a configuration with a secret in one place, and what it needs beside it."""
    kinds: dict[str, object] = {"headers": {"X-Token": secret}, "url": f"http://a/{secret}"}
    *outer, last = place.split(".")
    section: dict[str, object] = {last: kinds.get(last, secret)}
    for part in reversed(outer):
        item: object = [{"url": "http://a", **section}] if part.endswith("[]") else section
        section = {part.removesuffix("[]"): item}
    return json.dumps(section)


@pytest.mark.parametrize("place", secret_places())
def test_no_secret_is_shown_and_each_tells_settings_apart(place: str, tmp_path: Path) -> None:
    """Wherever a secret may stand, it is masked where settings are shown, and another one is another digest."""
    file = tmp_path / "specmon.yml"
    file.write_text(with_secret(place, "hunter2"))
    one = settings.load({}, {}, str(file))
    file.write_text(with_secret(place, "hunter3"))
    other = settings.load({}, {}, str(file))
    for shown in (settings.masked(one), one.model_dump_json(), repr(one), str(one)):
        assert "hunter2" not in shown
    assert "…" in settings.masked(one)
    assert settings.digest(one) != settings.digest(other)
