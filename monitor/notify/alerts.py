"""An event -> the alert of Alertmanager's API v2 and the body of a webhook: pure, golden-tested.

Names, `scope` and `trouble` are those of the rules in alerts/, so that one Alertmanager configuration
routes, groups and inhibits both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from monitor.web import bills, fields, standings, wording

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.notify.plan import LinkBases
    from monitor.web.fields import Record

LIFETIMES = 4  # an alert ends by itself when it was not posted again for so many resend intervals
NOTEWORTHY = 1.05  # times as long: less is not worth a headline
LATE_SECONDS = 300.0  # how long an event that ended before anybody was told of it is shown as firing


@dataclass(frozen=True, slots=True)
class Naming:
    """How the alerts of one kind are called, what they are about, in words, and if a runbook is there."""

    name: str
    trouble: str
    summary: str
    scope: str = "replica"
    runbook: bool = True


NAMES: Mapping[str, Naming] = {
    "collapse": Naming("SpecmonAcceptanceCollapsed", "acceptance", "Speculation stopped paying: {where}"),
    "drop": Naming("SpecmonAcceptanceDropped", "acceptance", "Acceptance fell and stayed down: {where}"),
    "tail_drop": Naming(
        "SpecmonTailDropped",
        "acceptance",
        "Later draft positions are accepted less than before: {where}",
    ),
    "decay": Naming("SpecmonAcceptanceDecaying", "acceptance", "Acceptance sinks slowly: {where}"),
    "dead_draft": Naming(
        "SpecmonDeadDraft", "acceptance", "The draft is practically never accepted: {where}"
    ),
    "speculation_silent": Naming(
        "SpecmonSpeculationSilent", "silent", "Configured to speculate, and no drafts are made: {where}"
    ),
    "below_reference": Naming(
        "SpecmonBelowReference", "reference", "Acceptance is below what is pinned for the model: {where}"
    ),
    "net_loss": Naming("SpecmonNetLoss", "payoff", "Speculation costs more than it gains: {where}"),
    "speculation_off": Naming("SpecmonSpeculationOff", "off", "{where} no longer speculates"),
    "data_quality": Naming("SpecmonDataQuality", "page", "Counters contradict each other: {where}", "target"),
    "improvement": Naming(
        "SpecmonAcceptanceImproved", "improvement", "Acceptance rose and stayed up: {where}", runbook=False
    ),
    "regime_change": Naming(
        "SpecmonRegimeChanged", "regime", "{where} runs in a new configuration", runbook=False
    ),
}
FLEET_NAMES: Mapping[str, Naming] = {
    **NAMES,
    **dict.fromkeys(
        ("collapse", "dead_draft"),
        Naming("SpecmonFleetAcceptanceCollapsed", "acceptance", "Speculation of {where} stopped paying"),
    ),
    **dict.fromkeys(
        ("drop", "tail_drop", "decay"),
        Naming("SpecmonFleetAcceptanceDropped", "acceptance", "Acceptance of {where} fell"),
    ),
    "speculation_silent": Naming(
        "SpecmonFleetSpeculationSilent",
        "silent",
        "{where} are configured to speculate and make no drafts",
    ),
}


def identity(event: Record, labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of an event's alert, ours above the target's: the same labels, the same alert."""
    naming = _naming(event)
    ours = {
        "alertname": naming.name,
        "severity": fields.text(event, "severity"),
        "scope": "fleet" if fields.text(event, "scope") == "fleet" else naming.scope,
        "trouble": naming.trouble,
        "kind": fields.text(event, "kind"),
        **{name: fields.text(event, name) for name in ("target", "model_name", "replica")},
    }
    return {name: value for name, value in {**labels, **ours}.items() if value}


def alert(
    event: Record,
    labels: Mapping[str, str],
    site: LinkBases,
    now: float,
    *,
    lifetime: float,
    late: bool = False,
) -> dict[str, object]:
    """Return the alert as `POST /api/v2/alerts` takes it, posted at `now` (unix seconds).

    An open event ends `lifetime` seconds from now unless it is posted again, a closed one when it closed.
    `late` is for one that closed before it was ever told: Alertmanager tells nobody of an alert that is
    over, so it is shown as firing for a while, and its text says that it is over.
    """
    start = fields.number(event, "raised_at") or now
    closed = fields.number(event, "closed_at")
    ends = now + LATE_SECONDS if late else now + lifetime if closed is None else max(closed, start)
    report = _report(event, site)
    return {
        "labels": identity(event, labels),
        "annotations": {name: text for name, text in texts(event, site).items() if text},
        "startsAt": wording.iso(start),
        "endsAt": wording.iso(ends),
        **({"generatorURL": report} if report else {}),
    }


