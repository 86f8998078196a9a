"""Prometheus's target groups: what is read, and what is refused with its place."""

from __future__ import annotations

import pytest

from monitor.sources.discovery import Found, MalformedError, target_groups

OWN = "__specmon_draft_model, __specmon_method, __specmon_name, __specmon_num_speculative_tokens, __specmon_revision"


def test_a_group_becomes_targets_with_its_labels() -> None:
    """Each address is a target that goes by host and port and has the group's labels."""
    found = target_groups.found(
        [{"targets": ["a:8000", "b:8000"], "labels": {"team": "chat"}}, {"targets": ["c:1"]}]
    )
    assert found == (
        Found("a:8000", "http://a:8000/metrics", (("team", "chat"),)),
        Found("b:8000", "http://b:8000/metrics", (("team", "chat"),)),
        Found("c:1", "http://c:1/metrics"),
    )


@pytest.mark.parametrize(
    ("address", "labels", "name", "url"),
    [
        ("a", {}, "a:80", "http://a:80/metrics"),
        ("a", {"__scheme__": "https"}, "a:443", "https://a:443/metrics"),
        ("[::1]:8000", {}, "[::1]:8000", "http://[::1]:8000/metrics"),
        (
            "a:1",
            {"__metrics_path__": "/prometheus/metrics"},
            "a:1/prometheus/metrics",
            "http://a:1/prometheus/metrics",
        ),
        ("a:1", {"__param_format": "text plain"}, "a:1", "http://a:1/metrics?format=text+plain"),
        ("a:1", {"__specmon_name": "vllm-0"}, "vllm-0", "http://a:1/metrics"),
    ],
    ids=["no-port", "https", "ipv6", "path", "parameter", "name"],
)
def test_labels_with_a_meaning(address: str, labels: dict[str, str], name: str, url: str) -> None:
    """Scheme, path, parameters and name come from labels, as far as they have them."""
    (found,) = target_groups.found([{"targets": [address], "labels": labels}])
    assert (found.name, found.url, found.labels) == (name, url, ())


def test_what_the_page_cannot_say() -> None:
    """Draft model, method, number of tokens and revision come from labels that Prometheus drops."""
    labels = {
        "__specmon_draft_model": "org/draft",
        "__specmon_method": "eagle3",
        "__specmon_num_speculative_tokens": "4",
        "__specmon_revision": "v7",
    }
    (found,) = target_groups.found([{"targets": ["a:1"], "labels": labels}])
    assert (found.draft_model, found.method, found.num_speculative_tokens) == ("org/draft", "eagle3", 4)
    assert found.facts == (("revision", "v7"),)


def test_labels_that_are_not_kept() -> None:
    """Prometheus's own labels, ours and those that begin with __ are left out, as are empty ones."""
    labels = {"job": "vllm", "instance": "x", "target": "t", "__meta_x": "y", "empty": "", "zone": "a"}
    (found,) = target_groups.found([{"targets": ["a:1"], "labels": labels}])
    assert found.labels == (("zone", "a"),)


def test_a_target_that_is_listed_twice_is_one() -> None:
    """Of two entries with one address the last one counts."""
    found = target_groups.found([{"targets": ["a:1"]}, {"targets": ["a:1"], "labels": {"zone": "b"}}])
    assert [target.labels for target in found] == [(("zone", "b"),)]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"targets": []}, "read a mapping, expected a list of target groups"),
        (None, "read None, expected a list of target groups"),
        (["a:1"], "[0]: read 'a:1', expected a mapping with `targets` and `labels`"),
        ([{"target": ["a"]}], "[0]: read the keys target, expected a mapping with `targets` and `labels`"),
        ([{"targets": "a:1"}], "[0].targets: read 'a:1', expected a list of host:port"),
        ([{"targets": ["a:1", 5]}], "[0].targets[1]: read 5, expected host:port"),
        (
            [{"targets": ["http://a:1/metrics"]}],
            "[0].targets[0]: read 'http://a:1/metrics', expected host:port",
        ),
        ([{"targets": ["a:99999"]}], "[0].targets[0]: read 'a:99999', expected host:port"),
        ([{"targets": ["a b:1"]}], "[0].targets[0]: read 'a b:1', expected host:port"),
        ([{"targets": [""]}], "[0].targets[0]: read '', expected host:port"),
        ([{"targets": ["\ud800:1"]}], "[0].targets[0]: read '\\ud800:1', expected host:port"),
        ([{"labels": {"a": "\ud800"}}], "[0].labels.a: read '\\ud800', expected a text"),
        (
            [{"targets": ["a:1"], "labels": {"__specmon_num_speculative_tokens": "9" * 5000}}],
            f"[0].labels.__specmon_num_speculative_tokens: read '{'9' * 79}, expected a whole number above 0",
        ),
        ([{"targets": ["u:p@a:1"]}], "[0].targets[0]: read 'u:p@a:1', expected host:port"),
        ([{"labels": ["x"]}], "[0].labels: read a list, expected a mapping of names to texts"),
        ([{"labels": {"a-b": "c"}}], "[0].labels: read 'a-b', expected a label name: letters, digits and _"),
        ([{"labels": {"a": 1}}], "[0].labels.a: read 1, expected a text"),
        ([{"labels": {"__scheme__": "ftp"}}], "[0].labels.__scheme__: read 'ftp', expected http or https"),
        (
            [{"targets": ["a:1"], "labels": {"__specmon_num_speculative_tokens": "four"}}],
            "[0].labels.__specmon_num_speculative_tokens: read 'four', expected a whole number above 0",
        ),
        (
            [{"labels": {"__specmon_draft": "x"}}],
            f"[0].labels: read '__specmon_draft', expected one of {OWN}",
        ),
        (
            [{"targets": ["a:1", "b:1"], "labels": {"__specmon_name": "x"}}],
            "[0]: one __specmon_name for 2 targets, expected one target",
        ),
    ],
    ids=lambda value: ascii(value)[:80],
)
def test_what_is_refused(document: object, message: str) -> None:
    """A document that is no list of groups is refused as a whole, with the place and what was expected."""
    with pytest.raises(MalformedError) as raised:
        target_groups.found(document)
    assert str(raised.value) == message
