"""From a real engine to the person who is told, each step asserted: by Prometheus rules, and directly.

One scene serves both ways. The `for` and `keep_firing_for` of the rules and the waits of the example routes
are seconds here instead of minutes; everything else is what is shipped.
"""

from __future__ import annotations

import importlib.util
import re
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.e2e import parts, scene
from tests.e2e.scene import TARGET, alerts_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.scene import Scene

MISSING = [name for name in ("xllamacpp", "gguf") if importlib.util.find_spec(name) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (a real llama.cpp server)"
)

GOOD = (0.7, 0.49, 0.343, 0.24)
COLLAPSED = (0.05, 0.0, 0.0, 0.0)
ENOUGH_SECONDS = 28.0  # of traffic, for a baseline from which a collapse stands out
ALERT = "SpecmonAcceptanceCollapsed"
STREAM = {"target": TARGET, "model_name": "noise", "replica": "0"}


@pytest.mark.parametrize("generation", ["installed", "newer"])
async def test_a_collapse_reaches_people_and_so_does_its_end(generation: str, tmp_path: Path) -> None:
    """Acceptance is turned down and up again; Alertmanager is down and specmon restarts in between.

    By Prometheus: event, rule, Alertmanager, person, each with the replica, the sizes, the cause and links
    that work; resolved when acceptance returns. Directly: nothing lost, nothing doubled.
    """
    programs = parts.generation(generation)
    async with scene.playing(programs, tmp_path) as play:
        await play.engine.turn(GOOD)
        await play.specmon.start()
        await parts.until("the baseline is learnt", lambda: _learnt(play))
        assert await play.events("open") == []

        await play.direct_alertmanager.stop()
        await play.engine.turn(COLLAPSED)
        event = (await parts.until("an event is open", lambda: play.events("open"), 30.0))[0]
        _assert_event(event)
        await _assert_told_by_rules(play, event)
        await _assert_waits(play)
        await play.specmon.stop()
        await play.specmon.start()
        await play.direct_alertmanager.start()
        await _assert_told_directly(play, event)

        await play.direct_alertmanager.stop()
        await play.engine.turn(GOOD)
        await parts.until("the event is closed", lambda: play.events("closed"))
        await play.direct_alertmanager.start()
        await _assert_over(play, event)


async def _learnt(play: Scene) -> bool:
    return await play.watched_seconds() >= ENOUGH_SECONDS


def _assert_event(event: dict[str, Any]) -> None:
    """The record of specmon: which stream, from what to what, why."""
    assert {name: event[name] for name in STREAM} == STREAM
    assert (event["kind"], event["severity"]) == ("collapse", "critical")
    assert event["before"]["mal"] == pytest.approx(1 + sum(GOOD), abs=0.15)
    assert event["after"]["mal"] == pytest.approx(1 + sum(COLLAPSED), abs=0.15)
    assert event["causes"][0]["cause"] == "restart"  # that is how this engine is turned down


async def _assert_told_by_rules(play: Scene, event: dict[str, Any]) -> None:
    """The rule fires in Prometheus, Alertmanager has the alert, and a person gets it with all that it should say."""
    query = f"{play.prometheus.url}/api/v1/alerts"

    async def firing() -> list[dict[str, Any]]:
        found = await parts.read(query)
        alerts = found["data"]["alerts"] if found else []
        return [each for each in alerts if each["labels"]["alertname"] == ALERT and each["state"] == "firing"]

    (rule,) = await parts.until("the rule fires", firing)
    assert {name: rule["labels"][name] for name in STREAM} == STREAM
    api = f"{play.ruled_alertmanager.url}/api/v2/alerts?filter=alertname={ALERT}"
    (alert,) = await parts.until("Alertmanager has the alert", lambda: parts.read(api))
    assert alert["labels"] == rule["labels"]
    await play.ruled.until(lambda server: bool(_told(server, "/tickets")))
    (told,) = _told(play.ruled, "/tickets")
    assert (told["status"], told["labels"]) == ("firing", rule["labels"])
    said = told["annotations"]
    assert "noise" in said["summary"]
    assert f"noise on {TARGET} (replica 0)" in said["description"]
    sizes = re.search(r"mean acceptance length ([\d.]+) before, ([\d.]+) after", said["description"])
    assert sizes is not None
    # The baseline counts the positions that every draft has: one less where requests end in mid-draft.
    assert float(sizes[1]) == pytest.approx(event["before"]["mal"], abs=0.35)
    assert float(sizes[2]) < float(sizes[1])
    assert "of speculation's benefit is lost" in said["description"]
    assert "likely cause: restart (weight" in said["description"]
    assert said["runbook_url"].endswith(f"/{ALERT}.md")
    assert await parts.status(said["report_url"]) == 200


async def _assert_waits(play: Scene) -> None:
    """The plain webhook has heard of it; the Alertmanager that is down has not, and what waits is counted."""
    await play.plain.until(lambda server: len(server.accepted) == 1)

    async def failures() -> float:
        return await _value(play, 'specmon_notify_failures_total{receiver="direct"}')

    await parts.until("a post has failed", failures)
    assert await _value(play, 'specmon_notify_queue_length{receiver="direct"}') == 1
    assert await _value(play, 'specmon_notify_failures_total{receiver="plain"}') == 0
    assert alerts_of(play.direct) == []


async def _value(play: Scene, series: str) -> float:
    async with aiohttp.ClientSession() as session, session.get(f"{play.specmon.url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} "))


async def _assert_told_directly(play: Scene, event: dict[str, Any]) -> None:
    """A person gets the alert with the same labels as the rule gives, the team's too, and a link to the event."""
    await play.direct.until(lambda server: bool(_told(server, "/pager")))
    (told,) = _told(play.direct, "/pager")
    assert told["status"] == "firing"
    assert told["labels"] == {
        **STREAM,
        "alertname": ALERT,
        "severity": "critical",
        "scope": "replica",
        "trouble": "acceptance",
        "kind": "collapse",
        "team": "search",
    }
    said = told["annotations"]
    assert (
        f"noise on {TARGET} (replica 0): mean acceptance length {event['before']['mal']:.2f}"
        in said["description"]
    )
    assert "likely causes: restart (weight" in said["description"]
    assert "the engine restarted" in said["description"]
    assert said["runbook_url"] == f"https://example.com/runbooks/{ALERT}.md"
    assert said["report_url"] == told["generatorURL"] == f"{play.specmon.url}/report/events/{event['id']}"
    assert await parts.status(said["report_url"]) == 200


async def _assert_over(play: Scene, event: dict[str, Any]) -> None:
    """All three ends have heard that it is over, and everything exactly once."""
    await play.ruled.until(lambda server: _told(server, "/tickets")[-1]["status"] == "resolved", 30.0)
    await play.direct.until(lambda server: _told(server, "/pager")[-1]["status"] == "resolved", 40.0)
    await play.plain.until(lambda server: len(server.accepted) == 2)
    assert [alert["status"] for alert in _told(play.ruled, "/tickets")] == ["firing", "resolved"]
    assert [alert["status"] for alert in _told(play.direct)] == ["firing", "resolved"]
    assert [(post.content["id"], post.content["status"]) for post in play.plain.posts] == [
        (event["id"], "open"),
        (event["id"], "closed"),
    ]
    assert {post.content["kind"] for post in play.plain.posts} == {"collapse"}


def _told(server: Any, path: str = "") -> list[dict[str, Any]]:
    return [alert for _, alert in alerts_of(server, path) if alert["labels"]["alertname"] == ALERT]
