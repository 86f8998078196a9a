"""The rules: what is generated is current and loads, and every alert fires when it should and only then."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from alerts import generate, sources
from tests.alerts import situations, tools

if TYPE_CHECKING:
    from pathlib import Path

SCENARIOS = sorted((tools.HERE / "promtool").glob("*.yaml"))
ALERTS = {
    alert.name: alert for folder in generate.TIERS for alert in sources.read(generate.ROOT / folder).alerts
}


def test_what_is_generated_is_current() -> None:
    """Rules and dashboards are what their sources make now (`python -m alerts.generate` writes them)."""
    assert generate.stale(generate.products()) == []


@pytest.mark.parametrize("tier", tools.TIERS)
def test_promtool_accepts(tier: str) -> None:
    """Prometheus' own check finds nothing wrong with the rule files."""
    assert "SUCCESS" in tools.run(
        tools.program("promtool"), "check", "rules", tools.GENERATED / tools.TIERS[tier]
    )


@pytest.mark.parametrize("tier", tools.TIERS)
def test_vmalert_accepts(tier: str, tmp_path: Path) -> None:
    """The parser of vmalert takes everything but `keep_firing_for`, for which Debian's is too old."""
    vmalert = tools.program_or_skip("vmalert")
    rules = (tools.GENERATED / tools.TIERS[tier]).read_text()
    path = tmp_path / "rules.yaml"
    path.write_text(
        "".join(line for line in rules.splitlines(keepends=True) if "keep_firing_for" not in line)
    )
    tools.run(vmalert, "-dryRun", f"-rule={path}")


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenarios(path: Path, tmp_path: Path) -> None:
    """Each scenario of a file ends with exactly the alerts that it expects."""
    tools.promtool_test(tools.ready_scenarios(path, tmp_path))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenarios_in_vmalert(path: Path, tmp_path: Path) -> None:
    """VictoriaMetrics' vmalert gives the same alerts with the same labels."""
    tools.vmalert_test(tools.ready_scenarios(path, tmp_path))


def test_annotations(tmp_path: Path) -> None:
    """What a notification says is complete: numbers, causes and links, and a dash for what is not known."""
    tools.promtool_test(tools.ready_scenarios(tools.HERE / "annotations.yaml", tmp_path, annotations=True))


def test_zeros_are_written_so_that_promtool_reads_them() -> None:
    """Since promtool reads `0x30` as the number 48, a scenario says `0+0x30` when it means zeros."""
    assert [path.name for path in SCENARIOS if re.search(r"(?<![\w.+])0x\d", path.read_text())] == []


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_has_scenarios(name: str) -> None:
    """An alert has scenarios in which it fires and scenarios in which it does not, written or recorded."""
    if not (tools.HERE / "promtool" / f"{name}.yaml").exists():
        recorded = [open_ for each in situations.SITUATIONS.values() for open_ in each.open.values()]
        assert any(name in open_ for open_ in recorded)
        return
    found = yaml.safe_load((tools.HERE / "promtool" / f"{name}.yaml").read_text())
    expectations = [
        "exp_alerts" in check
        for scenario in found["tests"]
        for check in scenario.get("alert_rule_test", ())
        if check["alertname"] == name
    ]
    assert any(expectations)
    assert not all(expectations)


def test_operators_objects_hold_the_same_rules() -> None:
    """PrometheusRule and VMRule carry the groups of the plain file, unchanged."""
    for name in generate.TIERS.values():
        groups = yaml.safe_load((tools.GENERATED / f"{name}.rules.yaml").read_text())["groups"]
        for kind, form in (("PrometheusRule", "prometheusrule"), ("VMRule", "vmrule")):
            made = yaml.safe_load((tools.GENERATED / f"{name}.{form}.yaml").read_text())
            assert made["kind"] == kind
            assert made["spec"] == {"groups": groups}


@pytest.mark.parametrize("name", ALERTS)
def test_conventions(name: str) -> None:
    """An alert says where its runbook and its dashboard are, and its summary does not change while it fires."""
    rules = [
        rule
        for tier in tools.TIERS
        for group in tools.rule_groups(tier)
        for rule in _rules(group)
        if rule.get("alert") == name
    ]
    assert rules
    for rule in rules:
        annotations, labels = rule["annotations"], rule["labels"]
        assert isinstance(annotations, dict)
        assert isinstance(labels, dict)
        assert annotations["runbook_url"].endswith(f"/{name}.md")
        assert annotations["dashboard_url"]
        assert "$value" not in annotations["summary"]
        assert set(labels) == {"severity", "scope", "trouble"}


def test_only_what_people_feel_pages() -> None:
    """Critical are only the alerts on tokens that come slower; everything else can wait for the morning."""
    critical = {alert.name for alert in ALERTS.values() if alert.severity == "critical"}
    assert critical == {name for name in ALERTS if name.endswith("CollapseSlowsDecoding")}


@pytest.mark.parametrize("tier", tools.TIERS)
def test_recorded_names(tier: str) -> None:
    """Recorded series are named level:metric:operations, and no series of an alert is recorded twice."""
    recorded = [
        rule["record"] for group in tools.rule_groups(tier) for rule in _rules(group) if "record" in rule
    ]
    assert recorded
    for record in recorded:
        assert re.fullmatch(r"(stream|model):[a-z][a-z0-9_]*:[a-z][a-z0-9_]*", str(record))


def _rules(group: dict[str, object]) -> list[dict[str, object]]:
    rules = group["rules"]
    assert isinstance(rules, list)
    return rules


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("severity: warning", "misses ['description', 'expr', 'for', 'scope', 'summary', 'trouble']"),
        ("[]", "expected a mapping of text to text"),
        (
            "severity: page\nscope: replica\ntrouble: t\nfor: 1m\nexpr: up\nsummary: s\ndescription: d",
            "severity 'page', expected one of ('critical', 'warning', 'info')",
        ),
    ],
    ids=["missing", "list", "severity"],
)
def test_wrong_sources_are_refused(text: str, said: str, tmp_path: Path) -> None:
    """A source that is wrong is refused with its path and what was expected."""
    (tmp_path / "SpecmonWrong.yaml").write_text(text)
    with pytest.raises(sources.RefusedError) as refused:
        sources.read(tmp_path)
    assert str(refused.value).startswith(str(tmp_path))
    assert said in str(refused.value)
