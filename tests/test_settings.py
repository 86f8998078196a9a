"""Settings: where they come from, which one wins, and that nothing wrong is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from pydantic import ValidationError

from monitor import settings
from monitor.settings import layers, values

if TYPE_CHECKING:
    from pathlib import Path


def config(folder: Path, text: str) -> str:
    """The path of a configuration file with this text."""
    file = folder / "specmon.yml"
    file.write_text(text)
    return str(file)


def refusal(text: str, folder: Path) -> str:
    """What is said of a configuration file with this text, the file's own path aside."""
    with pytest.raises(settings.Invalid) as raised:
        settings.load({}, {}, config(folder, text))
    return str(raised.value).replace(f"{folder}/", "")


def test_defaults_hold_without_anything() -> None:
    """Nothing has to be set."""
    loaded = settings.load({}, {})
    assert loaded.targets == ()
    assert (loaded.scrape.interval, loaded.scrape.timeout, loaded.scrape.body_limit) == (15.0, 10.0, 32 << 20)
    assert loaded.web.sockets == (("127.0.0.1", 10101),)
    assert loaded.store.path == ""
    assert loaded.detection.false_alarms_per_month == 1.0


def test_precedence(tmp_path: Path) -> None:
    """A flag wins over the environment, that over the file, that over the default."""
    file = config(tmp_path, "scrape: {interval: 20s, body_limit: 1MiB}\nlog: {level: error, format: json}\n")
    environment = {"SPECMON_SCRAPE__INTERVAL": "30s", "SPECMON_LOG__LEVEL": "debug"}
    loaded = settings.load({"log.level": "warning"}, environment, file)
    assert loaded.log.level == "warning"
    assert loaded.scrape.interval == 30.0
    assert loaded.scrape.body_limit == 1 << 20
    assert loaded.log.format == "json"
    assert loaded.economics.gpus_per_replica == 1


def test_a_list_replaces_a_list(tmp_path: Path) -> None:
    """Targets of the command line are instead of the file's, not beside them."""
    file = config(tmp_path, "targets: [http://a:1, http://b:1]\n")
    assert [
        target.label for target in settings.load({"targets": ["http://c:1/metrics"]}, {}, file).targets
    ] == ["c:1"]
    assert [target.label for target in settings.load({}, {}, file).targets] == ["a:1", "b:1"]


@pytest.mark.parametrize(
    "setting", [each for each in settings.describe() if not each.nested], ids=lambda each: each.name
)
def test_each_setting_has_one_name_everywhere(setting: settings.Setting, tmp_path: Path) -> None:
    """Flag, variable and key of a setting are made from its name, and each of them reaches it."""
    value = yaml.safe_load(setting.default or "")
    text = (
        ",".join(value)
        if isinstance(value, list)
        else "1"
        if value is None
        else "false"
        if value is False
        else str(value)
    )
    content = value
    for key in reversed(setting.name.split(".")):
        content = {key: content}
    assert settings.load({setting.name: text}, {}) is not None
    assert settings.load({}, {layers.variable(setting.name): text}) is not None
    assert settings.load({}, {}, config(tmp_path, yaml.safe_dump(content))) == settings.load({}, {})


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("http://a:8000/metrics", ["a:8000"]),
        ("http://a:8000, http://b/other,", ["a:8000", "b:80/other"]),
        (
            '["https://a", {"url": "http://[::1]:9/metrics", "name": "mine"}, "http://[::2]:9"]',
            ["a:443", "mine", "[::2]:9"],
        ),
        ("", []),
    ],
    ids=["one", "commas", "json", "none"],
)
def test_targets_in_the_environment(text: str, labels: list[str]) -> None:
    """SPECMON_TARGETS is a comma list of URLs or JSON; a target without a name goes by host:port."""
    assert [target.label for target in settings.load({}, {"SPECMON_TARGETS": text}).targets] == labels


