"""The first screen of the report: what is wrong with which model, and what nobody can say."""

from __future__ import annotations

from tests.web import made_fleet, reading
from tests.web.fleet_of_five import Service, stream


async def test_whole_model_collapses() -> None:
    """What all replicas of a model do is one sentence, and its event is the model's, not that of a replica."""
    page = await reading.read("/report", made_fleet.service(44))
    assert f"All 40 replicas of {made_fleet.NAMES[0]} have collapsed since 11:50 UTC" in page.text
    assert "/report/events/fleet-1" in page.links
    assert "40 replicas: 40 collapsed" in page.text
    assert "The worst 12 of all 40 replicas." in page.text


async def test_a_model_that_cannot_be_judged_is_not_green() -> None:
    """Of a model whose only replica is stale nobody knows that it is well, and its page does not look so."""
    gone = stream("a:80", model_name="m", state="stale", state_reason="connection refused")
    for path in ("/report", "/report/models/m"):
        page = await reading.read(path, Service(shown=[gone], kept=[], scraped=()))
        assert "1 of 1 stream cannot be judged: a:80 (m) (connection refused)." in page.text
        assert ("class", "headline warn") in page.attributes
    assert "No replica is known to be below what it was: 1 stale." in page.text


async def test_fleet_page_is_a_page_of_many() -> None:
    """Of thousands of streams a page shows a few models, the worst first, and leads to the others."""
    page = await reading.read("/report", made_fleet.service(4000))
    assert "1 to 10 of 261 models" in page.text
    assert (
        "76 more models are below what they were: deepseek-ai/DeepSeek-V3.1-v15 (likely traffic), "
        in page.text
    )
    assert "-v30 (likely traffic) and 72 more." in page.text
    assert "/report?page=2" in page.links
    last = await reading.read("/report?page=27", made_fleet.service(4000))
    assert "261 to 261 of 261 models" in last.text
    assert "There are 261 models" in (await reading.read("/report?page=28", made_fleet.service(4000))).text
