"""A service made of plain records: five streams in five states, an open collapse, and hours of history."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Unpack

from monitor import metrics
from monitor.web import fields
from monitor.web.view import ShownBucket, StreamView, TargetView
from tests.metric_tables import stream_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from monitor.metrics.textformat import Family
    from monitor.web.view import EventFilter

NOW = 1777637700.0  # 2026-05-01 12:15:00 UTC
COLLAPSED_AT = NOW - 1500
MODEL = "meta-llama/Llama-3.3-70B-Instruct"
HOSTILE = "<script>alert('x')</script>\x1b[31m"


def stream_id(target: str, model_name: str = MODEL, replica: str = "0") -> str:
    """Return an id with the characters that real names bring."""
    return f"{target}/{model_name}/{replica}"


COLLAPSED_ID = stream_id("vllm-2:8000")

COLLAPSE: Mapping[str, object] = {
    "type": "event",
    "id": "c0ffee1234",
    "stream": COLLAPSED_ID,
    "target": "vllm-2:8000",
    "model_name": MODEL,
    "replica": "0",
    "scope": "replica",
    "kind": "collapse",
    "severity": "critical",
    "status": "open",
    "change_point_at": COLLAPSED_AT,
    "change_point_low": COLLAPSED_AT - 30,
    "change_point_high": COLLAPSED_AT + 15,
    "raised_at": COLLAPSED_AT + 45,
    "closed_at": None,
    "before": {
        "mal": 3.31,
        "mal_low": 3.28,
        "mal_high": 3.35,
        "conditional": [0.81, 0.77, 0.74, 0.7],
        "drafts": 81234,
    },
    "after": {
        "mal": 1.24,
        "mal_low": 1.21,
        "mal_high": 1.27,
        "conditional": [0.2, 0.15, 0.12, None],
        "drafts": 15120,
    },
    "cost": {"tokens_per_step_ratio": 0.376, "tpot_ratio": 2.64, "benefit_lost_ratio": 0.896},
    "verdict": None,
    "positions": [0, 1, 2, 3],
    "present_at": COLLAPSED_AT + 600,
    "at_opening": None,
    "facts": [
        "the mean prompt length rose from 412 to 2,930 tokens at 11:49:45 UTC",
        "the engine did not restart and its version stayed 0.32.0",
    ],
    "causes": [
        {
            "cause": "traffic",
            "weight": 0.7,
            "evidence": "the prompt length moved 7.1 times as far as in the week before",
        },
        {"cause": "unknown", "weight": 0.3, "evidence": "what else may have changed is not exported"},
    ],
    "detector": "plunge",
}
PASSED: Mapping[str, object] = {
    **COLLAPSE,
    "id": "ab12",
    "kind": "drop",
    "severity": "warning",
    "status": "closed",
    "change_point_at": NOW - 14400,
    "change_point_low": NOW - 14460,
    "change_point_high": NOW - 14370,
    "raised_at": NOW - 14300,
    "closed_at": NOW - 11000,
    "after": {
        "mal": 2.61,
        "mal_low": 2.55,
        "mal_high": 2.67,
        "conditional": [0.7, 0.6, 0.55, 0.5],
        "drafts": 23110,
    },
    "cost": {"tokens_per_step_ratio": 0.79, "tpot_ratio": None, "benefit_lost_ratio": 0.303},
    "facts": [],
    "causes": [],
}


def estimate(mal: float, conditional: Sequence[float]) -> dict[str, object]:
    """Return the fields of an estimate whose numbers agree."""
    marginal = [math.prod(conditional[: j + 1]) for j in range(len(conditional))]
    return {
        "window_seconds": 300.0,
        "drafts": 15120,
        "draft_tokens": 60480,
        "accepted": [round(share * 15120) for share in marginal],
        "mal": mal,
        "mal_low": mal - 0.03,
        "mal_high": mal + 0.03,
        "marginal": marginal,
        "conditional": list(conditional),
        "alpha": 0.2,
        "coverage": 0.98,
        "tokens_per_step": mal * 0.99,
        "step_seconds": 0.01449,
        "implied_tpot_seconds": 0.01449 / (mal * 0.99),
        "observed_tpot_seconds": None,
        "batch_size": 12.0,
        "baseline_mal": 3.31,
        "score_down": 4.2,
        "score_up": 0.1,
    }


def stream(target: str, **changes: object) -> StreamView:
    """Return a healthy stream with some fields replaced."""
    healthy = StreamView(
        id=stream_id(target),
        target=target,
        model_name=MODEL,
        replica="0",
        state="ok",
        estimate=estimate(3.3, (0.81, 0.77, 0.74, 0.70)),
        state_since=NOW - 86400 * 3,
        engine="vllm",
        engine_version="0.32.0",
        draft_model="yuhuili/EAGLE3-LLaMA3.3-Instruct-70B",
        method="eagle3",
        num_speculative_tokens=4,
        regime="9f2c41d0",
        baseline_mal=3.31,
        baseline_conditional=(0.81, 0.77, 0.74, 0.70),
        score_down=0.12,
        score_up=0.08,
        last_good_at=NOW - 5,
        benefit_lost_ratio=0.004,
    )
    return replace(healthy, **changes)  # type: ignore[arg-type]


SIDE = {"coverage": 0.98, "tokens_per_step": 1.23, "step_seconds": 0.01449, "batch_size": 12.0}
CLOSEUP: Mapping[str, object] = {
    "parted_at": COLLAPSED_AT,
    "before_seconds": 3300.0,
    "before": {**fields.record(COLLAPSE, "before"), **SIDE, "tokens_per_step": 3.26},
    "now": {**fields.record(COLLAPSE, "after"), **SIDE},
    "tpot_log_shares": {"total": 0.97, "acceptance": 1.0, "coverage": -0.03, "rest": 0.0},
    "tpot_sentence": "TPOT rose 164 %: acceptance +172 %, coverage −3 %",
    "traffic": [
        {"name": "mean prompt length", "unit": "tokens", "before": 412.0, "now": 2930.0, "moved": "far_rose"},
        {"name": "prefix cache hit ratio", "unit": "", "before": None, "now": 0.31, "moved": ""},
    ],
    "quality": {
        "violations": {"late_page": 2, "positions_sum": 1},
        "scrapes_refused": {"timeout": 3},
        "contradiction": "",
        "doubted": False,
        "scrapes_read": 240,
        "restarts": 1,
    },
}


def closeup(shown: StreamView) -> dict[str, object]:
    """Return a close look at a stream whose counters agree with its estimate."""
    drafts, mal = (fields.number(shown.estimate, name) for name in ("drafts", "mal"))
    accepted = fields.numbers(shown.estimate, "accepted")
    moved = {}
    if drafts and mal:
        moved = {"drafts": drafts, "draft_tokens": 4 * drafts, "accepted_tokens": round(drafts * (mal - 1))}
    counters = {
        "window_seconds": 300.0,
        "read_at": NOW - 5,
        "moved": moved,
        "on_page": {name: 100 * value for name, value in moved.items()},
        "accepted_moved": accepted,
        "accepted_on_page": accepted,
    }
    return {**CLOSEUP, "change_open": shown.open_event is not None, "counters": counters}


STREAMS = (
    stream("vllm-1:8000"),
    stream(
        "vllm-2:8000",
        state="collapsed",
        state_reason="the mean acceptance length fell from 3.31 to 1.24",
        state_since=COLLAPSED_AT + 45,
        estimate=estimate(1.24, (0.2, 0.15, 0.12, 0.1)),
        open_event=COLLAPSE,
        benefit_lost_ratio=0.896,
        score_down=4.2,
    ),
    stream("vllm-3:8000", state="idle", state_since=NOW - 5400, estimate={"drafts": 0, "mal": math.nan}),
    stream("vllm-4:8000", state="warming", baseline_mal=None, baseline_conditional=(), state_since=NOW - 60),
    StreamView(
        id=stream_id("evil:1", HOSTILE),
        target="evil:1",
        model_name=HOSTILE,
        replica="1",
        state="stale",
        estimate={},
        state_reason='connection refused by "evil:1" & co',
        method=HOSTILE,
    ),
)

TARGETS = (
    *(
        TargetView(
            name=each.target,
            url=f"http://{each.target}/metrics",
            up=True,
            engine="vllm",
            last_scrape_at=NOW - 5,
            last_success_at=NOW - 5,
            duration=0.0123,
            streams=(each.id,),
        )
        for each in STREAMS[:4]
    ),
    TargetView(
        name="evil:1",
        url="http://evil:1/metrics",
        up=False,
        last_scrape_at=NOW - 3,
        error_reason="html",
        error_detail=f"read {HOSTILE}, expected Prometheus text",
        failures={"html": 3, "timeout": 1},
        unrecognised="no family of a known engine",
        streams=(STREAMS[4].id,),
    ),
)


def buckets(collapsed: bool) -> list[ShownBucket]:  # noqa: FBT001 - two histories, one or the other
    """Return six hours of minutes with a gap of twenty, and the fall at the end if asked."""
    start = NOW - 6 * 3600
    made = []
    for minute in range(360):
        at = start + 60 * minute
        if 200 <= minute < 220:
            continue
        fallen = collapsed and at >= COLLAPSED_AT
        mal = (1.24 if fallen else 3.31) + 0.05 * math.sin(minute / 7)
        made.append(
            ShownBucket(
                at,
                60.0,
                drafts=1000.0,
                accepted_tokens=1000 * (mal - 1),
                mal=mal,
                mal_low=mal - 0.06,
                mal_high=mal + 0.06,
                baseline_mal=3.31,
                tokens_per_step=mal * 0.99,
                step_seconds=0.0145,
                coverage=0.98,
                implied_tpot_seconds=0.0145 / (mal * 0.99),
                state="collapsed" if fallen else "ok",
            )
        )
    return made


@dataclass(frozen=True)
class Service:
    """Implements the view over the records above."""

    shown: Sequence[StreamView] = STREAMS
    kept: Sequence[Mapping[str, object]] = (COLLAPSE, PASSED)
    scraped: Sequence[TargetView] = TARGETS
    version: str = "0.1.0"
    revision: str = "abc1234"
    started_at: float = NOW - 7200
    now: float = NOW
    simulated: bool = True
    well: bool = True
    learnt: Sequence[Mapping[str, object]] = ()
    changed: Sequence[Mapping[str, object]] = ()
    word: str = "not_enough"
    past: Mapping[str, Sequence[ShownBucket]] = field(
        default_factory=lambda: {
            COLLAPSED_ID: buckets(collapsed=True),
            STREAMS[0].id: buckets(collapsed=False),
        }
    )

    def streams(self) -> Sequence[StreamView]:
        """All streams."""
        return self.shown

    def stream(self, stream_id: str) -> StreamView | None:
        """One stream."""
        return next((each for each in self.shown if each.id == stream_id), None)

    def events(self, **wanted: Unpack[EventFilter]) -> Sequence[Mapping[str, object]]:
        """Events that match."""
        columns = ("stream", "status", "kind", "severity", "scope", "model_name", "target")
        same = {name: wanted[name] for name in columns if wanted.get(name) is not None}  # type: ignore[literal-required]
        since, offset = wanted.get("since"), wanted.get("offset", 0)
        found = [
            event
            for event in self.kept
            if all(event[name] == value for name, value in same.items())
            and (since is None or float(str(event["raised_at"])) >= since or event["status"] == "open")
        ]
        return found[offset : offset + wanted.get("limit", 100)]

    def event(self, event_id: str) -> Mapping[str, object] | None:
        """One event."""
        return next((event for event in self.kept if event["id"] == event_id), None)

    def changes(self) -> Sequence[Mapping[str, object]]:
        """What was changed, by the test."""
        return self.changed

    def history(self, stream_id: str, start: float, end: float) -> Sequence[ShownBucket]:
        """The buckets between two times."""
        return [bucket for bucket in self.past.get(stream_id, ()) if start <= bucket.at < end]

    def model_history(self, model_name: str, start: float, end: float) -> Sequence[ShownBucket]:
        """The buckets of the first stream of the model that has any."""
        found = (self.history(each.id, start, end) for each in self.shown if each.model_name == model_name)
        return next(filter(None, found), [])

    def advice(self, stream_id: str) -> Mapping[str, object]:
        """Nothing is advised."""
        return {"stream": stream_id, "best": None}

    def references(self, model_name: str) -> Sequence[Mapping[str, object]]:
        """What was learnt of a model."""
        return [each for each in self.learnt if each["model_name"] == model_name]

    def closeup(self, stream_id: str) -> Mapping[str, object]:
        """A close look at one stream."""
        found = self.stream(stream_id)
        return {} if found is None else closeup(found)

    def verdict(
        self, sides: tuple[Sequence[str], Sequence[str]], since: float | None, margin: float
    ) -> Mapping[str, object]:
        """The word that the test gives, with what was asked for."""
        return {"verdict": self.word, "sides": sides, "since": since, "margin": margin}

    def targets(self) -> Sequence[TargetView]:
        """All targets."""
        return self.scraped

    def config(self) -> str:
        """Settings."""
        return f"targets:\n  - url: http://{HOSTILE}\n    bearer_token: '…'\n"

    @property
    def progress(self) -> str:
        """Nothing of the past is being read."""
        return ""

    def ready(self) -> tuple[bool, str]:
        """Whether it runs."""
        return (True, "all loops run") if self.well else (False, "the scrape loop has not started")

    def families(self, target: str | None = None) -> Iterable[Family]:
        """The families of the targets, and of a few made streams."""
        rows = [
            metrics.TargetRow(each.name, each.up, each.duration or math.nan, math.nan, 7, each.failures)
            for each in self.scraped
            if target in {None, each.name}
        ]
        yield from metrics.target_families(rows)
        if target is None:
            yield from metrics.stream_families(stream_table(3))
