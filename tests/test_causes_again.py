"""Causes are looked at again while an event is open and when it closes: requests tell their lengths late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.core import pipeline
from monitor.core.pages.scrapes import Scrape
from monitor.sources import promql, vectors
from tests import made

if TYPE_CHECKING:
    from collections.abc import Iterator

    from monitor.core.events import Event

INTERVAL = 15.0
REQUESTS, TOKENS = 6, 300  # a page and a request
FALL, PAGES = 240, 420


def bodies(before: float, after: float, *, late: int, back: int = PAGES) -> Iterator[bytes]:
    """Pages on which acceptance falls at FALL; prompts of `after` tokens are told `late` pages later, when they end."""
    drafts = tokens = prompts = finished = seconds = steps = 0.0
    accepted = [0.0, 0.0, 0.0]
    for number in range(PAGES):
        down = FALL <= number < back
        drafts += 600
        rates = (0.4, 0.15, 0.05) if down else (0.85, 0.7, 0.55)
        accepted = [total + round(600 * rate) for total, rate in zip(accepted, rates, strict=True)]
        tokens += 600 + sum(round(600 * rate) for rate in rates)
        finished += REQUESTS
        seconds += 600 * (
            0.02 if after == before or not down else 0.06
        )  # long prompts: slower steps, fewer at once
        steps += 100 if after == before or not down else 250
        prompts += REQUESTS * (after if FALL + late <= number < back + late else before)
        yield made.page(
            accepted,
            drafts=drafts,
            more={
                "generation_tokens_total": tokens,
                "request_prompt_tokens_sum": prompts,
                "request_prompt_tokens_count": finished,
                "request_generation_tokens_sum": finished * TOKENS,
                "request_generation_tokens_count": finished,
                "inter_token_latency_seconds_count": drafts,
                "inter_token_latency_seconds_sum": seconds,
                "iteration_tokens_total_count": steps,
                "time_to_first_token_seconds_count": finished,
            },
        )


def judged(scrapes: Iterator[Scrape]) -> list[Event]:
    """The events of a stream."""
    plan = pipeline.Plan()
    state = pipeline.begin(plan)
    return [event for scrape in scrapes for event in pipeline.step(plan, state, [scrape]).events]


def scraped(pages: Iterator[bytes]) -> Iterator[Scrape]:
    """Looks at one target."""
    return (Scrape("t", made.START + INTERVAL * number, body=body) for number, body in enumerate(pages))


def asked(pages: Iterator[bytes]) -> Iterator[Scrape]:
    """The same pages as a Prometheus tells them: only the series that the query asks for, with labels added."""
    wanted = promql.names()
    told: dict[str, tuple[dict[str, str], dict[float, str]]] = {}
    times = []
    for number, body in enumerate(pages):
        at = made.START + INTERVAL * number
        times.append(at)
        for line in body.decode().splitlines():
            name, _, rest = line.partition("{")
            if line.startswith("#") or name not in wanted:
                continue
            labels, _, value = rest.rpartition("} ")
            own = dict(pair.split("=", 1) for pair in labels.split(","))
            series = {key: text.strip('"') for key, text in own.items()}
            series |= {
                "__name__": name,
                "namespace": "llm",
                "pod": "vllm-0",
                "instance": "10.0.0.1:8000",
                "job": "vllm",
            }
            told.setdefault(f"{name}{labels}", (series, {}))[1][at] = value
    found = [vectors.QueriedSeries(labels, values) for labels, values in told.values()]
    return (scrape for batch in vectors.Pages().scrapes(found, times) for scrape in batch)


@pytest.mark.parametrize("source", [scraped, asked], ids=["scraped", "asked of a Prometheus"])
def test_prompt_lengths_that_come_late_become_the_first_cause(source: object) -> None:
    """Prompts of 300, then 6,000 tokens, told five minutes after the fall: unknown at first, then traffic."""
    found = judged(source(bodies(300, 6000, late=20)))  # type: ignore[operator]
    opened, last = found[0], found[-1]
    assert opened.kind == "collapse"
    assert opened.causes[0].cause == "unknown"
    assert {event.id for event in found} == {opened.id}
    assert last.status == "open"
    assert last.causes[0].cause == "traffic"
    assert "mean prompt length went from 300 to" in last.causes[0].evidence
    assert last.raised_at == opened.raised_at
    assert len(found) <= 4  # told again when something else is said, not at every look


def test_the_causes_at_the_end_are_those_known_then() -> None:
    """A fall that ends after a while closes with the causes that its own time has shown."""
    found = judged(scraped(bodies(3000, 265_000, late=4, back=FALL + 40)))
    closed = found[-1]
    assert closed.status == "closed"
    assert closed.causes[0].cause == "traffic"
    assert "mean prompt length" in closed.causes[0].evidence


def test_where_nothing_else_changes_nothing_is_told_again() -> None:
    """A fall without any other change is told once, and stays unknown."""
    found = judged(scraped(bodies(300, 300, late=0)))
    assert [event.status for event in found] == ["open"]
    assert found[0].causes[0].cause == "unknown"
