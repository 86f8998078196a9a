"""What target a pod is, and what is said of one that is none."""

from __future__ import annotations

import pytest
from lightkube.models.core_v1 import Container, ContainerPort, ContainerStatus, PodSpec, PodStatus
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod

from monitor.sources.discovery import pods
from monitor.sources.discovery.pods import PodPage

IMAGE = "vllm/vllm-openai:v0.12.0"
DIGEST = "sha256:" + "0123456789ab" + "c" * 52


def pod(
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    containers: list[Container] | None = None,
    address: str | None = "10.0.0.7",
    phase: str = "Running",
    leaving: bool = False,
) -> Pod:
    """A pod of vLLM with its port declared."""
    declared = [ContainerPort(containerPort=8000, name="http")]
    return Pod(
        metadata=ObjectMeta(
            name="vllm-0",
            namespace="llm",
            labels=labels or {},
            annotations=annotations or {},
            deletionTimestamp="2026-01-01T00:00:00Z" if leaving else None,  # type: ignore[arg-type]
        ),
        spec=PodSpec(
            containers=containers or [Container(name="vllm", image=IMAGE, ports=declared)], nodeName="gpu-3"
        ),
        status=PodStatus(
            podIP=address,
            phase=phase,
            containerStatuses=[
                ContainerStatus(
                    name="vllm",
                    image=IMAGE,
                    imageID=f"docker.io/vllm/vllm-openai@{DIGEST}",
                    ready=True,
                    restartCount=0,
                )
            ],
        ),
    )


def test_a_pod_is_a_target() -> None:
    """A pod goes by namespace, name and port, with its labels, node and revision; image and hash are facts."""
    given = pod(
        labels={"app.kubernetes.io/name": "vllm", "controller-revision-hash": "vllm-5d8"},
        annotations={
            "specmon/draft-model": "org/draft",
            "specmon/method": "eagle3",
            "specmon/num-speculative-tokens": "4",
        },
    )
    found = pods.target(given, PodPage())
    assert found is not None
    assert (found.name, found.url) == ("llm/vllm-0:8000", "http://10.0.0.7:8000/metrics")
    assert (found.draft_model, found.method, found.num_speculative_tokens) == ("org/draft", "eagle3", 4)
    assert dict(found.labels) == {
        "app_kubernetes_io_name": "vllm",
        "controller_revision_hash": "vllm-5d8",
        "namespace": "llm",
        "node": "gpu-3",
        "pod": "vllm-0",
        "revision": "vllm-5d8",
    }
    assert dict(found.facts) == {
        "pod template": "vllm-5d8",
        "image": IMAGE,
        "image digest": "sha256:0123456789ab",
    }
    assert pods.problems(given, PodPage()) == ()


def test_an_annotated_revision_stands_before_the_hash() -> None:
    """Where the operator names the revision, it is the label; the hash stays a fact."""
    given = pod(labels={"pod-template-hash": "abc"}, annotations={"specmon/revision": "2026-01-02"})
    found = pods.target(given, PodPage())
    assert found is not None
    assert dict(found.labels)["revision"] == "2026-01-02"
    assert dict(found.facts)["revision"] == "2026-01-02"
    assert dict(found.facts)["pod template"] == "abc"


@pytest.mark.parametrize(
    ("page", "url"),
    [
        (PodPage(port="http"), "http://10.0.0.7:8000/metrics"),
        (PodPage(port="9000"), "http://10.0.0.7:9000/metrics"),
        (
            PodPage(port="8000", path="/prometheus/metrics", scheme="https"),
            "https://10.0.0.7:8000/prometheus/metrics",
        ),
    ],
    ids=["name", "undeclared-number", "path-and-scheme"],
)
def test_where_the_page_is(page: PodPage, url: str) -> None:
    """A port is found by its name, or is the number as it stands, declared or not."""
    found = pods.target(pod(), page)
    assert found is not None
    assert found.url == url


def test_an_ipv6_address_has_brackets() -> None:
    """A pod with an IPv6 address has a URL."""
    found = pods.target(pod(address="fd00::7"), PodPage())
    assert found is not None
    assert found.url == "http://[fd00::7]:8000/metrics"


def test_facts_are_of_the_container_with_the_port() -> None:
    """In a pod of several containers the image is that of the one that has the page."""
    containers = [
        Container(name="proxy", image="proxy:1", ports=[ContainerPort(containerPort=80)]),
        Container(name="vllm", image=IMAGE, ports=[ContainerPort(containerPort=8000, name="http")]),
    ]
    found = pods.target(pod(containers=containers), PodPage(port="http"))
    assert found is not None
    assert dict(found.facts)["image"] == IMAGE


@pytest.mark.parametrize(
    "given",
    [
        pod(address=None, phase="Pending"),
        pod(phase="Succeeded"),
        pod(phase="Failed"),
        pod(leaving=True),
        pod(containers=[Container(name="vllm", ports=[ContainerPort(containerPort=8000, name="api")])]),
        pod(
            containers=[
                Container(name="d", ports=[ContainerPort(containerPort=53, name="http", protocol="UDP")])
            ]
        ),
        Pod(),
    ],
    ids=["no-address", "over", "failed", "leaving", "other-port", "udp", "empty"],
)
def test_a_pod_that_is_no_target(given: Pod) -> None:
    """A pod without an address, at its end, on its way out or without the port is not scraped."""
    assert pods.target(given, PodPage(port="http")) is None


def test_labels_that_are_taken_are_left_out() -> None:
    """A pod's own labels never stand where the stream's, the namespace's or the node's do."""
    given = pod(labels={"target": "x", "namespace": "y", "node": "z", "1st": "a", "__x": "b", "job": "j"})
    found = pods.target(given, PodPage())
    assert found is not None
    assert dict(found.labels) == {"namespace": "llm", "node": "gpu-3", "pod": "vllm-0", "_1st": "a"}


@pytest.mark.parametrize(
    ("given", "page", "said"),
    [
        (pod(), PodPage(port="api"), "no container has a port called 'api', so there is nothing to scrape"),
        (
            pod(annotations={"specmon/num-speculative-tokens": "four"}),
            PodPage(),
            "annotation specmon/num-speculative-tokens: read 'four', expected a whole number above 0",
        ),
        (
            pod(annotations={"specmon/draft": "x"}),
            PodPage(),
            f"read the annotation specmon/draft, expected one of {', '.join(pods.ANNOTATIONS)}",
        ),
    ],
    ids=["port", "number", "unknown"],
)
def test_what_is_wrong_with_a_pod(given: Pod, page: PodPage, said: str) -> None:
    """A pod that was selected and cannot be read as meant says so in one sentence."""
    assert pods.problems(given, page) == (said,)
