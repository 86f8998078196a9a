"""History in folders, JSON lines and OpenMetrics files becomes batches of scrapes in time order."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import zstandard

from monitor import sources
from monitor.sources import batches, files, jsonl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from monitor.core.pages.scrapes import Scrape

PAGE = b"vllm:spec_decode_num_drafts_total 7\n"


def line(at: float, target: str, drafts: int = 10, replica: str = "0") -> str:
    """One line of counters."""
    record = {"at": at, "target": target, "model_name": "m", "replica": replica}
    return json.dumps(record | {"drafts": drafts, "draft_tokens": 2 * drafts, "accepted": [drafts, 0]})


def looks(replayed: Sequence[Sequence[Scrape]]) -> list[list[tuple[str, float]]]:
    """Who and when, batch by batch."""
    return [[(scrape.target, scrape.at) for scrape in batch] for batch in replayed]


def write(path: Path, *lines: str) -> str:
    """Write the lines and return the path as a command line has it."""
    path.write_text("".join(each + "\n" for each in lines))
    return str(path)


def reasons(replayed: Sequence[Sequence[Scrape]]) -> list[tuple[str, str]]:
    """Reason and detail of every failed scrape."""
    failures = [scrape.failure for batch in replayed for scrape in batch if scrape.failure]
    return [(failure.reason, failure.detail) for failure in failures]


def test_a_folder_of_targets_is_merged_in_time_order(tmp_path: Path) -> None:
    """Sub-folders are targets, a moment is one batch, and other files are passed over."""
    for name in (
        "b/2000.prom",
        "a/1500.prom",
        "a/2000.prom",
        "deep/c/10500.prom",
        "a/events.jsonl",
        "a/x.prom",
    ):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(PAGE)
    replayed = list(files.replay(str(tmp_path)))
    assert looks(replayed) == [[("a", 1.5)], [("a", 2.0), ("b", 2.0)], [("deep/c", 10.5)]]
    assert all(scrape.body == PAGE for batch in replayed for scrape in batch)


def test_a_folder_with_pages_is_a_target_of_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages directly in the folder are of the target called as the folder, also where it is given as a dot."""
    folder = tmp_path / "replica-0"
    folder.mkdir()
    (folder / "1795951557205.prom").write_bytes(PAGE)
    expected = [[("replica-0", 1795951557.205)]]
    assert looks(list(files.replay(str(folder)))) == expected
    assert looks(list(files.replay(f"{folder}/"))) == expected
    monkeypatch.chdir(folder)
    assert looks(list(files.replay("."))) == expected


@pytest.mark.parametrize(
    ("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)], ids=["gzip", "zstd"]
)
def test_packed_pages_are_unpacked(tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]) -> None:
    """A page may be packed; a damaged one is a failed scrape and the next is read."""
    (tmp_path / f"1000.prom{suffix}").write_bytes(pack(PAGE))
    (tmp_path / f"2000.prom{suffix}").write_bytes(pack(PAGE * 99)[:-9])
    (tmp_path / "3000.prom").write_bytes(PAGE)
    first, second, third = (batch[0] for batch in files.replay(str(tmp_path)))
    assert (first.body, third.body) == (PAGE, PAGE)
    assert second.failure is not None
    assert second.failure.reason == "encoding"


def test_counters_are_read_from_json_lines(tmp_path: Path) -> None:
    """Lines of one time are one batch, and a target's replicas are one scrape."""
    source = write(
        tmp_path / "c.jsonl",
        line(1.0, "a"),
        line(1.0, "b", replica="0"),
        line(1.0, "b", replica="1"),
        line(2.0, "a"),
        line(2.0, "a"),
    )
    replayed = list(files.replay(source))
    assert looks(replayed) == [[("a", 1.0), ("b", 1.0)], [("a", 2.0)], [("a", 2.0)]]
    readings = replayed[0][1].readings
    assert readings is not None
    assert [reading.replica for reading in readings] == ["0", "1"]


def test_pages_are_read_from_json_lines(tmp_path: Path) -> None:
    """A body is the page's bytes, and pages that were read beside it come along."""
    record = {"at": 5, "target": "a", "body": "x 1\né\n", "beside": {"/v1/loads": "{}"}}
    (batch,) = files.replay(write(tmp_path / "p.jsonl", json.dumps(record)))
    assert batch[0].body == "x 1\né\n".encode()
    assert batch[0].beside == {"/v1/loads": b"{}"}


