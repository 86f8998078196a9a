"""What YAML can say and settings cannot take: refused by its place, without a traceback and without a secret."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from tests.test_settings import refusal

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1: 2\n", "line 1: read '1' as a key, expected a name that is text"),
        ("~: 2\n", "line 1: read '~' as a key, expected a name that is text"),
        ("? [a]\n: 2\n", "line 1: read a list or mapping as a key, expected a name that is text"),
        ("log: {level: 2001-99-99}\n", "line 1: a value looks like timestamp and is none, expected quotes"),
        ("log: {level: !!int x}\n", "line 1: a value looks like int and is none, expected quotes"),
        ('log: {level: "\\ud800"}\n', "line 1: a value looks like str and is none, expected quotes"),
        ("[" * 5000, "not YAML that can be read: too many lists or mappings in each other"),
        ("targets: [{url: 'http://a', name: \"a\\nb\"}]\n", "expected a name of characters that can be seen"),
        ("targets: [{url: 'http://a', headers: {'a b': x}}]\n", "expected a header's name: letters, digits"),
        ("scrape: {bearer_token_file: /}\n", "read '/', expected a file that this process can read"),
        ("scrape: {body_limit: 9999999GiB}\n", "read '9999999GiB', expected a size such as"),
        (f"scrape: {{body_limit: {'9' * 400}}}\n", "expected a size such as"),
        (f"scrape: {{interval: {'9' * 400}s}}\n", "expected a duration such as"),
        (f"scrape: {{interval: {'9' * 400}}}\n", "expected a duration such as"),
        ("targets: [{url: 'http://a', num_speculative_tokens: 99999999999}]\n", "less than or equal to 1000"),
    ],
    ids=range(15),
)
def test_odd_yaml_is_refused_by_its_place(text: str, message: str, tmp_path: Path) -> None:
    """What YAML can say and settings cannot take is one clear line, never a traceback."""
    assert message in refusal(text, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "scrape: {bearer_token: 2001-99-99}\n",
        "scrape: {bearer_token: !!int hunter2}\n",
        'scrape: {bearer_token: "hunter2\\r\\nX: y"}\n',
        'targets: [{url: "http://a", headers: {A: "hunter2\\nX: y"}}]\n',
        "targets: ['http://u:hunter2@[::1/']\n",
        "notify: {webhooks: [{url: 'ftp://h/hunter2'}]}\n",
    ],
    ids=range(6),
)
def test_no_refusal_shows_a_secret(text: str, tmp_path: Path) -> None:
    """A secret that is refused is not repeated."""
    said = refusal(text, tmp_path)
    assert "hunter2" not in said
    assert "2001-99-99" not in said


def test_an_alias_bomb_is_refused_in_no_time(tmp_path: Path) -> None:
    """Lists of lists of lists by reference are looked at once each."""
    bomb = "a: &a [x, x]\n" + "".join(
        f"{after}: &{after} [{', '.join(['*' + before] * 9)}]\n"
        for before, after in itertools.pairwise("abcdefghijkl")
    )
    assert "l: no such setting" in refusal(bomb, tmp_path)