def test_a_shorter_interval_brings_a_shorter_timeout() -> None:
    """A timeout that nobody set stays below the interval."""
    assert settings.load({"scrape.interval": "3s"}, {}).scrape.timeout == 2.0
    assert settings.load({"scrape.interval": "1h"}, {}).scrape.timeout == 10.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scrap: {}", "specmon.yml: scrap: no such setting"),
        (
            "scrape: {intervl: 4s}",
            "specmon.yml: scrape.intervl: no such setting; did you mean scrape.interval?",
        ),
        (
            "web: {listen-address: x}",
            "specmon.yml: web.listen-address: no such setting; did you mean web.listen_address?",
        ),
        (
            "targets: [http://a, {url: http://b, modle: c}]",
            "specmon.yml: targets[1].modle: no such setting; did you mean targets[].model?",
        ),
        (
            "targets: [{url: http://b, tls: {ca: c}}]",
            "specmon.yml: targets[0].tls.ca: no such setting; did you mean targets[].tls.ca_file?",
        ),
        ("targets: [{name: b}]", "specmon.yml: targets[0].url: missing"),
        (
            "targets: [a:8000]",
            "specmon.yml: targets[0].url: read 'a:8000', expected a URL such as http://engine-0:8000/metrics",
        ),
        ("targets: {a: b}", "specmon.yml: targets: read a mapping, expected a list"),
        ("detection: 5", "specmon.yml: detection: read 5, expected a mapping"),
        (
            "detection: {false_alarms_per_month: 0}",
            "specmon.yml: detection.false_alarms_per_month: read 0, expected greater than 0",
        ),
        (
            "detection: {false_alarms_per_month: yes}",
            "specmon.yml: detection.false_alarms_per_month: read True, expected a number",
        ),
        (
            "log: {level: loud}",
            "specmon.yml: log.level: read 'loud', expected 'debug', 'info', 'warning' or 'error'",
        ),
        ("store: {path: 3}", "specmon.yml: store.path: read 3, expected a string"),
        (
            "store: {retention: 3 days}",
            "specmon.yml: store.retention: read '3 days', expected a duration such as 15s, 0.5s, 500ms, 1h30m or 30d, or a number of seconds",
        ),
        (
            "scrape: {body_limit: 1MB}",
            "specmon.yml: scrape.body_limit: read '1MB', expected a size such as 512KiB, 10MiB or 1GiB, or a number of bytes",
        ),
        (
            "web: {listen_address: ['10101']}",
            "specmon.yml: web.listen_address[0]: read '10101', expected host:port or :port, such as 127.0.0.1:10101, [::1]:10101 or :10101",
        ),
        (
            "web: {listen_address: []}",
            "specmon.yml: web.listen_address: read an empty list, expected at least one address",
        ),
        (
            "web: {route_prefix: a}",
            "specmon.yml: web.route_prefix: read 'a', expected a path such as /specmon",
        ),
        (
            "scrape: {interval: 5s, timeout: 5s}",
            "scrape: expected a timeout shorter than the interval, read timeout 5s, interval 5s",
        ),
        (
            "targets: [http://a, http://a:80/metrics]",
            "targets: expected different names, read 'a:80' twice; set `name`",
        ),
        (
            "targets: [{url: http://a, labels: {target: b}}]",
            "specmon.yml: targets[0].labels.target: read 'target', expected another name than instance, job, model_name, replica, target and __…: these are taken",
        ),
        (
            "targets: [{url: http://a, tls: {cert_file: /nowhere}}]",
            "specmon.yml: targets[0].tls.cert_file: read '/nowhere', expected a file that this process can read",
        ),
        ("- a", "specmon.yml: read list, expected a mapping of sections"),
        ("log: {}\nlog: {}", "specmon.yml: not YAML: line 2: 'log' is given twice"),
        ("log: {", "specmon.yml: not YAML: line 1: expected the node content, but found '<stream end>'"),
    ],
)
def test_a_wrong_file_is_refused_with_the_path_of_what_is_wrong(
    text: str, message: str, tmp_path: Path
) -> None:
    """A message says where, what was read and what was expected."""
    assert refusal(text, tmp_path) == message