@pytest.mark.parametrize(
    "pack",
    [lambda body: body, gzip.compress, zstandard.compress, lambda body: gzip.compress(body) * 2],
    ids=["plain", "gzip", "zstd", "two gzip members"],
)
def test_packing_is_told_from_the_first_bytes(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """The name of a file says nothing about how it is packed."""
    (tmp_path / "history").write_bytes(pack(f"{line(1.0, 'a')}\n".encode()))
    assert looks(list(files.replay(str(tmp_path / "history"))))[0] == [("a", 1.0)]


READ_STANDARD_INPUT = (
    "from monitor.sources import files\nfor batch in files.replay('-'): print(batch[0].at, flush=True)"
)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["plain", "gzip", "zstd"])
def test_standard_input_is_read(pack: Callable[[bytes], bytes]) -> None:
    """A dash reads standard input, packed or not."""
    given = pack("".join(f"{line(at, 'a')}\n" for at in (1.0, 2.0, 3.0)).encode())
    program = [sys.executable, "-c", READ_STANDARD_INPUT]
    answer = subprocess.run(program, input=given, capture_output=True, check=True, timeout=60)
    assert answer.stdout == b"1.0\n2.0\n3.0\n"


def test_standard_input_is_read_while_it_is_written() -> None:
    """Lines that come slowly are answered before the end."""
    program = [sys.executable, "-c", READ_STANDARD_INPUT]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("".join(f"{line(at, 'a')}\n" for at in (1.0, 2.0)).encode())
        child.stdin.flush()
        assert child.stdout.readline() == b"1.0\n"
        child.stdin.close()
        assert child.stdout.read() == b"2.0\n"


def test_a_bad_line_is_a_refused_scrape(tmp_path: Path) -> None:
    """What is wrong with a line in the middle is said with its number, and the rest is read."""
    source = write(
        tmp_path / "c.jsonl",
        "{torn",
        line(1.0, "a"),
        '{"at": 2.0, "target": "a", "model_name": "m", "drafts": 1, "draft_tokens": 1, "accepted": 1}',
        "[1]",
        '{"at": 1700000000000, "target": "a"}',
        '{"at": 2.0, "target": ""}',
        '{"at": 2.0, "target": "a", "body": 1}',
        "",
        line(3.0, "a"),
    )
    replayed = list(files.replay(source))
    assert [scrape.at for batch in replayed for scrape in batch if not scrape.failure] == [1.0, 3.0]
    assert {scrape.at for batch in replayed for scrape in batch if scrape.failure} == {1.0}
    torn, *rest = reasons(replayed)
    assert torn[0] == "json"
    assert torn[1].startswith(f"{source} line 1: read '{{torn'")
    assert rest == [
        (
            "bad_counters",
            f"{source} line 3: accepted is '1', expected a list with the accepted tokens of each position",
        ),
        ("json", f"{source} line 4: read '[1]', expected a JSON object"),
        ("bad_counters", f'{source} line 5: "at" is 1700000000000, expected unix seconds'),
        ("bad_counters", f"{source} line 6: \"target\" is '', expected the name of the target"),
        ("not_metrics", f"{source} line 7: \"body\" is '1', expected a text"),
    ]


