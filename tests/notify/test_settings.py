"""The settings of notifications: what they come to, what is refused, and that no secret of them is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor import settings
from monitor.service import assembly

if TYPE_CHECKING:
    from pathlib import Path

    from monitor import notify

WHOLE = """
web: {external_url: "https://specmon.example.com/"}
notify:
  alertmanagers:
  - http://am-0:9093
  - {url: "https://user:hunter2@am.example.com/prefix", name: far, tls: {insecure_skip_verify: true}}
  webhooks:
  - url: https://hooks.example.com/services/hunter2
    bearer_token: hunter2
    headers: {X-Key: hunter2}
  min_severity: critical
  resend_interval: 30s
  runbooks_url: https://example.com/runbooks/
"""


def loaded(text: str, folder: Path) -> settings.Settings:
    """The settings of a file with this text."""
    file = folder / "specmon.yml"
    file.write_text(text)
    return settings.load({}, {}, str(file))


def plan(text: str, folder: Path) -> notify.NotifyPlan:
    """What notifying is told of a file with this text."""
    return assembly.notifications(loaded(text, folder))


def test_nobody_is_told_by_default(tmp_path: Path) -> None:
    """Notifications are off until somebody is named."""
    assert plan("", tmp_path).receivers == ()


def test_settings_reach_the_plan(tmp_path: Path) -> None:
    """Receivers, names, secrets, severity, interval and links are those of the file."""
    made = plan(WHOLE, tmp_path)
    near, far, hook = made.receivers
    assert [(each.kind, each.name) for each in made.receivers] == [
        ("alertmanager", "am-0:9093"),
        ("alertmanager", "far"),
        ("webhook", "hooks.example.com:443"),
    ]
    assert (near.tls, far.tls is not None and far.tls.insecure_skip_verify) == (None, True)
    assert (hook.bearer_token, hook.headers) == ("hunter2", (("X-Key", "hunter2"),))
    assert (made.min_severity, made.resend_seconds) == ("critical", 30.0)
    assert (made.site.report, made.site.runbooks) == (
        "https://specmon.example.com",
        "https://example.com/runbooks",
    )


def test_receivers_in_the_environment() -> None:
    """A comma list names Alertmanagers without a file."""
    given = {"SPECMON_NOTIFY__ALERTMANAGERS": "http://am-0:9093,http://am-1:9093"}
    names = [each.name for each in assembly.notifications(settings.load({}, given)).receivers]
    assert names == ["am-0:9093", "am-1:9093"]


def test_no_secret_is_shown(tmp_path: Path) -> None:
    """Passwords, tokens, headers and the paths of webhooks are masked; the hosts stay readable."""
    shown = settings.masked(loaded(WHOLE, tmp_path))
    assert "hunter2" not in shown
    assert "https://hooks.example.com/…" in shown
    assert "https://user:…@am.example.com/prefix" in shown


@pytest.mark.parametrize(
    "change",
    [
        ("/services/hunter2", "/services/hunter3"),
        ("bearer_token: hunter2", "bearer_token: x"),
        ("X-Key: hunter2", "X-Key: x"),
    ],
    ids=["path", "token", "header"],
)
def test_the_digest_sees_secrets(change: tuple[str, str], tmp_path: Path) -> None:
    """Settings that differ in a secret of a receiver alone are different settings."""
    assert settings.digest(loaded(WHOLE, tmp_path)) != settings.digest(
        loaded(WHOLE.replace(*change), tmp_path)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "notify: {alertmanagers: [http://am, http://am/other]}",
            "notify: expected different names, read 'am:80' twice; set `name`",
        ),
        (
            "notify: {webhooks: [hooks/hunter2]}",
            "specmon.yml: notify.webhooks[0].url: read …, expected a URL such as http://engine-0:8000/metrics",
        ),
        (
            "notify: {min_severity: loud}",
            "specmon.yml: notify.min_severity: read 'loud', expected 'critical', 'warning' or 'info'",
        ),
        (
            "notify: {alertmanager: [http://am]}",
            "specmon.yml: notify.alertmanager: no such setting; did you mean notify.alertmanagers?",
        ),
        (
            "notify: {resend_interval: 0.5s}",
            "specmon.yml: notify.resend_interval: read 0.5, expected greater than or equal to 1",
        ),
    ],
    ids=["same name", "no URL", "severity", "misspelt", "interval"],
)
def test_what_is_wrong_is_refused(text: str, message: str, tmp_path: Path) -> None:
    """A message says where, what was read and what was expected, and no secret."""
    with pytest.raises(settings.Invalid) as refusal:
        loaded(text, tmp_path)
    assert str(refusal.value).replace(f"{tmp_path}/", "") == message
