"""The API under what its description allows and forbids: schemathesis makes up requests and judges the answers."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from aiohttp import web
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.core.result import Ok
from schemathesis.generation.modes import GenerationMode

from monitor.web import app
from tests.web import two_replicas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from schemathesis import APIOperation, Case
    from schemathesis.specs.openapi.schemas import OpenApiSchema

    from monitor.web.fields import Record

EXAMPLES = int(os.environ.get("SCHEMA_EXAMPLES", "5"))
"""Requests of each operation, of those that are allowed and of those that are not."""

UNSAID = {
    "GET /api/v1/history/{stream}": "the end must be after the start",
    "GET /api/v1/model-history/{model}": "the end must be after the start",
    "GET /api/v1/what-if": "sizes of memory are given together or not at all; acceptances are a list of numbers",
    "GET /api/v1/verdict": "a side is chosen by conditions, and chooses streams of one model or none",
    "POST /api/v1/changes": "texts are one line of characters that can be printed; no time beyond the next hour",
}
"""What is refused although the description allows it, as no schema can say why."""


async def told(change: Record) -> Record:
    """Keep a change that somebody tells of, as the service does with one that is new."""
    return change


def named(document: dict[str, Any]) -> dict[str, Any]:
    """Return the description with names in its paths that are known, and one that is not."""
    view = two_replicas.collapsed()
    known = {
        "stream": [each.id for each in view.streams()],
        "model": ["m/model"],
        "event": [str(each["id"]) for each in view.events()],
    }
    for path in document["paths"].values():
        for parameter in path["get"]["parameters"]:
            if parameter["in"] == "path":
                parameter["schema"] = {"type": "string", "enum": [*known[parameter["name"]], "nobody"]}
    return document


@pytest.fixture(scope="module")
def description() -> Iterator[OpenApiSchema]:
    """What a running server says of its API; the server has a thread of its own, as requests block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        made = app.application(two_replicas.collapsed, app.Options(tell=told))
        runner = web.AppRunner(made, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    host, port = runner.addresses[0][:2]
    address = f"http://{host}:{port}"
    with urllib.request.urlopen(f"{address}/api/v1/openapi.json") as answer:  # noqa: S310 - our own server
        document = json.load(answer)
    schema = schemathesis.openapi.from_dict(named(document))
    schema.config.update(base_url=address)
    yield schema
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_no_fault_is_found(description: OpenApiSchema, mode: GenerationMode) -> None:
    """Whatever is asked, the answer has a status, a type and a shape that the description names."""
    asked = []
    operations = [found.ok() for found in description.get_all_operations() if isinstance(found, Ok)]
    for operation in operations:
        if mode is GenerationMode.POSITIVE or operation.query or operation.body:
            ask(operation, mode)
            asked.append(operation.label)
    assert len(asked) >= 8
    assert set(UNSAID) <= {operation.label for operation in operations}


def ask(operation: APIOperation[Any, Any, Any, Any], mode: GenerationMode) -> None:
    """Ask a few requests of one operation and let schemathesis judge each answer."""
    excluded = [checks.positive_data_acceptance] if operation.label in UNSAID else []

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def judged(case: Case[Any]) -> None:
        case.call_and_validate(excluded_checks=excluded)

    judged()
