"""What notifications say: places of a source's text and links, as templates that Prometheus fills in.

The same templates work in Prometheus, Thanos and Mimir rulers and vmalert. A number that is not known when an
alert fires is written as a dash, never as a zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alerts.sources import Alert, Scope

UNKNOWN = "–"
# `instance` tells the sidecars of one fleet apart when all of them call their engine localhost.
_STREAM = (
    '{{ $stream := printf "target=%q,model_name=%q,replica=%q,instance=%q"'
    " $labels.target $labels.model_name $labels.replica $labels.instance }}"
)
_KEY = "{{ $labels.target | urlquery }}~{{ $labels.model_name | urlquery }}~{{ $labels.replica | urlquery }}"
_STREAM_VARIABLES = "&".join(
    f"var-{name}={{{{ $labels.{name} | urlquery }}}}" for name in ("target", "model_name", "replica")
)
_PERCENT = "{{ . | first | value | printf `%.0f %%` }}"
_TIMES = (
    "{{ $times := . | first | value }}"
    "{{ if lt $times 10.0 }}{{ printf `%.1f×` $times }}{{ else }}{{ printf `%.0f×` $times }}{{ end }}"
)
_CLOCK = "{{ . | first | value | humanizeTimestamp | reReplaceAll ` [+]0000` `` }}"
_MODEL = '{{ $model := printf "model_name=%q" $labels.model_name }}'


def _value(series: str, whose: str, form: str) -> str:
    """Return a template for the value of `series` about `$stream` or `$model`, written by `form`."""
    return (
        f'{{{{ with printf "{series}" ${whose} | query }}}}{{{{ . | first | value | {form} }}}}'
        f"{{{{ else }}}}{UNKNOWN}{{{{ end }}}}"
    )


def _if_known(series: str, whose: str, then: str) -> str:
    """Return `then` where `series` has a value about `$stream` or `$model`, and nothing elsewhere."""
    return f'{{{{ with printf "{series}" ${whose} | query }}}}{then}{{{{ end }}}}'


def _optional(query: str, whose: str, form: str) -> str:
    """Return a template for the first value of `query`, nothing where there is none."""
    return _if_known(query, whose, f"{{{{ . | first | value | {form} }}}}")


def _bill() -> str:
    """Return a template for what a stream's open change takes, and what the change of TPOT is made of.

    Nothing where unknown. Shares are logarithms, a part of 0.322 is +38 %, largest rise first; those below
    half a percent are left out.
    """
    shares = "specmon_tpot_change_log_share{%s}"
    query = f"100 * (exp({shares}) - 1) and abs({shares}) >= 0.005"
    return (
        _optional("24 * specmon_extra_gpus{%s}", "stream", "printf `, %.3g GPU-hours a day are extra`")
        + _optional("specmon_extra_cost_per_day{%s}", "stream", "printf ` (cost %.4g)`")
        + f'{{{{ with printf "sort_desc({query})" $stream $stream | query }}}}; time per token:'
        "{{ range . }} {{ .Labels.share }} {{ .Value | printf `%+.0f` }} %{{ end }}{{ end }}"
    )


_WINDOWED = 'max without (window) (%s{window=\\"5m\\",%%s})'


def _event(prefix: str, whose: str) -> dict[str, str]:
    """Return what an event's own series say of it, written as the report and notifications write it."""
    level = f"{prefix}_change_mean_acceptance_length"
    lost = "specmon_fleet_change_benefit_lost_ratio" if whose == "model" else "specmon_benefit_lost_ratio"
    slowdown = f"{prefix}_change_slowdown_ratio{{%s}}"
    was, now = (_value(f"{level}_{side}{{%s}}", whose, "printf `%.2f`") for side in ("before", "after"))
    came_from = _if_known(f"{level}_before{{%s}}", whose, f"{was} → ")
    both = _if_known(f"{level}_before{{%s}}", whose, f"mean acceptance length {was} before, {now} after, ")
    alone = f"{level}_after{{%s}} unless {level}_before"
    began = f"floor({prefix}_change_start_timestamp_seconds{{%s}})"
    return {
        "size": _if_known(f"{level}_after{{%s}}", whose, f": MAL {came_from}{now}"),
        "factor": _if_known(f"{slowdown} > 1.05", whose, f", a token takes {_TIMES} as long"),
        "moved": both + _if_known(alone, whose, f"mean acceptance length {now}, "),
        "since": f"since {_otherwise(_if_known(began, whose, _CLOCK), UNKNOWN)}",
        "cost": _if_known(f"{lost}{{%s}} * 100 > 0", whose, f"; {_PERCENT} of speculation's benefit is lost")
        + _if_known(slowdown, whose, f", a token takes {_TIMES} as long"),
        "cause": _if_known(
            f"topk(1, {prefix}_change_cause_ratio{{%s}})",
            whose,
            "; likely cause: {{ . | first | label `cause` }} "
            "(weight {{ . | first | value | printf `%.2f` }})",
        ),
    }


