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
_MAL = 'max without (window) (specmon_mean_acceptance_length{window=\\"5m\\",%s})'
_BASELINE = "specmon_baseline_mean_acceptance_length{%s}"


def _number(query: str, form: str) -> str:
    """Return a template for the first value of `query` about `$stream`, written by `form`."""
    streams = " $stream" * query.count("%s")
    return (
        f'{{{{ with printf "{query}"{streams} | query }}}}{{{{ . | first | value | {form} }}}}'
        f"{{{{ else }}}}{UNKNOWN}{{{{ end }}}}"
    )


def _optional(query: str, form: str) -> str:
    """Return a template for the first value of `query` about `$stream`, nothing where there is none."""
    return f'{{{{ with printf "{query}" $stream | query }}}}{{{{ . | first | value | {form} }}}}{{{{ end }}}}'


def _shares() -> str:
    """Return a template for what the change of TPOT is made of, largest rise first; nothing where unknown.

    Shares are logarithms: a part of 0.322 is +38 %. Those below half a percent are left out.
    """
    shares = "specmon_tpot_change_log_share{%s}"
    query = f"100 * (exp({shares}) - 1) and abs({shares}) >= 0.005"
    return (
        f'{{{{ with printf "sort_desc({query})" $stream $stream | query }}}}; time per token:'
        "{{ range . }} {{ .Labels.share }} {{ .Value | printf `%+.0f` }} %{{ end }}{{ end }}"
    )


PLACES: Mapping[str, str] = {
    "stream": _STREAM + "{{ $labels.model_name }} on {{ $labels.target }} (replica {{ $labels.replica }})",
    "from_to": (
        f"mean acceptance length {_number(_BASELINE, 'printf `%.2f`')} in control,"
        f" {_number(_MAL, 'printf `%.2f`')} over the last 5 minutes"
    ),
    "since": f"raised {_number('specmon_last_change_timestamp_seconds{%s}', 'humanizeTimestamp')}",
    "cause": (
        '{{ with printf "topk(1, specmon_change_cause_ratio{%s})" $stream | query }}'
        "likely cause: {{ . | first | label `cause` }} (weight {{ . | first | value | printf `%.2f` }})"
        "{{ else }}likely cause: see the report{{ end }}"
    ),
    "cost": (
        f"{_number('specmon_benefit_lost_ratio{%s}', 'humanizePercentage')} of speculation's benefit is lost,"
        f" decoding the same text takes {_number(f'{_BASELINE} / {_MAL}', 'printf `%.1f`')} times the steps"
        f"{_optional('24 * specmon_extra_gpus{%s}', 'printf `, %.3g GPU-hours a day are extra`')}"
        f"{_optional('specmon_extra_cost_per_day{%s}', 'printf ` (cost %.4g)`')}"
        f"{_shares()}"
    ),
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
        found["report_url"] = f"{report}/report/{_KEY}"
    elif alert.scope == "fleet":
        found["dashboard_url"] = f"{dashboard}?var-model_name={{{{ $labels.model_name | urlquery }}}}"
        found["report_url"] = f"{report}/report"
    else:
        found["dashboard_url"] = dashboard
        if alert.scope == "target":
            found["report_url"] = f"{report}/targets"
    return found


def about_specmon(alert: Alert) -> bool:
    """Return whether an alert stands on specmon's own series, so that its pages can tell more."""
    return not alert.name.startswith("SpecmonRules")


_DASHBOARDS: Mapping[Scope, str] = {
    "replica": "specmon-stream",
    "fleet": "specmon-fleet",
    "target": "specmon-self",
    "monitor": "specmon-self",
}
