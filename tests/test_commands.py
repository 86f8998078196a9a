"""The command line as a user meets it: a process, its output, its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import monitor
from monitor import settings
from monitor.service import commands

ROOT = Path(__file__).parents[1]


def specmon(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What `specmon` with these arguments, and with these variables in its environment, did."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("SPECMON_")}
    return subprocess.run(
        [sys.executable, "-m", "monitor", *arguments],
        cwd=ROOT,
        env=clean | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_version() -> None:
    """`--version` prints name and version."""
    done = specmon("--version")
    assert (done.returncode, done.stdout) == (commands.FINE, f"specmon {monitor.__version__}\n")


def test_help_lists_every_command() -> None:
    """`--help` names each command."""
    done = specmon("--help")
    assert done.returncode == commands.FINE
    assert all(f"    {name}" in done.stdout for name in commands.COMMANDS)


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_every_command_has_help(name: str) -> None:
    """Each command is there and explains its flags."""
    done = specmon(name, "--help")
    assert (done.returncode, done.stderr) == (commands.FINE, "")
    assert done.stdout.startswith(f"usage: specmon {name}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--"], "specmon: the following arguments are required: COMMAND; see specmon --help\n"),
        (["demo", "--target", "http://a:1"], "specmon: unrecognized arguments: --target http://a:1"),
        (["chck-config"], "specmon: argument COMMAND: invalid choice: 'chck-config'"),
        (["check-config", "--nonsense"], "specmon: unrecognized arguments: --nonsense; see specmon --help\n"),
        (["check-config", "--log.lev", "info"], "specmon: unrecognized arguments: --log.lev info"),
        (
            ["check-config", "--scrape.interval"],
            "specmon check-config: argument --scrape.interval: expected one argument",
        ),
        (
            ["check-config", "--scrape.bearer-token", "x"],
            "specmon: unrecognized arguments: --scrape.bearer-token x",
        ),
        (
            ["check-config", "--config", "/nowhere.yml"],
            "specmon: /nowhere.yml: no such file or directory; expected a YAML",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_line_and_code_2(arguments: list[str], message: str) -> None:
    """Usage that is wrong, or input that cannot be read, gives one clear line and exit code 2."""
    done = specmon(*arguments)
    assert (done.returncode, done.stdout) == (commands.UNUSABLE, "")
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1


def test_without_a_command_the_commands_are_shown() -> None:
    """Bare `specmon` shows its help on standard error, and is still no success for a script."""
    done = specmon()
    assert (done.returncode, done.stdout) == (commands.UNUSABLE, "")
    assert all(f"    {name}" in done.stderr for name in commands.COMMANDS)


def test_the_demo_offers_no_targets() -> None:
    """Its help shows no flag that it refuses; the other settings are there."""
    shown = specmon("demo", "--help").stdout
    assert "--target " not in shown
    assert "--web.listen-address " in shown


def test_no_flag_asks_for_an_address_where_none_is_meant() -> None:
    """Pods and models are mappings, which one word cannot say: they have no flag, and their kind is told."""
    shown = specmon("run", "--help").stdout
    assert "--discovery.http " in shown
    assert "--discovery.kubernetes" not in shown
    assert "--economics.models" not in shown
    kinds = {setting.name: setting.kind for setting in settings.describe()}
    assert kinds["discovery.kubernetes"] == kinds["economics.models"] == "list of mapping"
    assert kinds["discovery.http"] == kinds["targets"] == "list of URL or mapping"


@pytest.mark.parametrize("name", ["inspect", "advise"])
def test_a_folder_is_for_replay(name: str, tmp_path: Path) -> None:
    """What looks at one page says which command reads a folder of them."""
    done = specmon(name, str(tmp_path))
    assert done.returncode == commands.UNUSABLE
    assert done.stderr == (
        f"specmon: {tmp_path}: read a folder, expected a file with a page; specmon replay reads folders of pages\n"
    )


def test_check_config_shows_what_is_in_effect(tmp_path: Path) -> None:
    """Flags, environment and file come together, and secrets are masked."""
    file = tmp_path / "specmon.yml"
    file.write_text("scrape: {bearer_token: hunter2, interval: 5s}\nlog: {level: debug}\n")
    done = specmon(
        "check-config", "--target", "http://a", "--target=http://b:9/x", "--web.enable-reload",
        SPECMON_CONFIG=str(file), SPECMON_LOG__LEVEL="error", SPECMON_WEB__ADMIN_TOKEN="t",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (commands.FINE, "")
    shown = yaml.safe_load(done.stdout)
    assert [target["url"] for target in shown["targets"]] == ["http://a", "http://b:9/x"]
    assert shown["scrape"]["bearer_token"] == "…"
    assert (shown["scrape"]["interval"], shown["log"]["level"], shown["web"]["enable_reload"]) == (
        "5s",
        "error",
        True,
    )


def test_check_config_names_what_is_wrong() -> None:
    """A wrong setting is exit code 1 and the path on standard error."""
    done = specmon("check-config", "--web.enable-reload", "maybe", SPECMON_STORE__RETENTION="1s")
    assert (done.returncode, done.stdout) == (commands.FOUND, "")
    assert done.stderr.splitlines() == [
        "--web.enable-reload: read 'maybe', expected a boolean",
        "SPECMON_STORE__RETENTION: read 1.0, expected greater than or equal to 3600",
    ]


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`specmon … | head -0` ends quietly."""
    with subprocess.Popen(
        [sys.executable, "-m", "monitor", "check-config"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == commands.FINE


def test_the_version_loads_nothing_heavy() -> None:
    """A command loads what it needs: `--version` neither settings nor numpy nor the network."""
    code = "import sys; from monitor import __main__; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"pydantic", "numpy", "aiohttp", "yaml", "asyncio", "sqlite3"} & set(loaded.stdout.split())