def test_a_recording_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    """A packed file without its end gives what it has, and then one refused scrape."""
    packed = gzip.compress("".join(f"{line(at, 'a', drafts=at * at)}\n" for at in range(1, 2000)).encode())
    (tmp_path / "c.gz").write_bytes(packed[: len(packed) // 2])
    *good, last = files.replay(str(tmp_path / "c.gz"))
    assert len(good) > 100
    assert last[-1].failure is not None
    assert last[-1].failure.reason == "encoding"


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by the longest line that is accepted."""
    monkeypatch.setattr(jsonl, "LONGEST_LINE_BYTES", 300)
    source = write(tmp_path / "c.jsonl", line(1.0, "a"), '{"at": "' + "9" * 400 + '"}', line(2.0, "a"))
    replayed = list(files.replay(source))
    assert [reason for reason, _ in reasons(replayed)] == ["too_large", "json"]
    assert looks(replayed)[-1] == [("a", 2.0)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty, expected a folder of"),
        (b"  \n", "it is empty, expected a folder of"),
        (b"<html>", "read '<html>', expected a folder of"),
        (b"\x7fELF\x00", "read '\\x7fELF\\x00', expected a folder of"),
        (b"[{}]", "read '[{}]', expected a folder of"),
        (b"{}\n{}\n", 'line 1: "at" is None, expected unix seconds; expected JSON lines with'),
        (b"{}\n" * 500, 'line 1: "at" is None, expected unix seconds; expected JSON lines with'),
        (b"# HELP x .\nx 1\n", "no sample has a time stamp (line 2: read 'x 1'), expected samples with"),
        (b"root:x:0:0\n", "no sample has a time stamp (line 1: read 'root:x:0:0'), expected samples with"),
        (gzip.compress(b"x" * 99)[:12], "the packed data are damaged"),
    ],
    ids=["empty", "blank", "html", "binary", "json list", "other json", "long", "page", "text", "damaged"],
)
def test_a_file_of_another_kind_is_unreadable(tmp_path: Path, content: bytes, message: str) -> None:
    """The message says which file, what was read and what was expected."""
    source = tmp_path / "history"
    source.write_bytes(content)
    with pytest.raises(sources.Unreadable) as refusal:
        list(files.replay(str(source)))
    assert message in str(refusal.value)
    assert str(refusal.value).startswith(str(source))


@pytest.mark.parametrize("name", ["absent", "."], ids=["no file", "no page in the folder"])
def test_a_source_that_is_not_there_is_unreadable(tmp_path: Path, name: str) -> None:
    """A missing file and a folder without pages are said to be that."""
    with pytest.raises(sources.Unreadable, match="expected"):
        list(files.replay(str(tmp_path / name)))


OPENMETRICS = """\
# TYPE vllm:spec_decode_num_drafts counter
vllm:spec_decode_num_drafts_total{instance="a:8000",model_name="m"} 10 1700000000
vllm:spec_decode_num_drafts_total{instance="a:8000",model_name="m"} 25.5 1700000015.25 # {trace="x"} 1
vllm:spec_decode_num_drafts_total{instance="b:8000",model_name="m, {\\"q\\"}"} 7 1700000000
broken{ 1 1700000000
vllm:num_requests_running{instance="a:8000"} 3 1700000015.25
plain 4 1700000015250
# EOF
"""


def test_an_openmetrics_file_becomes_pages(tmp_path: Path) -> None:
    """Samples of one target and time stamp are one page, whatever the order of the file."""
    source = write(tmp_path / "dump.om", *OPENMETRICS.splitlines())
    replayed = list(files.replay(source))
    refused, *first = replayed[0]
    assert looks([first, *replayed[1:]]) == [
        [("a:8000", 1700000000.0), ("b:8000", 1700000000.0)],
        [(source, 1700000015.25), ("a:8000", 1700000015.25)],
    ]
    drafts = b'vllm:spec_decode_num_drafts_total{instance="a:8000",model_name="m"} '
    assert first[0].body == drafts + b"10.0\n"
    assert replayed[1][1].body == drafts + b'25.5\nvllm:num_requests_running{instance="a:8000"} 3.0\n'
    ((reason, detail),) = reasons([[refused]])
    assert reason == "not_metrics"
    assert "line 5: read 'broken{ 1 1700000000'" in detail


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    """Thousands of targets at one time come in batches of a bounded size."""
    source = write(tmp_path / "c.jsonl", *(line(1.0, f"t{number}") for number in range(2500)))
    sizes = [len(batch) for batch in files.replay(source)]
    assert sizes == [batches.LARGEST_BATCH, batches.LARGEST_BATCH, 2500 - 2 * batches.LARGEST_BATCH]


def test_progress_goes_from_0_to_1(tmp_path: Path) -> None:
    """The share that has been read never falls and ends at 1."""
    seen: list[float] = []
    source = write(tmp_path / "c.jsonl", *(line(float(at), "a") for at in range(1, 50_000)))
    list(files.replay(source, seen.append))
    assert seen == sorted(seen)
    assert len(set(seen)) > 2
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("name", "target", "at"),
    [("a/1795951557205.prom", "a", 1795951557.205), ("a/metrics.txt", "metrics.txt", None)],
    ids=["recorded", "any"],
)
def test_one_page_is_read_for_inspection(tmp_path: Path, name: str, target: str, at: float | None) -> None:
    """A page that was recorded is told by its name, any other by its own name and when it was written."""
    file = tmp_path / name
    file.parent.mkdir()
    file.write_bytes(PAGE)
    scrape = files.page(str(file))
    assert (scrape.target, scrape.at, scrape.body) == (target, at or file.stat().st_mtime, PAGE)


def test_one_page_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    """A missing page says what was expected."""
    with pytest.raises(sources.Unreadable, match="No such file"):
        files.page(str(tmp_path / "absent.prom"))
