"""How a replay is shown: JSON lines for programs, sentences for people."""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from monitor.core import events
from monitor.core.events import event_records
from monitor.core.streams import summaries

if TYPE_CHECKING:
    from collections.abc import Callable

    from monitor.core.detectors.calibration import Calibration, Excursions
    from monitor.core.events import Event
    from monitor.core.pipeline import Plan
    from monitor.core.streams import Identity, State

ESTIMATE_WINDOW = 1  # of the plan's windows: the middle one, five minutes


class JsonLines:
    """One JSON object a line on standard output: events, estimates every so many seconds, summaries last."""

    def __init__(self, *, every: float, updates: bool) -> None:
        self._every = every
        self._updates = updates
        self._next = 0.0

    def step(self, plan: Plan, state: State, now: float, news: tuple[Event, ...]) -> None:
        """Print the events of a step; of one that is open only the opening, unless updates are wanted."""
        for event in news:
            fresh = event.status == "closed" or event.updates == 0
            if fresh or self._updates:
                _print(event_records.as_json(event))
        if self._every and now >= self._next:
            if self._next:
                for record in summaries.over_window(plan, state, ESTIMATE_WINDOW, now):
                    _print(record)
            self._next = (now // self._every + 1) * self._every

    def end(self, plan: Plan, state: State, excursions: Excursions) -> None:
        """Print each stream's calibration, then the summaries."""
        for row, identity in enumerate(state.identities):
            _print(calibration_record(identity, plan, excursions.of_stream(plan.detection, row)))
        for record in summaries.totals(plan, state):
            _print(record)


class Text:
    """Sentences for people."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def step(self, plan: Plan, state: State, now: float, news: tuple[Event, ...]) -> None:
        """Print a line for each event that opens or closes."""
        del plan, state, now
        for event in news:
            if event.status == "closed" or event.updates == 0:
                print(sentence(event), file=self._stream)

    def end(self, plan: Plan, state: State, excursions: Excursions) -> None:
        """Print a line for each stream, after one on the false alarms to expect of any of them."""
        if state.identities:
            print(calibration_line(excursions.of_all(plan.detection)), file=self._stream)
        for record in summaries.totals(plan, state):
            print(stream_line(record), file=self._stream)


def calibration_record(identity: Identity, plan: Plan, calibration: Calibration) -> summaries.Record:
    """Return what a stream's quiet hours promise of false alarms, as JSON."""
    return {
        "type": "calibration",
        "stream": identity.id,
        "target": identity.key.target,
        "model_name": identity.key.model_name,
        "replica": identity.key.replica,
        "hours": events.number(calibration.hours),
        "accepted_false_alarms_per_month": events.number(plan.detection.false_alarms_per_month),
        "expected_false_alarms_per_month": events.number(calibration.expected),
        "low": events.number(calibration.low),
        "high": events.number(calibration.high),
    }


def calibration_line(calibration: Calibration) -> str:
    """Return the false alarms to expect of a stream as one line."""
    text = "expected false alarms at these settings on your data: "
    if math.isnan(calibration.expected):
        return f"{text}too little history to say ({calibration.hours:.1f} quiet hours)"
    interval = f"[{calibration.low:.2g}, {calibration.high:.2g}]"
    hours = f"(from {calibration.hours:.0f} quiet hours)"
    return f"{text}{calibration.expected:.2g} {interval} per replica and month {hours}"


def sentence(event: Event) -> str:
    """Return one line that says what happened, when, and by how much."""
    at = event.closed_at if event.status == "closed" and event.closed_at is not None else event.raised_at
    what = f"{event.kind.replace('_', ' ')} ({event.severity})"
    ended = "over: " if event.status == "closed" and event.closed_at != event.raised_at else ""
    levels = ""
    if math.isfinite(event.before.mal) and math.isfinite(event.after.mal):
        levels = f", mean acceptance length {event.before.mal:.2f} → {event.after.mal:.2f}"
    judged = events.word(event)
    levels += f", verdict {judged.outcome.replace('_', ' ')} ({judged.confidence:.1%} sure)" if judged else ""
    lost = event.cost.benefit_lost_ratio
    cost = f", {lost:.0%} of the benefit lost" if lost > 0 else ""
    where = event.stream or event.model_name
    since = f"since {_time(event.change_point_at)}"
    return f"{_time(at)}  {where}  {ended}{what} {since}{levels}{cost}{_cause(event)}"


def _cause(event: Event) -> str:
    """Return the likeliest cause; where that is the unknown one, what else changed is no more than that."""
    if not event.causes:
        return ""
    first = event.causes[0]
    if first.cause != "unknown":
        return f", likely {first.cause}: {first.evidence}"
    return f", cause unknown, meanwhile {'; '.join(event.facts)}" if event.facts else ", cause unknown"


def stream_line(record: summaries.Record) -> str:
    """Return one line that sums a stream up."""
    where = record["stream"] or record["target"]
    refused = record["scrapes_refused"]
    pages = f"{record['scrapes_read']} scrapes read" + (f", refused {refused}" if refused else "")
    if record["stream"] is None:
        return f"{where}  {record['state']}: {record['reason']} ({pages})"
    mal = record["mal"]
    acceptance = "no drafts"
    if mal is not None:
        interval = f"[{record['mal_low']:.3f}, {record['mal_high']:.3f}]"
        acceptance = f"mean acceptance length {mal:.3f} {interval} over {record['drafts']} drafts"
    happened = f"{_counted(record['restarts'], 'restart')}, {_counted(record['events'], 'event')}"
    odd = "".join(f", {name} {times} times" for name, times in _violations(record).items())
    why = f": {record['reason']}" if record["reason"] else ""
    return f"{where}  {record['state']}{why}  {acceptance}, {happened}{odd} ({pages})"


def _violations(record: summaries.Record) -> dict[str, int]:
    found = record.get("violations")
    return found if isinstance(found, dict) else {}


def _counted(number: object, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def progress(stream: TextIO, doing: str = "replaying") -> Callable[[float], None] | None:
    """Return what shows the share of long work on a terminal, None where nobody watches."""
    if not stream.isatty():
        return None

    def show(share: float) -> None:
        text = "" if share >= 1 else f"{doing} … {share:4.0%}"
        stream.write(f"\r\x1b[K{text}")
        stream.flush()

    return show


def _time(unix_seconds: float) -> str:
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print(record: summaries.Record) -> None:
    sys.stdout.write(json.dumps(record, allow_nan=False, ensure_ascii=False) + "\n")