def body(event: Record, labels: Mapping[str, str], site: LinkBases) -> dict[str, object]:
    """Return what a webhook gets: the event as the API shows it, the target's labels, and the texts."""
    return {**event, "labels": dict(labels), **texts(event, site)}


def texts(event: Record, site: LinkBases) -> dict[str, str]:
    """Return summary, description and links of an event; a link is empty where nobody said where it leads."""
    naming = _naming(event)
    summary = f"{naming.summary.format(where=_where(event))}{_size(event)}."
    return {
        "summary": summary[0].upper() + summary[1:],
        "description": description(event),
        "runbook_url": runbook(event, site),
        "report_url": _report(event, site),
    }


def runbook(event: Record, site: LinkBases) -> str:
    """Return the address of the runbook of an event's alert, empty where there is none."""
    naming = _naming(event)
    return f"{site.runbooks}/{naming.name}.md" if site.runbooks and naming.runbook else ""


def description(event: Record) -> str:
    """Return where, from what to what, since when, at what cost and why, in one paragraph without "now"."""
    parts = [f"{_where(event)}: {_moved(event)}{_when(event)}", _cost(event), _causes(event)]
    return "; ".join(part for part in parts if part) + "."


def _naming(event: Record) -> Naming:
    names = FLEET_NAMES if fields.text(event, "scope") == "fleet" else NAMES
    return names[fields.text(event, "kind")]


def _report(event: Record, site: LinkBases) -> str:
    return f"{site.report}/report/events/{quote(fields.text(event, 'id'), safe='')}" if site.report else ""


def _where(event: Record) -> str:
    model = fields.text(event, "model_name") or "the model"
    if fields.text(event, "scope") == "fleet":
        return f"{model} on {wording.plural(len(fields.texts(event, 'streams')), 'replica')}"
    replica = fields.text(event, "replica") or wording.UNKNOWN
    return f"{model} on {fields.text(event, 'target')} (replica {replica})"


def _moved(event: Record) -> str:
    """Return the acceptance before and after with its intervals, as far as both are known."""
    before, after = (_level(fields.record(event, side)) for side in ("before", "after"))
    if not before and not after:
        return ""
    if not before:
        return f"mean acceptance length {after}, "
    return f"mean acceptance length {before} before, {after or wording.UNKNOWN} after, "


def _size(event: Record) -> str:
    """Return from what to what, and what it costs, as short as a headline: empty where nothing is known."""
    before, after = (fields.number(fields.record(event, side), "mal") for side in ("before", "after"))
    slower = standings.slowdown(event)
    size = "" if after is None else f": MAL {wording.length(after)}"
    if before is not None and after is not None:
        size = f": MAL {wording.length(before)} → {wording.length(after)}"
    return size + (
        f", a token takes {wording.times(slower)} as long"
        if slower is not None and slower > NOTEWORTHY
        else ""
    )


def _level(level: Record) -> str:
    mal = fields.number(level, "mal")
    if mal is None:
        return ""
    interval = wording.interval(fields.number(level, "mal_low"), fields.number(level, "mal_high"))
    return wording.length(mal) if interval == wording.UNKNOWN else f"{wording.length(mal)} ({interval})"


def _when(event: Record) -> str:
    start = fields.number(event, "change_point_at") or fields.number(event, "raised_at") or 0.0
    closed = fields.number(event, "closed_at")
    if closed is None:
        return f"since {wording.clock(start)}"
    if closed == fields.number(event, "raised_at"):
        return f"at {wording.clock(start)}"
    return f"from {wording.clock(start)} to {wording.clock(closed)}, over"


def _cost(event: Record) -> str:
    record = fields.record(event, "cost")
    lost = fields.number(record, "benefit_lost_ratio")
    slower = standings.slowdown(event)
    parts = []
    if lost is not None and lost > 0:
        parts.append(f"{wording.percent(lost)} of speculation's benefit is lost")
    if slower is not None:
        made = bills.shares(record)
        parts.append(f"a token takes {wording.times(slower)} as long" + (f" ({made})" if made else ""))
    bill = bills.sentence(record)
    return ", ".join([*parts, bill] if bill else parts)


def _causes(event: Record) -> str:
    found = [
        f"{fields.text(cause, 'cause').replace('_', ' ')} "
        f"(weight {wording.length(fields.number(cause, 'weight'))}: {fields.text(cause, 'evidence')})"
        for cause in fields.records(event, "causes")
    ]
    return f"likely {'cause' if len(found) == 1 else 'causes'}: {', '.join(found)}" if found else ""
