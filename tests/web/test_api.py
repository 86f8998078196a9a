"""The API: what it answers is what its description says, page by page, and nothing twice that did not change."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest

from monitor.web import openapi, shapes, tags
from tests.web import made_fleet, two_replicas
from tests.web.fleet_of_five import HOSTILE, MODEL, NOW, Service
from tests.web.serving import client

QUERIES = {"/api/v1/verdict": "?baseline=target=t0&candidate=target=t1"}


async def answered(path: str, view: object) -> dict[str, object]:
    """Return what a path answers over a view."""
    async with client(view) as session, session.get(path) as response:  # type: ignore[arg-type]
        assert response.status == 200, await response.text()
        found = json.loads(await response.text())
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("path", [path for path, each in openapi.OPERATIONS.items() if each.answer])
async def test_real_answers_are_as_described(path: str) -> None:
    """What the running service answers has the fields that the description has, all of them and no others."""
    view = two_replicas.collapsed()
    stream = next(each for each in view.streams() if each.target == "t1")
    assert stream.open_event is not None
    names = {"stream": quote(stream.id, safe=""), "model": "m/model", "event": str(stream.open_event["id"])}
    asked = re.sub(r"\{(\w+)\}", lambda match: names[match[1]], path) + QUERIES.get(path, "")
    found = await answered(asked, view)
    shape = openapi.OPERATIONS[path].answer
    assert shape is not None
    assert json.loads(shape.model_validate(found).model_dump_json()) == found


async def test_numbers_of_the_fleet() -> None:
    """What holds for all streams is the sum of what is said of each."""
    view = two_replicas.collapsed()
    fleet = shapes.FleetJson.model_validate(await answered("/api/v1/fleet", view))
    models = shapes.ModelsJson.model_validate(await answered("/api/v1/models", view))
    (model,) = models.models
    assert (fleet.streams, fleet.models, sum(fleet.counts.values())) == (2, 1, 2)
    assert (model.state, model.counts["collapsed"], len(model.bad)) == ("collapsed", 1, 1)
    assert fleet.verdicts == [model.verdict]
    assert model.verdict.startswith("1 of 2 replicas of m/model (t1) has collapsed since")
    assert model.mal is not None
    assert model.mal_low is not None
    assert 1.0 < model.mal_low < model.mal < 3.3


async def test_description_names_every_path() -> None:
    """The description is of all that is below /api/v1, and each of its references leads somewhere."""
    document = await answered("/api/v1/openapi.json", Service())
    text = json.dumps(document)
    components = document["components"]
    assert isinstance(components, dict)
    wanted = set(re.findall(r"#/components/schemas/(\w+)", text))
    assert wanted <= set(components["schemas"])
    assert set(openapi.OPERATIONS) == set(document["paths"])  # type: ignore[call-overload]


@pytest.mark.parametrize("path", ["/api/v1/streams", "/api/v1/models", "/api/v1/events"])
async def test_pages_have_everything_once(path: str) -> None:
    """The pages of a list one after the other have each entry once, in the order of the whole."""
    service = made_fleet.service(120)
    name = path.rsplit("/", 1)[-1]
    whole = (await answered(f"{path}?limit=1000", service))[name]
    assert isinstance(whole, list)
    paged: list[object] = []
    for number in range(1, -(-len(whole) // 7) + 1):
        found = (await answered(f"{path}?limit=7&page={number}", service))[name]
        assert isinstance(found, list)
        paged += found
    assert paged == whole
    assert len(whole) > 3


async def test_next_leads_through_the_events() -> None:
    """Following `next` from the first page of events comes to the last, which has none."""
    service = made_fleet.service(120)
    path, seen = "/api/v1/events?limit=5", 0
    while path:
        page = await answered(path, service)
        assert isinstance(page["events"], list)
        seen, path = seen + len(page["events"]), str(page["next"] or "")
    assert seen == len(service.kept)


async def test_unchanged_answers_are_not_sent_again() -> None:
    """A client that has an answer already gets 304 while nothing but the clock moved, else the new answer."""
    for path in ("/api/v1/events", "/api/v1/openapi.json", "/api/v1/models?q=nothing"):
        async with client(Service()) as session, session.get(path) as first:
            tag = first.headers["ETag"]
        async with client(Service(now=NOW + 1)) as session:
            async with session.get(path, headers={"If-None-Match": f'"other", {tag}'}) as again:
                assert (again.status, again.headers["ETag"], await again.read()) == (304, tag, b"")
            async with session.get(path, headers={"If-None-Match": '"other"'}) as other:
                assert other.status == 200
    async with client(Service(kept=())) as session, session.get("/api/v1/events") as changed:
        assert changed.headers["ETag"] != tag


def test_a_tag_is_of_what_is_said() -> None:
    """The clock of the answer is not part of its tag, a time that it tells is."""
    assert tags.of(b'{"at": 5.0, "x": 1}', 5.0) == tags.of(b'{"at": 6.0, "x": 1}', 6.0)
    assert tags.of(b'{"at": 5.0, "x": 1}', 6.0) != tags.of(b'{"at": 4.0, "x": 1}', 6.0)


async def test_hostile_names_are_data() -> None:
    """A model that is called like a script is a name in JSON, and can be filtered by."""
    found = await answered(f"/api/v1/models?model={quote(HOSTILE)}", Service())
    (model,) = shapes.ModelsJson.model_validate(found).models
    assert model.model_name == HOSTILE
    assert (await answered(f"/api/v1/streams?model_name={quote(MODEL)}", Service()))["total"] == 4
