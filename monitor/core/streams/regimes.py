"""Which regime a reading belongs to: what its page and the operator say of the configuration.

A regime lasts while model, draft, method, k and engine version stay the same. What is not said is unknown
and no change; what becomes known later is none either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from monitor.core import streams
from monitor.core.events.attribution.signs import Mark, MarkKind
from monitor.core.pages.engines import configured

if TYPE_CHECKING:
    from monitor.core.pages.engines.base import Reading
    from monitor.core.streams import Identity

HARDWARE_LABELS = ("hardware", "accelerator", "gpu", "gpu_type", "instance_type")
"""Labels of a target, the first that it has, by which replicas on other hardware are told apart."""
RELEASE_LABELS = frozenset(
    {"release", "version", "revision", "app.kubernetes.io/version", "helm.sh/chart", "environment"}
)
"""Labels of a target that tell its release."""

REGIME_MARKS: dict[str, MarkKind] = {
    "draft_model": "draft_model",
    "target_model": "target_model",
    "method": "method",
    "weight_version": "target_model",
}


@dataclass(frozen=True, slots=True)
class Declared:
    """What the operator or discovery says of a target that its page cannot say; empty where nothing is said.

    `facts` are not part of the regime; a change of one of them, such as the image, is a mark.
    """

    engine: str = ""
    model_name: str = ""
    draft_model: str = ""
    method: str = ""
    num_speculative_tokens: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()


NOTHING_DECLARED = Declared()


def as_declared(reading: Reading, declared: Declared) -> Reading:
    """Return the reading with the operator's model and k where the page has none, and no name too long.

    Unless the operator says what drafts, an engine that counts drafts and never made one is off.
    """
    tokens = reading.num_speculative_tokens or declared.num_speculative_tokens
    name = streams.named(reading.model_name or declared.model_name)
    replica = streams.named(reading.replica)
    if (tokens, name, replica) != (reading.num_speculative_tokens, reading.model_name, reading.replica):
        reading = replace(reading, num_speculative_tokens=tokens, model_name=name, replica=replica)
    return reading if declared.method or declared.draft_model else configured.judged(reading)


def hardware(declared: Declared) -> str:
    """Return what a target's labels say that it runs on, empty where they say nothing."""
    labels = dict(declared.labels)
    return next((labels[name] for name in HARDWARE_LABELS if labels.get(name)), "")


def _labelled(declared: Declared) -> list[tuple[str, str]]:
    """Return the labels that tell a target's release: another value of one is a mark."""
    return [(name, value) for name, value in declared.labels if name in RELEASE_LABELS]


def identify(declared: Declared | None, identity: Identity, reading: Reading, now: float) -> bool:
    """Return whether the reading belongs to another regime than the last one; marks what changed."""
    seen = (reading.num_speculative_tokens, reading.engine_version, reading.config, reading.facts, declared)
    if seen == identity.seen:
        return False
    first = not identity.seen
    identity.seen = seen
    declared = declared or NOTHING_DECLARED
    identity.hardware = hardware(declared)
    config = {"draft_model": declared.draft_model, "method": declared.method} | dict(reading.config)
    config = {name: streams.named(value) for name, value in config.items()}
    tokens = reading.num_speculative_tokens or declared.num_speculative_tokens
    changes: list[tuple[MarkKind, str, str, str]] = [
        (REGIME_MARKS.get(name, "config"), name, identity.config.get(name, ""), value)
        for name, value in config.items()
    ]
    version = streams.named(reading.engine_version)
    changes.append(("engine_version", "engine version", identity.engine_version, version))
    before = str(identity.num_speculative_tokens or "")
    changes.append(("num_speculative_tokens", "num_speculative_tokens", before, str(tokens or "")))
    real = [change for change in changes if change[2] and change[3] and change[2] != change[3]]
    every = (*reading.facts, *declared.facts, *_labelled(declared))
    said = {name: streams.named(value) for name, value in every}
    facts = [("fact", name, identity.facts.get(name, ""), value) for name, value in said.items()]
    for kind, name, old, new in [*real, *facts]:
        if old and new and old != new:
            streams.remember(identity, Mark(now, kind, f"{name} went from {old} to {new}"))  # type: ignore[arg-type]
    identity.config |= {name: value for name, value in config.items() if value}
    identity.facts |= said
    identity.engine_version = version or identity.engine_version
    identity.num_speculative_tokens = tokens or identity.num_speculative_tokens
    if real and not first:
        identity.regimes += 1
    return bool(real) and not first
