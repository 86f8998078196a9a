"""The Dockerfile keeps the rules of those who run other people's images."""

from __future__ import annotations

import http.server
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

import monitor
from monitor import settings
from tests.deploy import dockerfile, manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = manifests.ROOT / "deploy"
TEXT = (DEPLOY / "Dockerfile").read_text()
OURS = dockerfile.parse(TEXT)


def test_our_file_keeps_every_rule() -> None:
    """No rule is broken."""
    assert dockerfile.broken_rules(OURS) == []


# What is put in the place of what, and the rule that must notice.
BREAKS = [
    ("python:3.11-slim-bookworm", "python:latest", "bases have a version"),
    ("python:3.11-slim-bookworm", "python", "bases have a version"),
    ("USER 65532:65532", "USER specmon", "the user is a number and not root"),
    ("USER 65532:65532", "USER 0:0", "the user is a number and not root"),
    ("USER 65532:65532", "", "the user is a number and not root"),
    ('ENTRYPOINT ["/opt/specmon/bin/specmon"]', "ENTRYPOINT specmon", "the image needs no shell"),
    ("EXPOSE 10101", "RUN apt-get update", "the image needs no shell"),
    ("COPY monitor monitor", "COPY . .", "COPY names what it takes"),
    ("COPY monitor monitor", "ADD https://example.com/x.tar /src", "ADD is not used"),
    ("--require-hashes", "", "packages come with hashes"),
    ("EXPOSE 10101", "ENV API_KEY=x", "no secret in ARG or ENV"),
    ("WORKDIR /src", "WORKDIR src", "WORKDIR is absolute"),
    ("HEALTHCHECK", "#", "there is one health check"),
    ("image.licenses", "image.licence", "there are OCI labels"),
    ("EXPOSE 10101", "VOLUME /var/lib/specmon", "there is no anonymous volume"),
]


@pytest.mark.parametrize(
    ("old", "new", "rule"), BREAKS, ids=[f"{new or 'no ' + old}" for old, new, _ in BREAKS]
)
def test_the_rules_would_notice(old: str, new: str, rule: str) -> None:
    """Each rule refuses our file once it is broken in the way that the rule is about."""
    assert old in TEXT
    assert rule in dockerfile.broken_rules(dockerfile.parse(TEXT.replace(old, new)))


def test_a_single_stage_is_refused() -> None:
    """A file whose compiler ends up in the image is refused."""
    assert "what builds is not in the image" in dockerfile.broken_rules(dockerfile.parse("FROM python:3.11"))


def test_both_stages_have_the_same_python() -> None:
    """An environment made in the one stage runs in the other: same image, same path."""
    assert {stage.base for stage in OURS.stages if stage.base != "scratch"} == {OURS.defaults["PYTHON_IMAGE"]}
    assert "COPY --from=build /opt/specmon /opt/specmon" in TEXT


def test_version_and_port_are_the_code_s() -> None:
    """The image says the package's version and exposes the port that the monitor listens on."""
    assert f"ARG VERSION={monitor.__version__}" in TEXT
    (port,) = (host_port for _, host_port in settings.Settings().web.sockets)
    assert [each.text for each in OURS.final.of("EXPOSE")] == [str(port)]


def test_the_context_has_what_is_copied() -> None:
    """What COPY takes from the project is let in by the ignore file, and nothing else is."""
    copies = [each for stage in OURS.stages for each in stage.of("COPY") if "--from" not in each.text]
    copied = {word for each in copies for word in each.arguments[:-1]}
    allowed = re.findall(r"^!(.+)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.MULTILINE)
    assert copied == set(allowed)


def test_what_is_copied_is_what_the_package_is_built_from() -> None:
    """Every file of the project that pyproject.toml names for the wheel is in the build."""
    assert {"pyproject.toml", "README.md", "LICENSE", "monitor", "alerts"} <= {
        word for each in OURS.stages[0].of("COPY") for word in each.arguments
    }


class _Engine(http.server.BaseHTTPRequestHandler):
    """Answers /-/healthy as the server that it belongs to says."""

    def do_GET(self) -> None:
        """Answer with the status that the test wants."""
        healthy = self.path == "/-/healthy" and getattr(self.server, "healthy", False)
        self.send_response(200 if healthy else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's signature
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    """A server on a free port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Engine) as found:
        threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield found
        found.shutdown()


def _health(port: int) -> int:
    """The exit code of the image's own health check, run against another port."""
    (check,) = OURS.final.of("HEALTHCHECK")
    _, *rest = check.exec_form() or []
    command = [sys.executable, *(word.replace("10101", str(port)) for word in rest)]
    return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode


@pytest.mark.parametrize(("healthy", "code"), [(True, 0), (False, 1)], ids=["healthy", "failing"])
def test_the_health_check_tells(server: http.server.HTTPServer, *, healthy: bool, code: int) -> None:
    """The health check's command says 0 for a healthy monitor and 1 for one that answers with an error."""
    server.healthy = healthy  # type: ignore[attr-defined]
    assert _health(server.server_port) == code


def test_the_health_check_tells_of_silence(server: http.server.HTTPServer) -> None:
    """The health check's command says 1 where nothing listens."""
    server.shutdown()
    server.server_close()
    assert _health(server.server_port) == 1


def test_build_tools_are_pinned() -> None:
    """The build stage's lock has a version and hashes per package and covers what is asked for, nothing else."""
    lock = (DEPLOY / "build-requirements.lock").read_text()
    entries = lock.replace("\\\n", "").splitlines()
    wrong = [
        line for line in entries if not re.match(r"[a-z0-9._-]+==[^ ]+ (; [^\\]+ )?+ *--hash=sha256:", line)
    ]
    assert wrong == []
    asked = re.findall(r"^([a-z-]+)>=", (DEPLOY / "build-requirements.in").read_text(), re.MULTILINE)
    assert asked
    assert set(asked) <= {line.partition("==")[0] for line in entries}


SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA[0-9A-Z]{16}\b|\bgh[opsu]_[A-Za-z0-9]{36}|\bey[IJ]hbGci[\w-]+\.[\w-]+"
    rb"|\bxox[abp]-[0-9]|\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}|https?://[^/\s\"'{]+:[^/@\s\"'{]+@"
)
KINDS = {".py", ".css", ".js", ".json", ".svg", ".md", ".lock", ".toml", ".typed", ".yaml", ".yml", ""}


def test_nothing_secret_enters_the_image() -> None:
    """What the build may copy is code, pages, rules and locks, none of which holds a key, token, hash or password."""
    listed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    taken = [manifests.ROOT / line[1:] for line in listed if line.startswith("!")]
    files = [
        each for path in taken for each in ([path] if path.is_file() else path.rglob("*")) if each.is_file()
    ]
    files = [path for path in files if path.suffix not in (".pyc", ".pyo")]
    assert len(files) > 100
    assert [path for path in files if path.suffix not in KINDS] == []
    assert [path for path in files if SECRET.search(path.read_bytes())] == []
