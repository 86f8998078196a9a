"""What if: the form and its JSON say the same, a stream fills it, what cannot be is refused with a sentence."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from monitor.web import shapes
from tests.web.fleet_of_five import HOSTILE, Service
from tests.web.serving import client

LESSON = "conditional=0.8&num_speculative_tokens=4&batch_size=1&plain_step_ms=14.49&per_request_ms=0&draft_step_ms=0&verify_ms=0"


async def asked(query: str, path: str = "/api/v1/what-if") -> tuple[int, str]:
    """Return the status and the body of an answer."""
    async with client(Service()) as session, session.get(f"{path}?{query}") as response:
        return response.status, await response.text()


async def test_the_lesson() -> None:
    """α 0.8 and k 4: 3.3616 tokens a step, 14.49 ms become 4.31 ms; in the page's sentence and in the JSON."""
    status, body = await asked(LESSON)
    assert status == 200
    found = shapes.WhatIfJson.model_validate_json(body)
    assert found.mal == pytest.approx(3.3616)
    assert (found.always_pays, found.pays_below_batch_size) == (True, None)
    assert found.tpot_seconds == pytest.approx(4.31e-3, abs=5e-6)
    _, page = await asked(LESSON, "/report/what-if")
    assert (
        "A step gives 3.36 tokens and takes 14.49 ms: 4.31 ms a token instead of 14.49 ms, 3.36× as fast."
        in page
    )
    assert f"/api/v1/what-if?{LESSON}".replace("&", "&amp;") in page


async def test_the_page_as_json_is_the_api() -> None:
    """The page's JSON and the API's are the same, of an empty question too."""
    for query in ("", LESSON, "weights_ratio=0.5&cache_gib=40&request_gib=2&draft_gib=5"):
        _, api = await asked(query)
        _, page = await asked(f"{query}&format=json", "/report/what-if")
        assert json.loads(api) == json.loads(page)
        assert api.count("NaN") == api.count("Infinity") == 0


async def test_a_stream_fills_the_form() -> None:
    """Acceptance and k come from the stream, but for what the request says; what is an example is said so."""
    stream = next(each for each in Service().shown if each.estimate.get("conditional"))
    _, body = await asked(f"stream={quote(stream.id)}&num_speculative_tokens=2")
    found = shapes.WhatIfJson.model_validate_json(body)
    own = stream.estimate["conditional"]
    assert isinstance(own, list | tuple)
    assert found.supposed["conditional"] == pytest.approx(list(own), abs=1e-4)
    assert found.supposed["num_speculative_tokens"] == 2
    assert found.notes == ["What this stream's steps cost is not known: the times are an example."]


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("batch_size=0", "parameter 'batch_size' is '0'; expected a number from 1 to 4096 (requests)"),
        ("draft_step_ms=nan", "parameter 'draft_step_ms' is 'nan'; expected a number from 0"),
        ("num_speculative_tokens=2.5", "num_speculative_tokens is 2.5; expected a whole number"),
        ("conditional=80", "parameter 'conditional' is '80'; expected one acceptance from 0 to 1"),
        ("conditional=,", "parameter 'conditional' is ','; expected one acceptance from 0 to 1"),
        (
            "plain_step_ms=1&per_request_ms=2",
            "plain_step_ms is 1 and per_request_ms 2; expected a plain step",
        ),
        (
            "cache_gib=40",
            "of cache_gib, request_gib, draft_gib only cache_gib is given; expected all or none",
        ),
        ("k=4", "parameter 'k' is not known here"),
    ],
)
async def test_what_cannot_be_is_refused(query: str, sentence: str) -> None:
    """A number that is none, or out of bounds, is refused with what was read and what was expected."""
    status, body = await asked(query)
    assert (status, json.loads(body)["status"]) == (400, 400)
    assert sentence in json.loads(body)["error"]
    assert (await asked(query, "/report/what-if"))[0] == 400


async def test_an_unknown_stream_is_not_there() -> None:
    """A stream that is not known is 404; its hostile name is text in the page."""
    status, body = await asked(f"stream={quote(HOSTILE)}", "/report/what-if")
    assert status == 404
    assert HOSTILE not in body or "<" not in HOSTILE
