"""A change that somebody tells of is kept once, stands in the timeline, and names the cause of a fall near it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from monitor.core import pipeline
from monitor.core.events import Event
from monitor.core.events.attribution.signs import Mark
from monitor.core.pages.scrapes import Scrape, StreamKey
from monitor.core.streams import told
from monitor.core.streams.told import ToldChange
from monitor.service import commands
from monitor.service.commands import retelling
from monitor.store import Store, kept_changes
from monitor.web import telling
from monitor.web.asking import Refused
from tests import made, real_engine, test_service
from tests.web import fleet_of_five, serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


ROOT = Path(__file__).parents[1]
TOKEN = "a-token-for-changes"
INTERVAL, FALL, PAGES = 15.0, 240, 300
NOW = 1.7e9
BODY = {"id": "job-17", "kind": "draft", "text": "draft v2 rolled out"}


def event_of_a_fall(*changes: ToldChange) -> Event:
    """The event of a stream whose acceptance falls at FALL, from its first position on."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    for change in changes:
        told.tell(state, change)
    found = list[Event]()
    for at, body in pages_of_a_fall():
        found += pipeline.step(plan, state, [Scrape("t", at, body=body)]).events
    return found[0]


def pages_of_a_fall() -> Iterator[tuple[float, bytes]]:
    """Times and pages of a stream whose acceptance falls at FALL."""
    accepted = [0.0, 0.0, 0.0]
    for number in range(PAGES):
        rates = (0.85, 0.7, 0.55) if number < FALL else (0.4, 0.15, 0.05)
        accepted = [total + round(600 * rate) for total, rate in zip(accepted, rates, strict=True)]
        page = made.page(accepted, drafts=600.0 * (number + 1), started_at=made.START)
        yield made.START + INTERVAL * number, page


def change_at(late: float, kind: str = "draft", **other: object) -> ToldChange:
    """A change told of that began `late` seconds after the fall."""
    at = made.START + INTERVAL * FALL + late
    return replace(ToldChange("job-17", at, kind, "v2 rolled out"), **other)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["draft", "target_model", "engine", "config", "traffic"])
def test_a_told_change_names_the_cause(kind: str) -> None:
    """The first cause of a fall is what was told to have changed then, and its evidence says who told what."""
    event = event_of_a_fall(change_at(-30.0, kind))
    assert event.causes[0].cause == kind
    assert f"told change job-17 ({kind.replace('_', ' ')}): v2 rolled out" in event.causes[0].evidence


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (change_at(-600.0, seconds=900.0), True),
        (change_at(-600.0, seconds=60.0), False),
        (change_at(3600.0), False),
        (change_at(0.0, model_name="another"), False),
        (change_at(0.0, target="another"), False),
        (change_at(0.0, target="t"), True),
    ],
)
def test_only_what_concerns_the_stream_then_counts(change: ToldChange, *, counts: bool) -> None:
    """A change counts from its begin until it is everywhere, and for the model and target it was told of."""
    facts = event_of_a_fall(change).facts
    assert any("told change" in fact for fact in facts) == counts


def test_what_is_not_told_is_no_cause() -> None:
    """Without a told change the same fall is not laid to the draft alone."""
    causes = {cause.cause: cause.weight for cause in event_of_a_fall().causes}
    told_of = {cause.cause: cause.weight for cause in event_of_a_fall(change_at(0.0)).causes}
    assert told_of["draft"] > 0.5 > causes.get("draft", 0.0)


def test_the_newest_are_looked_at() -> None:
    """The state holds so many changes, in order of time; one told again takes the place of the first."""
    state = pipeline.begin(pipeline.Plan())
    for number in reversed(range(told.MOST_CHANGES + 3)):
        told.tell(state, ToldChange(f"c{number}", float(number), "config", "k"))
    told.tell(state, ToldChange("c9", 9.0, "config", "other"))
    assert [each.at for each in state.told] == [float(n) for n in range(3, told.MOST_CHANGES + 3)]
    assert [each.text for each in state.told if each.id == "c9"] == ["other"]
    (mark,) = told.marks(state.told[:1], StreamKey("t", "m", "0"))
    assert mark == Mark(3.0, "told_config", "told change c3 (config): k")