def test_every_problem_is_said_at_once(tmp_path: Path) -> None:
    """Three mistakes are three lines, not three attempts."""
    assert len(refusal("scrap: {}\nlog: {level: x}\nweb: {y: 1}\n", tmp_path).splitlines()) == 3


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("SPECMON_SCRAPE__INTERVL", "1s", "no such setting; did you mean SPECMON_SCRAPE__INTERVAL?"),
        ("SPECMON_SCRAPE_INTERVAL", "1s", "no such setting; did you mean SPECMON_SCRAPE__INTERVAL?"),
        ("SPECMON_TARGET", "http://a", "no such setting; did you mean SPECMON_TARGETS?"),
        ("SPECMON_SCRAPE", "{}", "no such setting"),
        ("SPECMON_WEB_PORT", "9000", "no such setting"),
        ("SPECMON_SCRAPE__INTERVAL", "", "read '', expected a duration such as 15s"),
        (
            "SPECMON_TARGETS",
            '["http://a"',
            "read '[\"http://a\"', expected a JSON list or values separated by commas",
        ),
    ],
)
def test_a_wrong_variable_is_refused(name: str, value: str, message: str) -> None:
    """pydantic-settings would ignore a misspelt variable; that is a target which is silently not watched."""
    with pytest.raises(settings.Invalid) as raised:
        settings.load({}, {name: value})
    assert str(raised.value).startswith(f"{name}: {message}")


def test_a_wrong_flag_is_named_as_a_flag() -> None:
    """The message names the flag as it was typed, not the key of a file."""
    with pytest.raises(settings.Invalid) as raised:
        settings.load({"web.listen_address": ["nine"]}, {"SPECMON_WEB__LISTEN_ADDRESS": ":9"})
    assert str(raised.value).startswith("--web.listen-address[0]: read 'nine', expected host:port")


@pytest.mark.parametrize(
    "name",
    [
        "SPECMON_SERVICE_HOST",
        "SPECMON_SERVICE_PORT",
        "SPECMON_SERVICE_PORT_METRICS",
        "SPECMON_PORT",
        "SPECMON_PORT_10101_TCP",
        "SPECMON_PORT_10101_TCP_ADDR",
        "SPECMON_FLEET_SERVICE_HOST",
        "SPECMON_FLEET_PORT_80_TCP_PROTO",
    ],
)
def test_service_variables_of_kubernetes_are_no_settings(name: str) -> None:
    """A Service called specmon puts its own variables into every pod of the namespace; they stop nothing."""
    assert settings.load({}, {name: "tcp://10.0.0.1:80", "PATH": "/bin"}) == settings.load({}, {})


@pytest.mark.parametrize("kind", ["absent", "folder", "binary"])
def test_a_file_that_cannot_be_read_is_refused(kind: str, tmp_path: Path) -> None:
    """A missing file is no empty file."""
    file = tmp_path / "specmon.yml"
    if kind == "folder":
        file.mkdir()
    if kind == "binary":
        file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(
        settings.UnreadableFile, match=r"specmon\.yml: .*; expected a YAML file with settings$"
    ):
        settings.load({}, {}, str(file))


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    """A file in which everything is commented out is fine."""
    assert settings.load({}, {}, config(tmp_path, "# scrape:\n")) == settings.load({}, {})


SECRETS = """
targets:
- url: http://user:hunter2@a/metrics
  bearer_token: hunter2
  headers: {Authorization: hunter2}
scrape: {bearer_token: hunter2}
"""


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    """Neither the effective settings nor their representation hold a token, a header or a password."""
    loaded = settings.load({}, {}, config(tmp_path, SECRETS))
    assert loaded.targets[0].headers["Authorization"].get_secret_value() == "hunter2"
    shown = settings.masked(loaded)
    assert "hunter2" not in shown
    assert shown.count("…") == 4
    assert "hunter2" not in loaded.model_dump_json()


@pytest.mark.parametrize(
    "text",
    [
        "targets: [{url: http://a, bearer_token: [hunter2]}]",
        "targets: [{url: http://a, headers: {A: [hunter2]}}]",
        "targets: [{url: http://a, headers: hunter2}]",
        "targets: ['http://u:hunter2@a b']",
        "scrape: {bearer_token: {a: hunter2}}",
        "scrape: {bearer_token: hunter2, bearer_token_file: /dev/null}",
    ],
)
def test_refusals_show_no_secret(text: str, tmp_path: Path) -> None:
    """A message about a wrong secret does not say it."""
    assert "hunter2" not in refusal(text, tmp_path)