def places(scope: str) -> Mapping[str, str]:
    """Return what stands for each `<<name>>` in the texts of an alert about a replica or a whole model."""
    if scope == "fleet":
        count = _if_known(
            "sum(specmon_fleet_change_affected_replicas{%s})", "model", " on {{ . | first | value }} replicas"
        )
        return {"model": _MODEL + "{{ $labels.model_name }}" + count, **_event("specmon_fleet", "model")}
    event = _event("specmon", "stream")
    return {
        "stream": _STREAM
        + "{{ $labels.model_name }} on {{ $labels.target }} (replica {{ $labels.replica }})",
        "in_control": _value("specmon_baseline_mean_acceptance_length{%s}", "stream", "printf `%.2f`"),
        **event,
        "mal": _value(_WINDOWED % "specmon_mean_acceptance_length", "stream", "printf `%.2f`"),
        "speedup": _value(_WINDOWED % "specmon_speculation_speedup_ratio", "stream", "humanizePercentage"),
        "cost": event["cost"] + _bill(),
    }


def links(alert: Alert, site: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of an alert that are links, made from its name and its labels."""
    report, grafana = site["report"], site["grafana"]
    found = {"runbook_url": f"{site['runbooks']}/{alert.name}.md"}
    if not about_specmon(alert):
        return {**found, "dashboard_url": f"{grafana}/d/specmon-rules"}
    dashboard = f"{grafana}/d/{_DASHBOARDS[alert.scope]}"
    if alert.scope == "replica":
        found["dashboard_url"] = f"{dashboard}?{_STREAM_VARIABLES}"
        known = _if_known(
            'specmon_change_info{%s,report!=\\"\\"}', "stream", "{{ . | first | label `report` }}"
        )
        found["report_url"] = _STREAM + _otherwise(known, f"{report}/report/{_KEY}")
    elif alert.scope == "fleet":
        found["dashboard_url"] = f"{dashboard}?var-model_name={{{{ $labels.model_name | urlquery }}}}"
        known = _if_known(
            'specmon_fleet_change_info{%s,report!=\\"\\"}', "model", "{{ . | first | label `report` }}"
        )
        named = _if_known(
            "specmon_fleet_change_info{%s}",
            "model",
            f"{report}/report/events/{{{{ . | first | label `event` }}}}",
        )
        found["report_url"] = _MODEL + _otherwise(known, _otherwise(named, f"{report}/report"))
    else:
        found["dashboard_url"] = dashboard
        if alert.scope == "target":
            monitor = '{{ $monitor := printf "instance=%q" $labels.instance }}'
            own = _if_known(
                "specmon_web_info{%s}", "monitor", "{{ . | first | label `external_url` }}/targets"
            )
            found["report_url"] = monitor + _otherwise(own, f"{report}/targets")
    return found


def _otherwise(known: str, fallback: str) -> str:
    """Return a template of `_if_known` with what stands there where nothing is known."""
    return f"{known.removesuffix('{{ end }}')}{{{{ else }}}}{fallback}{{{{ end }}}}"


def about_specmon(alert: Alert) -> bool:
    """Return whether an alert stands on specmon's own series, so that its pages can tell more."""
    return not alert.name.startswith("SpecmonRules")


_DASHBOARDS: Mapping[Scope, str] = {
    "replica": "specmon-stream",
    "fleet": "specmon-fleet",
    "target": "specmon-self",
    "monitor": "specmon-self",
}
