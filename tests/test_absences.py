"""Each way in which a page has no stream has its own sentence, with what was read and expected."""

from __future__ import annotations

import pytest

from monitor.core.pages import looks

PAGES = [
    pytest.param(
        b'vllm:e2e_request_latency_seconds_count{model_name="m"} 4\n',
        [
            "read vllm:e2e_request_latency_seconds_count",
            "expected counters such as vllm:spec_decode_num_drafts_total",
        ],
        id="counters dropped by a scrape configuration",
    ),
    pytest.param(
        b'vllm:generation_tokens_total{service.name="m"} 4\nvllm:spec_decode_num_drafts_total{a-b="m"} 4\n',
        [
            "2 of its lines cannot be read",
            "line 1: expected",
            "read 'vllm:generation_tokens_total{service.name=\"m\"} 4'",
        ],
        id="names of labels that cannot be read",
    ),
    pytest.param(
        b'vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name="x",position="first"} 4\n',
        ['position="first"', "a position as a number from 0"],
        id="a position that is no number",
    ),
    pytest.param(
        b'vllm:cache_config_info{engine="0",block_size="16"} 1\n',
        ["read only vllm:cache_config_info", 'block_size="16"'],
        id="configuration only",
    ),
    pytest.param(
        b'sglang:e2e_request_latency_seconds_count{model_name="x"} 4\n',
        ["page of sglang", "sglang:generation_tokens_total"],
        id="another engine",
    ),
]


@pytest.mark.parametrize(("body", "parts"), PAGES)
def test_the_sentence_says_what_was_read_and_expected(body: bytes, parts: list[str]) -> None:
    """The refusal names the lines of this page, not a guess."""
    look = looks.read(looks.Memory(), body, {})
    assert look.failure is not None
    assert look.failure.reason == "unrecognised"
    for part in parts:
        assert part in look.failure.detail


def test_no_two_ways_share_a_sentence() -> None:
    """The details of all those pages differ."""
    found = {str(looks.read(looks.Memory(), each.values[0], {}).failure) for each in PAGES}  # type: ignore[arg-type]
    assert len(found) == len(PAGES)
