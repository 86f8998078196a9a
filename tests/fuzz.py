"""Hostile input for every reader of foreign data: `make fuzz` (minutes a reader, so CI runs a second of each).

A reader gets what is nearly right: samples of what it reads, cut, repeated, shuffled and spiced. It may refuse
with its own exception and nothing else. A failure prints the smallest input that hypothesis finds.

    python -m tests.fuzz [READER…] [--seconds 600]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
from hypothesis import strategies as st

from monitor import settings, sources
from monitor.core import pipeline
from monitor.core.pages.scrapes import Scrape
from monitor.core.streams import checkpoint, summaries
from monitor.settings import door as web_file
from monitor.sources import files
from tests import made
from tests.engines import runs
from tests.web import door

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

SPICES = (
    b"\x00", b"\xff\xfe", b"\r\n", b"\n", b'"', b"{", b"}" * 3, b"[" * 2000, b"\\", b" NaN", b" +Inf", b" -1",
    b"1e400", b"9" * 400, b"\xd9\xa3", b"\xed\xa0\x80", b"# TYPE ", b"# EOF\n", b"null", b"{{}}", b"%00", b"&",
    b"!!python/object:os.system x", b"*a", b"&a [*a]", b"<<: ", b"  ", b"\t", b"../", b"x" * 5000,
)  # fmt: skip
LOG = (
    b"INFO 01-01 10:00:00 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: "
    b"50.00 tokens/s, Drafted throughput: 100.00 tokens/s, Accepted: 500 tokens, Drafted: 1000 tokens, "
    b"Per-position acceptance rate: 0.800, 0.500, 0.200, Avg Draft acceptance rate: 50.0%\n"
    b"[2026-01-01 10:00:10] Decode batch, #running-req: 4, #token: 900, accept len: 2.50, accept rate: 0.50, "
    b"cuda graph: True, gen throughput (token/s): 200.00, #queue-req: 0,\n"
    b"draft acceptance = 0.57576 (171 accepted / 297 generated)\n"
)
CONFIG = (
    b"targets:\n  - url: http://a:1/metrics\n    labels: {a: b}\nscrape: {interval: 15s, timeout: 10s}\n"
    b"web: {listen_address: [':1'], external_url: 'http://x/y'}\ndetection: {false_alarms_per_month: 1}\n"
    b"notify: {webhooks: [{url: 'http://h/k'}]}\n"
)
WEB = b"basic_auth_users: {a: '" + door.HASH.encode() + b"'}\nrate_limit: {burst: 5, interval: 1s}\n"
PATHS = (
    b"/report?format=json&state=ok&limit=5", b"/api/v1/events?since=1&limit=3&status=open", b"/metrics?target=a",
    b"/api/v1/streams/a~b~0", b"/api/v1/history/a?start=1&end=2", b"/report/events/x", b"/probe?target=a",
)  # fmt: skip


def near(*samples: bytes) -> st.SearchStrategy[bytes]:
    """Bytes that are nearly one of the samples."""
    pieces = st.one_of(st.sampled_from(SPICES), st.binary(max_size=20))
    change = st.tuples(
        st.sampled_from(("cut", "put", "drop", "repeat")), st.floats(0, 1), st.floats(0, 1), pieces
    )
    return st.builds(_changed, st.sampled_from(samples), st.lists(change, max_size=6))


def _changed(sample: bytes, changes: Sequence[tuple[str, float, float, bytes]]) -> bytes:
    for kind, place, length, piece in changes:
        start = int(place * len(sample))
        end = start + int(length * min(len(sample) - start, 400))
        if kind == "cut":
            sample = sample[:start]
        elif kind == "put":
            sample = sample[:start] + piece + sample[end if length > 0.5 else start :]
        elif kind == "drop":
            sample = sample[:start] + sample[end:]
        else:
            sample = sample[:end] + sample[start:end] * 3 + sample[end:]
    return sample


def pages() -> tuple[bytes, ...]:
    """A page of each engine."""
    return tuple(run.pages[-1] for run in runs.all_runs() if not run.unsupported)


def read_pages(body: bytes) -> None:
    """Two pages of a target leave a state that can be saved and shown."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    for number, page in enumerate((body, body)):
        pipeline.step(plan, state, [Scrape("t", made.START + 15.0 * number, body=page)])
    json.dumps(summaries.totals(plan, state), allow_nan=False)
    checkpoint.thaw(plan, checkpoint.freeze(state))


def read_replay(body: bytes) -> None:
    """A file of history, or a log, gives scrapes or is refused."""
    with _file(body) as file, contextlib.suppress(sources.Unreadable):
        plan = pipeline.Plan()
        state = pipeline.begin(plan)
        for batch in files.replay(file):
            pipeline.step(plan, state, batch)


def read_settings(body: bytes) -> None:
    """A configuration file is taken, and can be shown, or is refused."""
    with _file(body) as file, contextlib.suppress(settings.Invalid):
        settings.masked(settings.load({}, {}, file))


def read_web_file(body: bytes) -> None:
    """A web configuration file is taken or refused, and no hash is in the refusal."""
    refusal = ""
    with _file(body) as file:
        try:
            web_file.read(file)
        except settings.Invalid as refused:
            refusal = str(refused)
    assert door.HASH not in refusal


def ask(query: bytes) -> None:
    """Whatever is asked is answered, and never with an error of ours; most of it is one connection's end."""

    async def answered() -> bytes:
        async with door.behind() as address:
            plain = query.replace(b"\r", b"").replace(b"\n", b"")
            request = b"GET " + plain + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            return await door.raw(address, request)

    answer = asyncio.run(answered())
    assert answer.startswith(b"HTTP/1."), answer[:80]
    assert answer[9:10] in b"2345" and answer[9:12] not in (b"500", b"501", b"502"), answer[:2000]  # noqa: PT018 - what is tested


def _records() -> bytes:
    page = {"at": 1.0, "target": "a", "body": made.steady(1).decode()}
    counted = {
        "at": 2.0,
        "target": "b",
        "model_name": "m",
        "drafts": 5,
        "draft_tokens": 15,
        "accepted": [4, 3, 1],
    }
    return b"".join(json.dumps(each).encode() + b"\n" for each in (page, counted, {**counted, "at": 17.0}))


@contextlib.contextmanager
def _file(body: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "input"
        file.write_bytes(body)
        yield str(file)


READERS: dict[str, tuple[Callable[[], Sequence[bytes]], Callable[[bytes], None]]] = {
    "pages": (pages, read_pages),
    "logs": (lambda: (LOG,), read_replay),
    "replay": (lambda: (_records(), b"a_total 1 1.5\na_total 2 3\n# EOF\n"), read_replay),
    "settings": (lambda: (CONFIG,), read_settings),
    "web configuration": (lambda: (WEB,), read_web_file),
    "API": (lambda: PATHS, ask),
}


def run(name: str, examples: int, seed: int) -> None:
    """Give a reader so many inputs; raises what it raised."""
    samples, reader = READERS[name]
    given = hypothesis.given(near(*samples()))(reader)
    options = hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.seed(seed)(options(given))()


def main() -> int:
    """Run the readers that are named, or all, each for so many seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("readers", nargs="*", choices=[*READERS, []], default=[])
    parser.add_argument("--seconds", type=float, default=600.0)
    arguments = parser.parse_args()
    for name in arguments.readers or READERS:
        until, rounds = time.monotonic() + arguments.seconds, 0
        while time.monotonic() < until:
            run(name, 100, seed=rounds)
            rounds += 1
        print(f"{name}: {100 * rounds} inputs, none ended it", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
