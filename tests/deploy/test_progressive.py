"""The examples for Argo Rollouts and Flagger ask paths that are there, and can use what is answered."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import yaml

from monitor.web import gate
from tests.deploy import manifests
from tests.web import serving, two_releases

FOLDER = manifests.ROOT / "deploy" / "progressive"
ARGUMENTS = {"model-name": two_releases.MODEL, "stable-hash": "abc", "canary-hash": "def"}


def read(name: str) -> dict[str, Any]:
    """An example, parsed."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    return found


async def asked(address: str, view: object) -> tuple[int, dict[str, Any]]:
    """Status and answer of the address's path and query over a view."""
    parts = urlsplit(address)
    async with serving.client(view) as session, session.get(f"{parts.path}?{parts.query}") as answer:  # type: ignore[arg-type]
        return answer.status, json.loads(await answer.text())


@pytest.mark.parametrize(
    ("acceptance", "minutes", "phase"),
    [(0.6, 60, "failed"), (0.7, 60, "successful"), (0.8, 60, "successful"), (0.6, 5, "inconclusive")],
)
async def test_argo_rollouts_goes_by_the_word(acceptance: float, minutes: int, phase: str) -> None:
    """The metric's jsonPath finds the word, by which the conditions fail, pass, or do neither."""
    spec = read("argo-rollouts.yaml")["spec"]
    (metric,) = spec["metrics"]
    web = metric["provider"]["web"]
    assert {each["name"] for each in spec["args"]} == set(ARGUMENTS)
    address = re.sub(r"\{\{args\.([\w-]+)\}\}", lambda match: ARGUMENTS[match[1]], web["url"])
    status, found = await asked(address, two_releases.look(acceptance, minutes))
    assert status == 200
    result = found[web["jsonPath"].removeprefix("{$.").removesuffix("}")]
    met = {name: _holds(metric[f"{name}Condition"], result) for name in ("success", "failure")}
    assert met == {"success": phase == "successful", "failure": phase == "failed"}


def _holds(condition: str, result: str) -> bool:
    """Whether a condition holds; both forms mean in Argo's language what they mean in Python."""
    words = re.findall(r'"(\w+)"', condition)
    assert set(words) <= set(gate.WORDS)
    assert condition in (f'result == "{words[0]}"', f"result in {json.dumps(words)}")
    return result in words


@pytest.mark.parametrize(
    ("acceptance", "minutes", "statuses"),
    [(0.6, 60, [409, 409]), (0.7, 60, [200, 200]), (0.6, 5, [200, 409])],
    ids=["worse", "same", "early"],
)
async def test_flagger_goes_by_the_status(acceptance: float, minutes: int, statuses: list[int]) -> None:
    """The canary goes on unless it is worse, and is promoted only once it is known not to be."""
    hooks = read("flagger.yaml")["spec"]["analysis"]["webhooks"]
    assert [hook["type"] for hook in hooks] == ["rollout", "confirm-promotion"]
    for hook, expected in zip(hooks, statuses, strict=True):
        command = shlex.split(hook["metadata"]["cmd"])
        assert command[:5] == ["curl", "--silent", "--show-error", "--fail", "--get"]
        given = [part for name, part in itertools.pairwise(command) if name == "--data-urlencode"]
        query = urlencode(dict(part.split("=", 1) for part in given))
        status, _ = await asked(f"{command[5]}?{query}", two_releases.look(acceptance, minutes))
        assert status == expected
