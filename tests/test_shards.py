"""Several monitors share the targets by name alone."""

from __future__ import annotations

import numpy as np
import pytest

from monitor import settings
from monitor.service import assembly
from monitor.sources.discovery import Found, shards

NAMES = [f"llm/vllm-{number}:8000" for number in range(3000)]


@pytest.mark.parametrize("total", [1, 2, 3, 7])
def test_each_target_has_one_shard(total: int) -> None:
    """Every target is watched by exactly one of the shards, and each has about its share."""
    owned = [[name for name in NAMES if shards.Shard(ordinal, total).owns(name)] for ordinal in range(total)]
    assert sorted(name for names in owned for name in names) == sorted(NAMES)
    share = len(NAMES) / total
    assert all(0.85 * share < len(names) < 1.15 * share for names in owned)


def test_one_shard_more_moves_only_its_own() -> None:
    """With a fourth shard, only what the fourth takes over changes hands."""
    moved = [name for name in NAMES if shards.owner(name, 3) != shards.owner(name, 4)]
    assert all(shards.owner(name, 4) == 3 for name in moved)
    assert len(moved) < 0.3 * len(NAMES)


def test_owners_are_the_same_in_every_release() -> None:
    """The owner follows from the name; another answer in a new release would lose all baselines."""
    owners = [shards.owner(f"llm/vllm-{number}", 3) for number in range(5)]
    assert owners == [0, 2, 1, 2, 1]


@pytest.mark.parametrize(
    ("ordinal", "total", "host", "shard"),
    [
        pytest.param("auto", 3, "specmon-2", shards.Shard(2, 3), id="pod of a StatefulSet"),
        pytest.param("1", 3, "any", shards.Shard(1, 3), id="told"),
        pytest.param("auto", 1, "laptop", shards.Shard(), id="alone"),
    ],
)
def test_the_settings_tell(ordinal: str, total: int, host: str, shard: shards.Shard) -> None:
    """The ordinal is told, or stands at the end of the pod's name."""
    assert shards.told(ordinal, total, host) == shard


@pytest.mark.parametrize(
    ("ordinal", "host", "message"),
    [
        ("auto", "laptop", "read the host name 'laptop', expected one such as specmon-0"),
        ("auto", "specmon-5f9c7d-x2x7q", "read the host name"),
        ("auto", "specmon-3", "read the ordinal 3 of 3 shards, expected 0 to 2"),
    ],
)
def test_no_such_shard(ordinal: str, host: str, message: str) -> None:
    """A host that does not say which shard it is, is refused with what was read."""
    with pytest.raises(ValueError, match=message):
        shards.told(ordinal, 3, host)


def test_listed_and_found_targets_are_shared() -> None:
    """What is listed and what is discovered is split in one place, by the names of both."""
    listed = [{"url": f"http://10.0.0.{number}:8000/metrics"} for number in range(20)]
    found = [Found(name, f"http://{name.replace('/', '.')}/metrics") for name in NAMES[:20]]
    split = []
    for ordinal in "012":
        given = settings.load({}, {"SPECMON_SHARDS__TOTAL": "3", "SPECMON_SHARDS__ORDINAL": ordinal})
        given = given.model_copy(
            update={"targets": tuple(settings.TargetSettings(**each) for each in listed)}
        )
        split.append([target.name for target in assembly.scrape_targets(given, found)])
    assert all(split)
    every = [f"10.0.0.{number}:8000" for number in range(20)] + NAMES[:20]
    assert sorted(name for names in split for name in names) == sorted(every)


def test_a_single_monitor_says_nothing() -> None:
    """The metrics are there only where there are shards."""
    assert list(shards.Shard().families()) == []
    values = {
        family.name: float(np.asarray(family.columns[0].values)[0])
        for family in shards.Shard(1, 3).families()
    }
    assert values == {"specmon_shard_ordinal": 1, "specmon_shard_total": 3}