def test_a_secret_may_come_from_a_file(tmp_path: Path) -> None:
    """Each secret has a variable with _FILE that names a file which can be read, and not both at once."""
    token = tmp_path / "token"
    token.write_text("hunter2")
    given = {"SPECMON_SCRAPE__BEARER_TOKEN_FILE": str(token)}
    assert settings.load({}, given).scrape.bearer_token_file == str(token)
    names = {setting.name for setting in settings.describe()}
    secrets = {setting.name for setting in settings.describe() if setting.kind == "secret"}
    assert {f"{name}_file" for name in secrets} <= names
    with pytest.raises(settings.Invalid, match="expected bearer_token or bearer_token_file, read both"):
        settings.load({}, given | {"SPECMON_SCRAPE__BEARER_TOKEN": "x"})


def test_effective_settings_load_again(tmp_path: Path) -> None:
    """What check-config prints is a configuration file that means the same."""
    loaded = settings.load({"targets": ["http://a:1/metrics", "http://b"], "scrape.interval": "0.7s"}, {})
    assert settings.load({}, {}, config(tmp_path, settings.masked(loaded))) == loaded


def test_settings_never_change() -> None:
    """A setting cannot be assigned to, in no section."""
    loaded = settings.load({"targets": ["http://a"]}, {})
    for section, key in [(loaded, "log"), (loaded.log, "level"), (loaded.targets[0], "url")]:
        with pytest.raises(ValidationError, match="frozen"):
            setattr(section, key, None)


@pytest.mark.parametrize(
    "change",
    [
        {"log.level": "error"},
        {"targets": ["http://a"]},
        {"targets": ["http://u:p@a"]},
        {"targets": ["http://u:q@a"]},
        {"scrape.bearer_token": "a"},
        {"scrape.bearer_token": "b"},
    ],
    ids=str,
)
def test_the_digest_tells_settings_apart(change: dict[str, str | list[str]]) -> None:
    """The digest is the same for the same settings and differs with any of them, secrets too."""
    others: list[dict[str, str | list[str]]] = [
        {},
        {"scrape.bearer_token": "c"},
        {"targets": ["http://u:r@a"]},
    ]
    own = settings.digest(settings.load(change, {}))
    assert own == settings.digest(settings.load(change, {}))
    assert own not in {settings.digest(settings.load(other, {})) for other in others}


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (":80", (None, 80)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("[::1]:9", ("::1", 9)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_listen_addresses(address: str, expected: tuple[str | None, int]) -> None:
    """A listen address is host and port; without a host it is every interface."""
    assert values.host_and_port(address) == expected
    assert settings.load({"web.listen_address": [address]}, {}).web.sockets == (expected,)


def test_a_container_listens_on_every_interface() -> None:
    """Where the variable `container` is set that is the default, which every other layer overrules."""
    assert settings.load({}, {"container": "oci"}).web.sockets == ((None, 10101),)
    given = {"container": "oci", "SPECMON_WEB__LISTEN_ADDRESS": "127.0.0.1:1"}
    assert settings.load({}, given).web.sockets == (("127.0.0.1", 1),)


def test_reloading_over_http_needs_a_token() -> None:
    """Whoever enables it says who may, once."""
    on = {"SPECMON_WEB__ENABLE_RELOAD": "true"}
    with pytest.raises(settings.Invalid, match="expected admin_token or admin_token_file"):
        settings.load({}, on)
    assert settings.load({}, on | {"SPECMON_WEB__ADMIN_TOKEN": "t"}).web.enable_reload


@pytest.mark.parametrize(
    ("web", "hosts"),
    [
        ({}, {"localhost", "127.0.0.1"}),
        ({"LISTEN_ADDRESS": ":1"}, None),
        ({"LISTEN_ADDRESS": ":1", "ALLOWED_HOSTS": "Specmon.example"}, {"specmon.example"}),
        ({"EXTERNAL_URL": "https://outer.example/x"}, {"localhost", "127.0.0.1", "outer.example"}),
    ],
)
def test_whose_names_are_answered(web: dict[str, str], hosts: set[str] | None) -> None:
    """On loopback alone only our own names are; on every interface any, unless they are listed."""
    found = settings.load({}, {f"SPECMON_WEB__{name}": value for name, value in web.items()})
    assert found.web.hosts == (hosts and frozenset(hosts))
