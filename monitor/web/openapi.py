"""The description of the API, made from the types of what it answers and the parameters that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pydantic.json_schema import models_json_schema

from monitor.core.vocabulary import EVENT_KINDS, SEVERITIES, STATES
from monitor.web import detail_shapes, gate, gate_shapes, selection, shapes, supposing
from monitor.web.asking import LATEST_TIME, MAX_LIMIT

if TYPE_CHECKING:
    from pydantic import BaseModel

Parameter = dict[str, object]
_TEXT: Parameter = {"type": "string"}
_TIME: Parameter = {
    "anyOf": [
        {"type": "number", "minimum": 0, "maximum": LATEST_TIME},
        {"type": "string", "format": "date-time"},
    ],
    "description": "Unix seconds, or a time like 2026-05-01T12:00:00Z.",
}
_LIMIT: Parameter = {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}
_PAGE: Parameter = {"type": "integer", "minimum": 1, "maximum": selection.MOST_PAGES}


def _one_of(*values: str) -> Parameter:
    return {"type": "string", "enum": list(values)}


def _or_empty(schema: Parameter) -> Parameter:
    return {"anyOf": [schema, {"type": "string", "enum": [""]}]}


# A form sends what nobody filled in as well, empty.
_CHOOSING: dict[str, Parameter] = {
    "q": {"type": "string", "description": "Words that names, engines or labels hold."},
    "model": _TEXT,
    "engine": _TEXT,
    "state": _one_of("", *STATES),
    "kind": _one_of("", *EVENT_KINDS),
    "label": {"type": "string", "description": "name=value", "pattern": "^$|="},
    "target": _TEXT,
    "sort": _one_of("", *selection.ORDERS),
    "page": _or_empty(_PAGE),
    "limit": _or_empty(_LIMIT),
}
_OF_EVENTS: dict[str, Parameter] = {
    "stream": _TEXT,
    "status": _one_of("open", "closed"),
    "kind": _one_of(*EVENT_KINDS),
    "severity": _one_of(*SEVERITIES),
    "scope": _one_of("replica", "fleet"),
    "model_name": _TEXT,
    "target": _TEXT,
    "since": _TIME,
    "until": _TIME,
    "page": _PAGE,
    "limit": _LIMIT,
}


_SUPPOSED: dict[str, Parameter] = {
    "stream": {"type": "string", "description": "Whose numbers stand where nothing else is said."},
    supposing.ACCEPTANCE: {
        "type": "string",
        "description": "One acceptance for all positions, or one for each.",
    },
    **{
        name: {
            **_or_empty(
                {
                    "type": "integer" if name == "num_speculative_tokens" else "number",
                    "minimum": each.least,
                    "maximum": each.most,
                }
            ),
            "description": f"{each.words} ({each.unit}).",
        }
        for name, each in supposing.QUANTITIES.items()
    },
}


_OF_CHANGES: dict[str, Parameter] = {
    "stream": _TEXT,
    "model_name": _TEXT,
    "target": _TEXT,
    "source": _one_of("seen", "told"),
    "since": _TIME,
    "until": _TIME,
    "page": _PAGE,
    "limit": _LIMIT,
}


_OF_VERDICT: dict[str, Parameter] = {
    **{
        side: {"type": "string", "description": f"The {side}: name=value or name!=value, joined by commas."}
        for side in gate.SIDES
    },
    "since": _TIME,
    "margin": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": gate.MOST_MARGIN,
        "description": "Share whose loss must be excluded before no difference is said.",
    },
    "expect": {"type": "string", "description": "Words joined by commas; any other word is a 409."},
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One path: what it answers, its parameters by name, whether what it names may not be there.

    `required` are the parameters that must be there; `another` says of what the same answer comes with the
    status 409, empty where it never does.
    """

    summary: str
    answer: type[BaseModel] | None
    query: dict[str, Parameter]
    named: str = ""
    another: str = ""
    required: tuple[str, ...] = ()