def test_the_store_keeps_each_once(tmp_path: Path) -> None:
    """A change with a known id changes nothing; the newest outlast a restart, older ones give way."""
    path = str(tmp_path / "specmon.db")
    kept = Store(path)
    first = telling.read(json.dumps(BODY).encode(), NOW)
    assert kept.tell(first) is first
    assert kept.tell({**first, "text": "other"}) == first
    for number in range(kept_changes.MOST_KEPT):
        kept.tell({**first, "id": str(number), "at": NOW + number})
    kept.close()
    kept = Store(path)
    found = kept.changes()
    assert (len(found), found[0]["id"], found[-1]["id"]) == (
        kept_changes.MOST_KEPT,
        str(kept_changes.MOST_KEPT - 1),
        "0",
    )
    kept.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no object"),
        ({"id": "", "kind": "draft", "text": "x"}, "'id' is missing"),
        ({"id": "a", "kind": "draft"}, "'text' is missing"),
        (BODY | {"kind": "weather"}, "expected one of draft, target_model, engine, config, traffic"),
        (BODY | {"kind": ["draft"]}, "'kind' is ['draft']"),
        (BODY | {"text": "two\nlines"}, "expected one line of at most 500"),
        (BODY | {"id": "x" * 201}, "expected one line of at most 200"),
        (BODY | {"id": 7}, "'id' is 7"),
        (BODY | {"at": "now"}, "'at' is 'now'"),
        (BODY | {"at": 1.7e12}, "expected a number from 0 to 1700003600"),
        (BODY | {"at": float("nan")}, "'at' is nan"),
        (BODY | {"seconds": True}, "'seconds' is True"),
        (BODY | {"seconds": -1}, "expected a number from 0 to 86400"),
        (BODY | {"model": "m"}, "field 'model' is not known"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(body: object, said: str) -> None:
    """A body that is wrong is a 400 that says what was read and what was expected."""
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Refused) as refused:
        telling.read(given, NOW)
    assert refused.value.status == 400
    assert said in refused.value.message


def test_told_again_is_the_same_and_told_otherwise_is_refused() -> None:
    """An id told again, later and without a time, is the same change; with another text it is refused."""
    first = telling.read(json.dumps(BODY).encode(), NOW)
    telling.refuse_other(first, telling.read(json.dumps(BODY).encode(), NOW + 60.0))
    telling.refuse_other(first, telling.read(json.dumps(BODY | {"at": NOW}).encode(), NOW + 60.0))
    for other in ({"text": "v3"}, {"at": NOW - 60.0}, {"kind": "engine"}):
        with pytest.raises(Refused, match="was told with another") as refused:
            telling.refuse_other(first, telling.read(json.dumps(BODY | other).encode(), NOW + 60.0))
        assert refused.value.status == 409


def tell(address: str, *arguments: str, token: str = TOKEN) -> subprocess.CompletedProcess[str]:
    """Run `specmon change` against a running monitor."""
    command = [sys.executable, "-m", "monitor", "change", address, *arguments]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SPECMON_")}
    env = clean | ({"SPECMON_WEB__ADMIN_TOKEN": token} if token else {})
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def changes(address: str, query: str = "") -> Sequence[dict[str, object]]:
    """What the running monitor says was changed."""
    with urllib.request.urlopen(f"{address}/api/v1/changes{query}") as answer:  # noqa: S310 - ours
        found: list[dict[str, object]] = json.load(answer)["changes"]
        return found


