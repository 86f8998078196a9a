"""What engines say of themselves on other pages is read where it is, and nothing is made of what is not."""

from __future__ import annotations

import pytest

from monitor.core.pages import engines
from monitor.core.pages.engines import identity

ASKED = sorted({path for engine in engines.ENGINES.values() for path in engine.identity})


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"null",
        b"[]",
        b"7",
        b'"x"',
        b"{}",
        b'{"data":[7]}',
        b'{"version":3,"data":{}}',
        b"[" * 100_000,
    ],
    ids=["none", "html", "null", "list", "number", "text", "empty", "odd cards", "odd types", "deep"],
)
def test_a_page_of_another_shape_says_nothing(path: str, body: bytes) -> None:
    """A refusal, a login page and a version we do not know leave everything unknown."""
    assert identity.facts({path: body}) == identity.NOTHING


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/version", b'{"version":"0.32.0"}', identity.Facts(engine_version="0.32.0")),
        (
            "/v1/models",
            b'{"data":[{"id":"m","root":"org/m"},{"id":"lora","root":"x","parent":"m"}]}',
            identity.Facts(model_name="m", config=(("target_model", "org/m"),)),
        ),
        ("/v1/models", b'{"data":[{"id":"a","root":"x"},{"id":"b","root":"y"}]}', identity.NOTHING),
        (
            "/server_info?config_format=json",
            (
                b'{"vllm_config":{"model_config":{"model":"t","quantization":"fp8"},"speculative_config":'
                b'{"method":"eagle3","model":"d","num_speculative_tokens":3}}}'
            ),
            identity.Facts(
                num_speculative_tokens=3,
                speculating=True,
                config=(
                    ("draft_model", "d"),
                    ("method", "eagle3"),
                    ("target_model", "t"),
                    ("quantization", "fp8"),
                ),
            ),
        ),
        (
            "/server_info?config_format=json",
            b'{"vllm_config":{"model_config":{"model":"t"},"speculative_config":null}}',
            identity.Facts(speculating=False, config=(("target_model", "t"),)),
        ),
        (
            "/server_info",
            b'{"version":"0.5.23","speculative_algorithm":null,"model_path":"t","served_model_name":"m"}',
            identity.Facts("0.5.23", "m", speculating=False, config=(("target_model", "t"),)),
        ),
        (
            "/server_info",
            b'{"speculative_algorithm":"NGRAM","speculative_num_steps":null,"speculative_num_draft_tokens":12}',
            identity.Facts(num_speculative_tokens=11, speculating=True, config=(("method", "NGRAM"),)),
        ),
        (
            "/props",
            b'{"model_alias":"chat","model_path":"/m/chat-q4.gguf","build_info":"b11549-abc"}',
            identity.Facts("b11549-abc", "chat", config=(("target_model", "/m/chat-q4.gguf"),)),
        ),
        (
            "/props",
            rb'{"model_alias":"C:\\m\\chat-q4.gguf","model_path":"C:\\m\\chat-q4.gguf"}',
            identity.Facts(config=(("target_model", "C:\\m\\chat-q4.gguf"),)),
        ),
    ],
    ids=[
        "version",
        "one model and an adapter",
        "two models",
        "vllm development mode",
        "vllm without speculation",
        "sglang without speculation",
        "sglang ngram",
        "llama.cpp alias",
        "llama.cpp path",
    ],
)
def test_a_page_is_read(path: str, body: bytes, expected: identity.Facts) -> None:
    """Each page gives the facts that it has."""
    assert identity.facts({path: body}) == expected


def test_the_more_detailed_page_wins() -> None:
    """The development page of vLLM knows more than its list of models."""
    beside = {
        "/v1/models": b'{"data":[{"id":"m","root":"alias"}]}',
        "/server_info?config_format=json": b'{"vllm_config":{"model_config":{"model":"org/target"}}}',
        "/version": b'{"version":"0.33.0"}',
    }
    assert identity.facts(beside) == identity.Facts(
        "0.33.0", "m", speculating=False, config=(("target_model", "org/target"),)
    )


def test_only_pages_without_effect_are_asked() -> None:
    """No page that drains records, resets a gauge or runs a request is on the list."""
    allowed = {
        "/version",
        "/v1/models",
        "/server_info",
        "/server_info?config_format=json",
        "/model_info",
        "/props",
        "/info",
    }
    assert set(ASKED) <= allowed
    assert {path for engine in engines.ENGINES.values() for path in engine.beside} == {"/v1/loads"}