OPERATIONS: dict[str, Operation] = {
    "/api/v1/fleet": Operation("What holds for all streams together.", shapes.FleetJson, {}),
    "/api/v1/models": Operation("Models, worst first.", shapes.ModelsJson, _CHOOSING),
    "/api/v1/models/{model}": Operation("One model.", detail_shapes.ModelDetailJson, {}, "model"),
    "/api/v1/streams": Operation(
        "Streams, worst first.", shapes.StreamsJson, {"model_name": _TEXT, **_CHOOSING}
    ),
    "/api/v1/streams/{stream}": Operation("One stream.", detail_shapes.StreamDetailJson, {}, "stream"),
    "/api/v1/events": Operation("Events, newest first.", shapes.EventsJson, _OF_EVENTS),
    "/api/v1/events/{event}": Operation("One event.", shapes.EventJson, {}, "event"),
    "/api/v1/changes": Operation("What changed, newest first.", shapes.ChangesJson, _OF_CHANGES),
    "/api/v1/history/{stream}": Operation(
        "What happened to a stream.", detail_shapes.HistoryJson, {"start": _TIME, "end": _TIME}, "stream"
    ),
    "/api/v1/model-history/{model}": Operation(
        "What happened to all streams of a model.",
        detail_shapes.ModelHistoryJson,
        {"start": _TIME, "end": _TIME},
        "model",
    ),
    "/api/v1/what-if": Operation("What other numbers would give.", shapes.WhatIfJson, _SUPPOSED),
    "/api/v1/verdict": Operation(
        "A candidate against a baseline.",
        gate_shapes.GateJson,
        _OF_VERDICT,
        another="Another word than those of `expect`.",
        required=gate.SIDES,
    ),
    "/api/v1/advice/{stream}": Operation("Which num_speculative_tokens, at what gain.", None, {}, "stream"),
}


@cache
def document(version: str) -> dict[str, object]:
    """Return the description in OpenAPI 3.1."""
    answers = [each.answer for each in OPERATIONS.values() if each.answer is not None]
    models = [(model, "serialization") for model in dict.fromkeys((*answers, shapes.RefusalJson))]
    models += [(shapes.ToldJson, "validation"), (shapes.KeptChangeJson, "serialization")]
    _, schemas = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "specmon",
            "version": version,
            "description": "The facts behind the report. Unknown numbers are null, times are unix seconds.",
        },
        "paths": {
            path: {"get": _operation(path, each), **_POSTS.get(path, {})} for path, each in OPERATIONS.items()
        },
        "components": {"schemas": schemas["$defs"]},
    }


def _operation(path: str, operation: Operation) -> dict[str, object]:
    parameters: list[dict[str, object]] = [
        {"name": name, "in": "query", "required": name in operation.required, "schema": schema}
        for name, schema in operation.query.items()
    ]
    if operation.named:
        named = {"name": operation.named, "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}}
        parameters.insert(0, named)
    refused = {"400": "What was asked for is not understood."}
    if operation.named or "stream" in operation.query:
        refused["404"] = "What was asked for is not there."
    responses: dict[str, object] = {
        "200": _response(operation.summary, operation.answer),
        "304": {"description": "As it was when the ETag of If-None-Match was given."},
    }
    if operation.another:
        responses["409"] = _response(operation.another, operation.answer)
    responses |= {status: _response(words, shapes.RefusalJson) for status, words in refused.items()}
    return {
        "operationId": path.removeprefix("/api/v1/").replace("/{", "_by_").strip("}"),
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses,
    }


def _response(description: str, answer: type[BaseModel] | None) -> dict[str, object]:
    schema = {"type": "object"} if answer is None else {"$ref": f"#/components/schemas/{answer.__name__}"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


_POSTS: dict[str, dict[str, object]] = {
    "/api/v1/changes": {
        "post": {
            "operationId": "tell_change",
            "summary": "Tell of a change; the token of web.admin_token is needed.",
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ToldJson"}}},
            },
            "responses": {
                "201": _response("The change is kept.", shapes.KeptChangeJson),
                "200": _response("It was told before, and is kept as it was.", shapes.KeptChangeJson),
                "400": _response("What was told is not understood.", shapes.RefusalJson),
                "401": {"description": "The token is missing or wrong."},
                "403": _response("This monitor takes no changes.", shapes.RefusalJson),
                "409": _response("Another change was told with this id.", shapes.RefusalJson),
                "503": _response("It could not be kept; tell it again.", shapes.RefusalJson),
            },
        }
    }
}
