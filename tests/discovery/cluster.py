"""A real Kubernetes API server on free loopback ports, with etcd behind it; nothing runs in it.

The API server is one that is kept beside the project (`../shared/bin`), etcd comes from Debian's package
etcd-server. There is no kubelet: the tests say how a pod is by writing its status.
"""

from __future__ import annotations

import contextlib
import json
import lzma
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PACKED = Path(__file__).parents[3] / "shared" / "bin" / "kube-apiserver-1.20.2.xz"
READY_SECONDS = 90.0
ADMIN, MONITOR = "admin-token", "monitor-token"
ACCOUNT = "system:serviceaccount:specmon:specmon"  # the one that deploy/ binds the role to
_TOKENS = f"{ADMIN},admin,admin,system:masters\n{MONITOR},{ACCOUNT},monitor,system:serviceaccounts\n"


def missing() -> str:
    """What a cluster needs and this machine lacks, empty where it has all."""
    if not PACKED.is_file():
        return f"no API server: ../shared/bin/{PACKED.name} is not beside the project"
    lacking = [program for program in ("etcd", "openssl") if shutil.which(program) is None]
    return f"{' and '.join(lacking)} not on PATH (Debian: etcd-server, openssl)" if lacking else ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running API server."""

    url: str
    etcd: str
    folder: Path

    def ask(
        self, method: str, path: str, body: Mapping[str, object] | None = None, token: str = ADMIN
    ) -> tuple[int, dict[str, object]]:
        """Status and body of one request; a PATCH is a merge patch."""
        patching = method == "PATCH"
        request = urllib.request.Request(  # noqa: S310 - https to the loopback
            f"{self.url}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/merge-patch+json" if patching else "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=20, context=_trusting()) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def make(self, path: str, body: Mapping[str, object]) -> None:
        """Create an object below `path`."""
        status, answer = self.ask("POST", path, body)
        assert status == 201, answer

    def forget_history(self) -> None:
        """Have etcd forget all that happened up to now; return when a watch from before is refused with 410."""
        _, listed = self.ask("GET", "/api/v1/namespaces")
        metadata = listed["metadata"]
        assert isinstance(metadata, dict)
        body = json.dumps({"revision": metadata["resourceVersion"], "physical": True}).encode()
        request = urllib.request.Request(f"{self.etcd}/v3/kv/compaction", data=body)  # noqa: S310 - the loopback
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            assert answer.status == 200
        _, event = self.ask("GET", "/api/v1/pods?watch=1&resourceVersion=1&timeoutSeconds=5")
        assert event["type"] == "ERROR", event

    def kubeconfig(self, token: str = MONITOR, namespace: str = "default") -> str:
        """The path of a kubeconfig with this token."""
        file = self.folder / f"{token}-{namespace}.kubeconfig"
        authority = self.folder / "certificates" / "apiserver.crt"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "c", "cluster": {"server": self.url, "certificate-authority": str(authority)}}
            ],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
            "current-context": "x",
        }
        file.write_text(json.dumps(content))
        return str(file)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """Start etcd and an API server with role-based access, and stop both."""
    etcd_port, peer_port, port = _free_ports(3)
    program = folder / "kube-apiserver"
    with lzma.open(PACKED) as packed, program.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)
    program.chmod(0o755)
    (folder / "tokens.csv").write_text(_TOKENS)
    subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
    cluster = Cluster(f"https://127.0.0.1:{port}", f"http://127.0.0.1:{etcd_port}", folder)
    with (
        _process(folder / "etcd.log", _etcd(folder, etcd_port, peer_port)),
        _process(folder / "apiserver.log", _apiserver(folder, program, etcd_port, port)) as server,
    ):
        _wait_until_ready(cluster, server)
        yield cluster


def _etcd(folder: Path, port: int, peer_port: int) -> list[str]:
    clients, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        "etcd",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
    ]


def _apiserver(folder: Path, program: Path, etcd_port: int, port: int) -> list[str]:
    return [
        str(program),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--cert-dir={folder / 'certificates'}",
        f"--service-account-key-file={folder / 'sa.key'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--api-audiences=api",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.99.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
        # A watch from an old version is 410 Gone once etcd has been compacted and no cache remembers it.
        "--watch-cache=false",
    ]


@contextlib.contextmanager
def _process(log: Path, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(cluster: Cluster, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):
            if cluster.ask("GET", "/api/v1/namespaces/default")[0] == 200:
                return
        assert server.poll() is None, (cluster.folder / "apiserver.log").read_text()[-2000:]
        time.sleep(0.1)
    raise AssertionError(f"no API server after {READY_SECONDS:.0f} s")


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
