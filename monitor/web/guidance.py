"""What to do about an event: first steps by its kind, then by its likely cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from monitor.web import fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.web.fields import Record
    from monitor.web.view import View

BY_KIND: Mapping[str, str] = {
    "collapse": (
        "Drafting now costs more than it gains. If latency matters more than the diagnosis, switch "
        "speculation off for this replica or take it out of rotation until the cause is found."
    ),
    "drop": (
        "Part of the gain is left. Compare with the other replicas of this model: one alone points at "
        "the replica."
    ),
    "tail_drop": (
        "Only late positions fell. A smaller number of speculative tokens gives most of the gain at "
        "less cost."
    ),
    "decay": (
        "A slow fall follows traffic or the model. Compare prompt and answer lengths of today and of "
        "last week."
    ),
    "dead_draft": (
        "Practically no draft token is kept. Check that the draft model was trained for exactly this "
        "target model, and that tokenizer, quantisation and chat template of the two agree."
    ),
    "speculation_silent": (
        "The engine makes no drafts. Read its log for a message that switched speculation off."
    ),
    "below_reference": (
        "Acceptance is below what the settings pin for this model. Compare draft model, quantisation, chat "
        "template and sampling with those of the measurement that the reference is from; if the traffic is "
        "another, measure again and pin that."
    ),
    "net_loss": (
        "Decoding is slower with speculation than it would be without. `specmon advise` says which number of "
        "speculative tokens pays at this batch size; where none does, switch speculation off, or off above "
        "that batch size with the engine's schedule."
    ),
    "speculation_off": "Check whether the last deployment meant to run without speculation.",
    "improvement": "Nothing needs doing. If a release caused it, this is its new level.",
    "regime_change": "Nothing needs doing if the change was meant. Before and after are compared above.",
    "data_quality": (
        "The counters contradict each other: do not act on the numbers. Report the page to the engine's "
        "project."
    ),
}
BY_CAUSE = {
    "traffic": (
        "How well a draft predicts depends on what is asked. Find the tenant or the kind of prompt that "
        "came at that time."
    ),
    "draft": (
        "Roll the draft model back to the revision before the change point, or retrain it for this "
        "target model."
    ),
    "target_model": "The target model changed and its draft did not. Deploy the draft that belongs to it.",
    "engine": "Roll the engine back to the version before the change point, and compare.",
    "replica": (
        "The other replicas serve the same model well: take this one out of rotation and restart it. Compare "
        "its files, image and node with those of another."
    ),
    "context_limit": (
        "Drafts of long contexts keep nothing. See what length the draft was trained for; raise its "
        "max_model_len if it is set too low, or send long contexts to replicas without speculation."
    ),
    "tail": (
        "Set num_speculative_tokens to the number of positions that still accept: the later ones cost a "
        "draft step each and give nothing."
    ),
    "config": "Undo the configuration change, or confirm that it was meant.",
    "load": (
        "At this batch size a draft may cost more than it gains. Fewer speculative tokens help, or none "
        "at high load."
    ),
    "restart": (
        "The engine restarted at that time. Compare its start-up arguments and its log with the run before."
    ),
    "data_quality": "First make sure that the counters are right; see the list of checks in the metrics.",
}

BY_ENGINE: Mapping[str, str] = {
    "vllm": "vLLM speculates only with `--speculative-config` (older ones: `--speculative-model`).",
    "sglang": "SGLang speculates only with `--speculative-algorithm`.",
    "trtllm": "TensorRT-LLM speculates only with `speculative_config` in its YAML.",
    "llama.cpp": "llama-server speculates only with `--spec-type` or a draft model (`-md`).",
    "lmdeploy": "LMDeploy speculates only with `--speculative-algorithm`.",
    "tgi": "TGI speculates only with `--speculate`, or with a Medusa model.",
}
"""What to leave out for an engine to serve without speculation."""

FALLS = frozenset({"collapse", "drop", "decay"})
"""Kinds that say how much is lost and not why: what to do depends on the cause."""

_SWITCHED_OFF = frozenset({"collapse", "dead_draft", "net_loss"})


def steps(event: Record, engine: str = "") -> list[str]:
    """Return what to do: by the kind, then as `engine` has it, then a step per cause in the event's order."""
    kind = fields.text(event, "kind")
    found = [BY_KIND.get(kind, "")]
    found += [BY_ENGINE.get(engine, "")] if kind in _SWITCHED_OFF else []
    found += [BY_CAUSE.get(fields.text(cause, "cause"), "") for cause in fields.records(event, "causes")]
    return [step for step in dict.fromkeys(found) if step]


def engine_of(view: View, event: Record) -> str:
    """Return the engine of an event's stream, or of the first of its streams; empty where none is known."""
    ids = (fields.text(event, "stream"), *fields.texts(event, "streams"))
    return next((stream.engine for each in ids if (stream := view.stream(each))), "")


def first(event: Record, cause: str) -> str:
    """Return the one step to begin with: that of a fall's likely `cause`, else that of the event's kind."""
    kind = fields.text(event, "kind")
    return (BY_CAUSE.get(cause) if kind in FALLS else None) or BY_KIND.get(kind, "")
