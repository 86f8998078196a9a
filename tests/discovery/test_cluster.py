"""Discovery of pods against a real Kubernetes API server: rights, changes, interruptions, lost history."""

from __future__ import annotations

import contextlib
import itertools
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from monitor.sources.discovery import kubernetes
from monitor.sources.discovery.kubernetes import Pods
from monitor.sources.discovery.pods import PodPage
from tests.discovery import cluster, line, listening

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.discovery.cluster import Cluster
    from tests.discovery.line import Line
    from tests.discovery.listening import Listener

pytestmark = pytest.mark.skipif(bool(cluster.missing()), reason=cluster.missing())

ROLE = Path(__file__).parents[2] / "deploy" / "kustomize" / "overlays" / "fleet-kubernetes" / "role.yaml"
IMAGES = ("vllm/vllm-openai:v1", "vllm/vllm-openai:v2")
CONTAINER: dict[str, object] = {
    "name": "vllm",
    "image": IMAGES[0],
    "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
}
_namespaces = (f"llm-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One API server for all tests here; its monitor may read pods in the namespaces that `namespace` makes."""
    with cluster.running(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def namespace(api: Cluster) -> str:
    """A namespace of its own, with the role and the binding that deploy/ has for the engines' namespace."""
    name = next(_namespaces)
    api.make("/api/v1/namespaces", {"metadata": {"name": name}})
    for each in yaml.safe_load_all(ROLE.read_text()):
        each["metadata"]["namespace"] = name
        kind = each["kind"].lower()
        api.make(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/{kind}s", each)
    return name


def start(api: Cluster, namespace: str, name: str, address: str, **labels: str) -> None:
    """Make a pod that runs at an address."""
    pod = {
        "metadata": {"name": name, "labels": {"app": "vllm", **labels}},
        "spec": {"containers": [CONTAINER], "nodeName": "gpu-1", "terminationGracePeriodSeconds": 30},
    }
    api.make(f"/api/v1/namespaces/{namespace}/pods", pod)
    status = {"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}}
    code, answer = api.ask("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}/status", status)
    assert code == 200, answer


def change(api: Cluster, namespace: str, name: str, part: str, body: dict[str, object]) -> None:
    """Merge something into a part of a pod."""
    code, answer = api.ask("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}", {part: body})
    assert code == 200, answer


def remove(api: Cluster, namespace: str, name: str, grace: int) -> None:
    """Delete a pod; with a grace period it stays, marked, as no kubelet ends it."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds={grace}"
    assert api.ask("DELETE", path)[0] == 200


def provider(api: Cluster, namespace: str, *, port: str = "http", token: str = cluster.MONITOR) -> Pods:
    """A provider of this namespace's pods."""
    return Pods("app=vllm,tier!=test", PodPage(port=port), namespace, api.kubeconfig(token))


async def test_pods_come_change_and_go(api: Cluster, namespace: str) -> None:
    """Pods are targets from when they have an address until they are deleted; their image is a fact."""
    start(api, namespace, "vllm-0", "10.0.0.1")
    start(api, namespace, "other", "10.0.0.9", app="web")
    start(api, namespace, "test", "10.0.0.8", tier="test")
    first, second = f"{namespace}/vllm-0:8000", f"{namespace}/vllm-1:8000"
    async with listening.to(provider(api, namespace)) as listener:
        (found,) = await listener.names(first)
        assert found.url == "http://10.0.0.1:8000/metrics"
        start(api, namespace, "vllm-1", "10.0.0.2")
        await listener.names(first, second)
        change(api, namespace, "vllm-0", "spec", {"containers": [CONTAINER | {"image": IMAGES[1]}]})
        await listener.until(lambda each: f"('image', '{IMAGES[1]}')" in str(each))
        change(api, namespace, "vllm-0", "metadata", {"annotations": {"specmon/revision": "r2"}})
        await listener.until(lambda each: "('revision', 'r2')" in str(each))
        remove(api, namespace, "vllm-0", 0)
        await listener.names(second)


async def test_a_pod_on_its_way_out_is_no_target(api: Cluster, namespace: str) -> None:
    """A pod that is being deleted is gone from the targets before it is gone from the cluster."""
    start(api, namespace, "vllm-0", "10.0.0.1")
    async with listening.to(provider(api, namespace)) as listener:
        await listener.names(f"{namespace}/vllm-0:8000")
        remove(api, namespace, "vllm-0", 30)
        await listener.names()
    assert api.ask("GET", f"/api/v1/namespaces/{namespace}/pods/vllm-0")[0] == 200


async def test_without_the_role_nothing_is_found(api: Cluster, namespace: str) -> None:
    """Where the role is missing the failure says which right; in the namespace with the role it is enough."""
    start(api, namespace, "vllm-0", "10.0.0.1")
    async with listening.to(provider(api, "default")) as listener:
        reason = await listener.failure()
    assert reason == (
        "pods 'app=vllm,tier!=test' in default: read status 403 "
        '(pods is forbidden: User "system:serviceaccount:specmon:specmon" cannot list resource "pods" '
        'in API group "" in the namespace "default"), expected the right to list and watch pods'
    )
    async with listening.to(provider(api, kubernetes.ALL_NAMESPACES)) as listener:
        assert "at the cluster scope" in await listener.failure()
    async with listening.to(provider(api, namespace)) as listener:
        await listener.names(f"{namespace}/vllm-0:8000")
    assert api.ask("DELETE", f"/api/v1/namespaces/{namespace}/pods/vllm-0", token=cluster.MONITOR)[0] == 403
    assert api.ask("GET", f"/api/v1/namespaces/{namespace}/secrets", token=cluster.MONITOR)[0] == 403


async def test_all_namespaces(api: Cluster, namespace: str) -> None:
    """With rights in the whole cluster `*` finds the pods of every namespace."""
    start(api, namespace, "vllm-0", "10.0.0.1", everywhere="yes")
    pods = Pods("everywhere", PodPage(), kubernetes.ALL_NAMESPACES, api.kubeconfig(cluster.ADMIN))
    async with listening.to(pods) as listener:
        await listener.names(f"{namespace}/vllm-0:8000")


async def test_the_own_namespace(api: Cluster, namespace: str) -> None:
    """Without a namespace it is the one that the credentials belong to."""
    start(api, namespace, "vllm-0", "10.0.0.1")
    pods = Pods("app=vllm", PodPage(), "", api.kubeconfig(cluster.MONITOR, namespace))
    async with listening.to(pods) as listener:
        await listener.names(f"{namespace}/vllm-0:8000")


async def test_a_selector_that_is_none(api: Cluster, namespace: str) -> None:
    """A selector that Kubernetes does not understand is a failure in the server's words."""
    pods = Pods("app in (a", PodPage(), namespace, api.kubeconfig())
    async with listening.to(pods) as listener:
        reason = await listener.failure()
    assert "read status 400 (unable to parse requirement" in reason
    assert reason.endswith("expected a list of pods")


async def test_a_pod_without_the_port(api: Cluster, namespace: str, caplog: pytest.LogCaptureFixture) -> None:
    """A pod that lacks the named port is no target, and the log says so once."""
    start(api, namespace, "vllm-0", "10.0.0.1")
    with caplog.at_level(logging.WARNING, "monitor.sources.discovery"):
        async with listening.to(provider(api, namespace, port="metrics")) as listener:
            assert await listener.next() == ()
    assert caplog.messages == [
        f"pod {namespace}/vllm-0: no container has a port called 'metrics', so there is nothing to scrape"
    ]


@contextlib.asynccontextmanager
async def interruptible(api: Cluster, namespace: str) -> AsyncIterator[tuple[Line, Listener]]:
    """A line to the API server and what a provider tells that uses it."""
    async with (
        line.to(api) as (wire, kubeconfig),
        listening.to(Pods("app=vllm", PodPage(), namespace, kubeconfig)) as listener,
    ):
        yield wire, listener


async def test_a_watch_goes_on_after_an_interruption(api: Cluster, namespace: str) -> None:
    """What happened while the line was cut is caught up with, additions and deletions."""
    start(api, namespace, "vllm-0", "10.0.0.1")
    first, second = f"{namespace}/vllm-0:8000", f"{namespace}/vllm-1:8000"
    async with interruptible(api, namespace) as (wire, listener):
        await listener.names(first)
        wire.cut()
        assert "no answer from the API server (" in await listener.failure()
        start(api, namespace, "vllm-1", "10.0.0.2")
        remove(api, namespace, "vllm-0", 0)
        wire.up = True
        await listener.names(second)


async def test_lost_history_is_listed_anew(api: Cluster, namespace: str) -> None:
    """Where the server no longer has what happened meanwhile (410 Gone), the pods are listed again."""
    start(api, namespace, "vllm-0", "10.0.0.1")
    first, second = f"{namespace}/vllm-0:8000", f"{namespace}/vllm-1:8000"
    async with interruptible(api, namespace) as (wire, listener):
        await listener.names(first)
        wire.cut()
        await listener.failure()
        start(api, namespace, "vllm-1", "10.0.0.2")
        remove(api, namespace, "vllm-0", 0)
        api.forget_history()
        wire.up = True
        await listener.names(second)