def test_a_job_tells_the_running_service(tmp_path: Path) -> None:
    """`specmon change` is kept once, needs the token, is in the timeline, and outlasts a restart."""
    token, store = tmp_path / "token", str(tmp_path / "specmon.db")
    token.write_text(TOKEN)
    given = ("--id", "job-17", "--kind", "draft", "--text", "draft v2", "--model-name", "m/model")
    target = f"http://127.0.0.1:{real_engine.free_port()}/metrics"
    options = ("--target", target, "--web.admin-token-file", str(token), "--store.path", store)
    with test_service.process(*options) as (_, address):
        done = tell(address, *given)
        assert (done.returncode, done.stdout) == (0, "kept: draft job-17: draft v2\n"), done.stderr
        assert tell(address, *given, token="").stderr.startswith("specmon: read no token")
        wrong = tell(address, *given, token="wrong")
        assert (wrong.returncode, "answered 401" in wrong.stderr) == (2, True)
        (first,) = changes(address)
        assert (first["source"], first["kind"], first["model_name"]) == ("told", "draft", "m/model")
        assert "draft v2" in test_service.read(f"{address}/api/v1/changes?model_name=m/model")
        assert changes(address, "?model_name=other") == changes(address, "?source=seen") == []
    with test_service.process(*options) as (_, address):
        assert changes(address) == [first]
        again = tell(address, *given)
        assert again.stdout == "told before: draft job-17: draft v2\n", again.stderr
        other = tell(address, *given[:-3], "draft v3")
        assert (other.returncode, "was told with another" in other.stderr) == (2, True)


async def test_what_changed_is_on_the_pages_and_in_their_charts() -> None:
    """A stream's page lists what was told and what its page showed, and its charts have a line for each in time."""
    stream, now = fleet_of_five.STREAMS[0], fleet_of_five.NOW
    told_of = {
        "source": "told",
        "id": "job-17",
        "at": now - 60.0,
        "text": "v2 <b>",
        "target": "",
        "stream": None,
    }
    seen = {"source": "seen", "id": None, "at": now - 90.0, "target": stream.target}
    common = {"kind": "draft", "seconds": 0.0, "model_name": stream.model_name}
    changed = [
        common | told_of,
        common | seen | {"text": "k went from 4 to 3", "stream": stream.id},
        common | seen | {"text": "of another", "stream": "another"},
    ]
    shown = fleet_of_five.Service(changed=changed)
    path = f"/report/{quote(stream.id, safe='')}"
    async with serving.client(shown) as session, session.get(path) as answer:
        page = await answer.text()
    assert page.count('<path class="note"') >= 2
    assert page.count("v2 &lt;b&gt;") >= 2
    assert page.count("k went from 4 to 3") >= 2
    assert "of another" not in page
    assert "told as job-17" in page


def recorded(folder: Path) -> Path:
    """A recording of a fall at FALL, as a file of scrapes."""
    lines = [json.dumps({"at": at, "target": "t", "body": body.decode()}) for at, body in pages_of_a_fall()]
    path = folder / "scrapes.jsonl"
    path.write_text("\n".join(lines))
    return path


def replayed(source: Path, *flags: str) -> dict[str, object]:
    """The first event that a replay prints."""
    command = [sys.executable, "-m", "monitor", "replay", str(source), "--json", "--updates", *flags]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[0])
    return found


def test_a_replay_is_told_when_the_service_was(tmp_path: Path) -> None:
    """With the timeline of the service a replay names the told cause, and before it was told it does not."""
    source, fell_at = recorded(tmp_path), made.START + INTERVAL * FALL
    kept = telling.read(json.dumps(BODY | {"at": fell_at}).encode(), fell_at)
    timeline = tmp_path / "changes.json"
    causes = []
    for told_at in (fell_at, fell_at + INTERVAL * PAGES):
        seen = {"source": "seen", "at": fell_at, "text": "k", "kind": "config"}
        answer = {
            "at": NOW,
            "changes": [told.as_record(told.from_record({**kept, "told_at": told_at})), seen],
        }
        timeline.write_text(json.dumps(answer))
        found = replayed(source, "--changes", str(timeline))
        causes.append([each["evidence"] for each in found["causes"]])  # type: ignore[attr-defined]
    assert "told change job-17" in causes[0][0]
    assert "told change" not in str(causes[1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[1]", "expected an object a change"),
        (json.dumps(BODY), "change 1 has no time 'at'"),
        (
            json.dumps(BODY | {"at": 5.0}) + "\n" + json.dumps(BODY | {"at": 5.0, "kind": "x"}),
            "change 2: field 'kind'",
        ),
    ],
)
def test_changes_that_cannot_be_read_say_which(text: str, said: str, tmp_path: Path) -> None:
    """A file of changes that is wrong ends the replay with the number of the change and what is wrong in it."""
    path = tmp_path / "changes.jsonl"
    path.write_text(text)
    with pytest.raises(commands.Unusable, match=re.escape(said)):
        retelling.read(str(path))
