"""What an engine says of itself on its other pages: version, models, method, number of speculative tokens.

Each page is JSON and is asked once in a process life. A page that is missing, refused or of another shape
says nothing: the operator's own words stand in.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from monitor.core.pages.engines import base

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | bool | None"

VERSION = "/version"
MODELS = "/v1/models"
SERVER_INFO = "/server_info"
SERVER_INFO_JSON = "/server_info?config_format=json"
MODEL_INFO = "/model_info"
PROPS = "/props"
INFO = "/info"

# What makes two readings comparable; the order is that of Reading.config.
KEYS = ("draft_model", "method", "target_model", "quantization", "weight_version")


@dataclass(frozen=True, slots=True)
class Facts:
    """What the pages say, empty and 0 where they do not; `config` has names of `KEYS` only."""

    engine_version: str = ""
    model_name: str = ""
    num_speculative_tokens: int = 0
    speculating: bool | None = None
    config: tuple[tuple[str, str], ...] = ()


NOTHING = Facts()


def facts(beside: Mapping[str, bytes]) -> Facts:
    """Return what the answers in `beside` (path → body) say; where two differ the more detailed page wins."""
    if not beside:
        return NOTHING
    return _merged(tuple([(path, beside[path]) for path in _PAGES if path in beside]))


@lru_cache(maxsize=1024)
def _merged(answers: tuple[tuple[str, bytes], ...]) -> Facts:
    merged = NOTHING
    config: dict[str, str] = {}
    for path, body in answers:
        each = _PAGES[path](parsed(body))
        config |= dict(each.config)
        merged = Facts(
            engine_version=each.engine_version or merged.engine_version,
            model_name=each.model_name or merged.model_name,
            num_speculative_tokens=each.num_speculative_tokens or merged.num_speculative_tokens,
            speculating=merged.speculating if each.speculating is None else each.speculating,
            config=_config(config),
        )
    return merged


def parsed(body: bytes) -> Json:
    """Return a body's JSON value, None where it is no JSON; a number that no float holds is null."""
    try:
        value: Json = json.loads(body, parse_constant=_nothing, parse_float=_finite, parse_int=_finite)
    except (ValueError, RecursionError):
        return None
    return value


def _finite(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _nothing(_: str) -> None:
    """Python writes NaN and Infinity, which JSON does not have."""


def inner(value: Json, *path: str) -> Json:
    """Return what stands at `path` in nested objects, None where there is nothing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _text(value: Json, *paths: tuple[str, ...] | str) -> str:
    """Return the first text that stands at one of the paths, empty where there is none."""
    for path in paths:
        found = inner(value, *((path,) if isinstance(path, str) else path))
        if isinstance(found, str) and found and found.lower() != "none":
            # JSON can say half a character, which no other text can.
            return found.encode("utf-8", "replace").decode()
    return ""


def _count(value: Json, *path: str) -> int:
    found = inner(value, *path)
    if isinstance(found, int | float) and not isinstance(found, bool) and 0 < found < base.MOST_POSITIONS:
        return int(found)
    return 0


def _config(known: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, known[name]) for name in KEYS if known.get(name))


def _version(answer: Json) -> Facts:
    return Facts(engine_version=_text(answer, "version"))


def _models(answer: Json) -> Facts:
    """Read the list of the served name and its adapters; an adapter has a parent."""
    cards = inner(answer, "data")
    own = [card for card in cards if not _text(card, "parent")] if isinstance(cards, list) else []
    if len(own) != 1:
        return NOTHING
    root = _text(own[0], "root")
    return Facts(model_name=_text(own[0], "id"), config=_config({"target_model": root}))


def _vllm_server_info(answer: Json) -> Facts:
    """Read what vLLM says in its development mode only."""
    known = inner(answer, "vllm_config")
    speculative = inner(known, "speculative_config")
    method = _text(speculative, "method")
    # For ngram the page repeats the method where the draft model would stand.
    draft = _text(speculative, "model")
    return Facts(
        num_speculative_tokens=_count(speculative, "num_speculative_tokens"),
        speculating=isinstance(speculative, dict) if isinstance(known, dict) else None,
        config=_config(
            {
                "draft_model": "" if draft == method else draft,
                "method": method,
                "target_model": _text(known, ("model_config", "model")),
                "quantization": _text(known, ("model_config", "quantization")),
            }
        ),
    )


def _server_info(answer: Json) -> Facts:
    """Read SGLang's resolved arguments; TensorRT-LLM's page of this name has none of them."""
    algorithm = _text(answer, "speculative_algorithm")
    known = isinstance(answer, dict) and "speculative_algorithm" in answer
    steps = _count(answer, "speculative_num_steps")
    return Facts(
        engine_version=_text(answer, "version"),
        model_name=_text(answer, "served_model_name"),
        num_speculative_tokens=(steps or max(_count(answer, "speculative_num_draft_tokens") - 1, 0))
        if algorithm
        else 0,
        speculating=bool(algorithm) if known else None,
        config=_config(
            {
                "draft_model": _text(answer, "speculative_draft_model_path"),
                "method": algorithm,
                "target_model": _text(answer, "model_path"),
                "quantization": _text(answer, "quantization"),
                "weight_version": _text(answer, "weight_version"),
            }
        ),
    )


def _model_info(answer: Json) -> Facts:
    return Facts(
        model_name=_text(answer, "served_model_name"),
        config=_config(
            {"target_model": _text(answer, "model_path"), "weight_version": _text(answer, "weight_version")}
        ),
    )


def _props(answer: Json) -> Facts:
    """Read what llama.cpp says; without an alias it repeats the path, which a new release changes."""
    path, alias = _text(answer, "model_path"), _text(answer, "model_alias")
    return Facts(
        engine_version=_text(answer, "build_info"),
        model_name="" if alias == path else alias,
        config=_config({"target_model": path, "quantization": _text(answer, "model_ftype")}),
    )


def _info(answer: Json) -> Facts:
    """Read what TGI says."""
    speculate = inner(answer, "speculate")
    return Facts(
        engine_version=_text(answer, "version"),
        model_name=_text(answer, "model_id"),
        num_speculative_tokens=_count(answer, "speculate"),
        speculating=speculate > 0 if isinstance(speculate, int | float) else None,
        config=_config(
            {"target_model": _text(answer, "model_id"), "weight_version": _text(answer, "model_sha")}
        ),
    )


_PAGES: dict[str, Callable[[Json], Facts]] = {
    VERSION: _version,
    MODELS: _models,
    MODEL_INFO: _model_info,
    SERVER_INFO_JSON: _vllm_server_info,
    SERVER_INFO: _server_info,
    PROPS: _props,
    INFO: _info,
}
