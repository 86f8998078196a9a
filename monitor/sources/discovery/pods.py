"""A pod -> the target that it is, or why it is none.

What a page cannot say is read from the pod's annotations; what tells one release from the next, from the
image and the labels that Deployments and StatefulSets put on their pods.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from monitor.core.pages.engines import base
from monitor.sources.discovery import TAKEN_LABELS, Found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lightkube.models.core_v1 import Container
    from lightkube.resources.core_v1 import Pod

ANNOTATION = "specmon/"
ANNOTATIONS = ("draft-model", "method", "num-speculative-tokens", "revision")
TEMPLATE_LABELS = ("pod-template-hash", "controller-revision-hash")
_OVER = ("Succeeded", "Failed")
_DIGEST = re.compile(r"sha256:[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class PodPage:
    """Where in a pod the metrics page is; `port` is a number or a container port's name."""

    port: str = "8000"
    path: str = "/metrics"
    scheme: str = "http"


def target(pod: Pod, page: PodPage) -> Found | None:
    """Return the pod's target; None where it has no address yet, is on its way out, or lacks the port."""
    meta, status = pod.metadata, pod.status
    if meta is None or meta.deletionTimestamp is not None or not meta.name:
        return None
    if status is None or not status.podIP or status.phase in _OVER:
        return None
    found = _port(pod, page.port)
    if found is None:
        return None
    container, number = found
    host = f"[{status.podIP}]" if ":" in status.podIP else status.podIP
    annotations = meta.annotations or {}
    return Found(
        name=f"{meta.namespace}/{meta.name}:{number}",
        url=f"{page.scheme}://{host}:{number}{page.path}",
        labels=_labels(pod),
        draft_model=annotations.get(f"{ANNOTATION}draft-model", ""),
        method=annotations.get(f"{ANNOTATION}method", ""),
        num_speculative_tokens=_tokens(annotations),
        facts=_facts(pod, container),
    )


def problems(pod: Pod, page: PodPage) -> tuple[str, ...]:
    """Return what is wrong with a pod that was selected, one sentence each, without the pod's name."""
    said = []
    annotations = (pod.metadata.annotations if pod.metadata else None) or {}
    if _port(pod, page.port) is None:
        said.append(f"no container has a port called {page.port!r}, so there is nothing to scrape")
    own = {key.removeprefix(ANNOTATION) for key in annotations if key.startswith(ANNOTATION)}
    said += [
        f"read the annotation {ANNOTATION}{name}, expected one of {', '.join(ANNOTATIONS)}"
        for name in sorted(own - set(ANNOTATIONS))
    ]
    text = annotations.get(f"{ANNOTATION}num-speculative-tokens", "")
    if text and not _tokens(annotations):
        said.append(
            f"annotation {ANNOTATION}num-speculative-tokens: read {text!r}, expected a whole number above 0"
        )
    return tuple(said)


def _tokens(annotations: Mapping[str, str]) -> int:
    text = annotations.get(f"{ANNOTATION}num-speculative-tokens", "")
    return max(base.index(text), 0)


def _port(pod: Pod, port: str) -> tuple[Container, int] | None:
    """Return the port's number and its container; a number need not be declared, a name must be."""
    containers = pod.spec.containers if pod.spec else []
    declared = [(container, each) for container in containers for each in container.ports or ()]
    for container, each in declared:
        if port in (each.name, str(each.containerPort)) and each.protocol in (None, "TCP"):
            return container, each.containerPort
    return (containers[0], int(port)) if port.isdigit() and containers else None


def _labels(pod: Pod) -> tuple[tuple[str, str], ...]:
    """Return the pod's labels as Prometheus spells them, with its namespace, name, node and revision."""
    meta = pod.metadata
    given = (meta.labels if meta else None) or {}
    labels = {re.sub(r"\W", "_", name, flags=re.ASCII): value for name, value in sorted(given.items())}
    labels |= {
        "namespace": (meta.namespace if meta else None) or "",
        "pod": (meta.name if meta else None) or "",
        "node": (pod.spec.nodeName if pod.spec else None) or "",
        "revision": _revision(pod),
    }
    return tuple(
        (name if not name[0].isdigit() else f"_{name}", value)
        for name, value in sorted(labels.items())
        if value and name not in TAKEN_LABELS and not name.startswith("__")
    )


def _revision(pod: Pod) -> str:
    """Return the annotated revision, else the hash that the pod's owner gives to its template."""
    meta = pod.metadata
    annotated = ((meta.annotations if meta else None) or {}).get(f"{ANNOTATION}revision", "")
    return annotated or _template(pod)


def _template(pod: Pod) -> str:
    labels = (pod.metadata.labels if pod.metadata else None) or {}
    return next((labels[name] for name in TEMPLATE_LABELS if labels.get(name)), "")


def _facts(pod: Pod, container: Container) -> tuple[tuple[str, str], ...]:
    annotations = (pod.metadata.annotations if pod.metadata else None) or {}
    statuses = (pod.status.containerStatuses if pod.status else None) or []
    running = next((each.imageID for each in statuses if each.name == container.name), "")
    digest = _DIGEST.search(running or "")
    facts = {
        "revision": annotations.get(f"{ANNOTATION}revision", ""),
        "pod template": _template(pod),
        "image": container.image or "",
        "image digest": digest[0] if digest else "",
    }
    return tuple((name, value) for name, value in facts.items() if value)
