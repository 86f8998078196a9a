"""Odd, huge and hostile history: what is wrong is refused by its place, and memory stays bounded."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
import zstandard

from monitor import sources
from monitor.sources import batches, files, folders
from tests.sources.test_files import PAGE, line, looks, reasons, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"at": 10**4000}, "bad_counters"),
        ({"at": float("nan")}, "bad_counters"),
        ({"at": -1}, "bad_counters"),
        ({"at": 1e18}, "bad_counters"),
        ({"at": True}, "bad_counters"),
        ({"target": ["t"]}, "bad_counters"),
        ({"target": "\ud800"}, "bad_counters"),
        ({"model_name": "\udfff"}, "bad_counters"),
        ({"config": {"\ud800": 1}}, "bad_counters"),
        ({"drafts": 10**400}, "bad_counters"),
        ({"drafts": float("inf")}, "bad_counters"),
        ({"accepted": [[1]]}, "bad_counters"),
        ({"accepted": [None]}, "bad_counters"),
        ({"replica": 1.5}, "bad_counters"),
        ({"body": [1]}, "not_metrics"),
    ],
    ids=lambda value: value if isinstance(value, str) else ascii(value)[:24],
)
def test_a_field_of_a_wrong_kind_refuses_its_line(
    tmp_path: Path, change: dict[str, object], reason: str
) -> None:
    """Whatever a field holds, its line is a refused scrape that says so briefly, and the next line is read."""
    wrong = json.dumps(json.loads(line(15, "t")) | change)
    source = write(tmp_path / "x.jsonl", line(1, "t"), wrong, line(30, "t"))
    replayed = list(files.replay(source))
    ((found, detail),) = reasons(replayed)
    assert found == reason
    assert "line 2" in detail
    assert len(detail) < len(source) + 200
    assert [scrape.at for batch in replayed for scrape in batch if not scrape.failure] == [1.0, 30.0]


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000], ids=["lists", "objects"])
def test_endless_nesting_refuses_its_line(tmp_path: Path, nested: str) -> None:
    """A line of brackets within brackets is no end of the replay."""
    source = write(tmp_path / "x.jsonl", line(1, "t"), nested, line(30, "t"))
    assert [reason for reason, _ in reasons(list(files.replay(source)))] == ["json"]


def test_names_that_are_no_times_are_passed_over(tmp_path: Path) -> None:
    """Only plain milliseconds of the last three thousand years name a page."""
    for name in (
        "0",
        "01",
        "-1",
        "1.5",
        "1e3",
        "٣",
        "9" * 20,
        "9" * 200,
        "9223372036854775807",
        "1700000000000",
    ):
        (tmp_path / f"{name}.prom").write_bytes(PAGE)
    (tmp_path / "1700000015000.prom").mkdir()
    assert looks(list(files.replay(str(tmp_path)))) == [[(tmp_path.name, 1_700_000_000.0)]]


@pytest.mark.parametrize("time", ["NaN", "+Inf", "-5", "0", "1e18", "9e300"])
def test_a_time_stamp_that_is_none_refuses_its_sample(tmp_path: Path, time: str) -> None:
    """A sample without a possible time is a refused line, the others are read."""
    source = write(
        tmp_path / "x.om", f"{PAGE.decode().strip()} {time}", f"{PAGE.decode().strip()} 1700000000"
    )
    replayed = list(files.replay(source))
    assert len(reasons(replayed)) == 1
    assert replayed[-1][-1].at == 1_700_000_000.0


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
def test_a_packed_page_without_end_is_a_failed_scrape(
    tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few kilobytes that stand for megabytes are not unpacked beyond the limit."""
    monkeypatch.setattr(folders, "LARGEST_PAGE_BYTES", 1 << 20)
    (tmp_path / "1700000000000.prom.gz").write_bytes(pack(bytes(100 << 20)))
    assert [reason for reason, _ in reasons(list(files.replay(str(tmp_path))))] == ["too_large"]


def test_a_history_of_very_many_targets_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each target takes memory, so a file with a new one in every line is refused by name and number."""
    monkeypatch.setattr(files, "MOST_TARGETS", 10)
    source = write(tmp_path / "x.jsonl", *(line(1, f"t{n}") for n in range(20)))
    with pytest.raises(sources.Unreadable, match="read more than 10 targets, the last 't19': expected fewer"):
        list(files.replay(source))


def test_very_many_replicas_come_in_pieces(tmp_path: Path) -> None:
    """Lines of one target and time become scrapes of bounded size, none of them lost."""
    count = 2 * batches.LARGEST_BATCH + 1
    source = write(tmp_path / "x.jsonl", *(line(1, "t", replica=str(n)) for n in range(count)))
    scrapes = [scrape for batch in files.replay(source) for scrape in batch]
    assert [len(scrape.readings or ()) for scrape in scrapes] == [1024, 1024, 1]


def test_a_name_that_no_file_can_have_is_unreadable() -> None:
    """The system's own word is given, not a traceback."""
    with pytest.raises(sources.Unreadable, match="File name too long, expected a readable file"):
        list(files.replay("a" * 5000))
