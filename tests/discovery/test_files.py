"""Targets from files: content is what counts, and a broken file takes nothing away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from monitor.sources.discovery.target_files import Files
from tests.discovery import listening

if TYPE_CHECKING:
    from pathlib import Path

INTERVAL = 0.05


def write(path: Path, *addresses: str) -> None:
    """Write a list with these targets, at once."""
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps([{"targets": list(addresses)}]))
    fresh.rename(path)


async def test_json_and_yaml_files_add_up(tmp_path: Path) -> None:
    """All files of all patterns are read, each once."""
    write(tmp_path / "a.json", "a:1")
    (tmp_path / "b.yml").write_text("- targets: [b:1]\n  labels: {zone: x}\n")
    patterns = (str(tmp_path / "*.json"), str(tmp_path / "*.yml"), str(tmp_path / "b.yml"))
    async with listening.to(Files(patterns, INTERVAL)) as listener:
        found = await listener.names("a:1", "b:1")
    assert found[1].labels == (("zone", "x"),)


async def test_json_may_have_tabs(tmp_path: Path) -> None:
    """A JSON file is read as JSON: indented with tabs it is no YAML."""
    (tmp_path / "a.json").write_text('[\n\t{"targets": [\n\t\t"a:1"\n\t]}\n]\n')
    async with listening.to(Files((str(tmp_path / "a.json"),), INTERVAL)) as listener:
        await listener.names("a:1")


async def test_yaml_that_is_none(tmp_path: Path) -> None:
    """A YAML file that cannot be read is a failure with its line."""
    (tmp_path / "a.yml").write_text("- targets: [a:1\n  labels: {}\n")
    async with listening.to(Files((str(tmp_path / "a.yml"),), INTERVAL)) as listener:
        assert (await listener.failure()).startswith(f"{tmp_path}/a.yml: not YAML: line 2: ")


async def test_a_change_is_seen(tmp_path: Path) -> None:
    """New files, new content and files that go away are seen without anybody's notice."""
    write(tmp_path / "a.json", "a:1")
    async with listening.to(Files((str(tmp_path / "*.json"),), INTERVAL)) as listener:
        await listener.names("a:1")
        write(tmp_path / "b.json", "b:1")
        await listener.names("a:1", "b:1")
        write(tmp_path / "a.json", "c:1")
        await listener.names("b:1", "c:1")
        (tmp_path / "b.json").unlink()
        await listener.names("c:1")


async def test_a_config_map_is_followed(tmp_path: Path) -> None:
    """A symbolic link that is swapped, which is how Kubernetes changes a mounted ConfigMap, is seen."""
    for version, address in (("..1", "a:1"), ("..2", "b:1")):
        (tmp_path / version).mkdir()
        write(tmp_path / version / "targets.json", address)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "targets.json").symlink_to("..data/targets.json")
    async with listening.to(Files((str(tmp_path / "targets.json"),), INTERVAL)) as listener:
        await listener.names("a:1")
        (tmp_path / "..data_tmp").symlink_to("..2")
        (tmp_path / "..data_tmp").rename(tmp_path / "..data")
        await listener.names("b:1")


async def test_a_broken_file_keeps_its_targets(tmp_path: Path) -> None:
    """A file that cannot be read is a failure with its path and line; its targets and the others' stay."""
    write(tmp_path / "a.json", "a:1")
    write(tmp_path / "b.json", "b:1")
    async with listening.to(Files((str(tmp_path / "*.json"),), INTERVAL)) as listener:
        await listener.names("a:1", "b:1")
        (tmp_path / "a.json").write_text('[{"targets": ["a:1"')
        write(tmp_path / "b.json", "c:1")
        assert (await listener.failure()).startswith(f"{tmp_path}/a.json: not JSON: line 1: ")
        await listener.names("a:1", "c:1")
        write(tmp_path / "a.json", "d:1")
        await listener.names("c:1", "d:1")


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A plain name without a file is a failure; nothing is told until there is one."""
    file = tmp_path / "targets.yml"
    async with listening.to(Files((str(file),), INTERVAL)) as listener:
        assert await listener.failure() == f"{file}: no such file or directory"
        write(file, "a:1")
        await listener.names("a:1")


async def test_what_is_in_a_file_that_is_no_list(tmp_path: Path) -> None:
    """The message names the file and the place in it."""
    file = tmp_path / "targets.yml"
    file.write_text("- targets: [a:1]\n  labels: {a-b: c}\n")
    async with listening.to(Files((str(file),), INTERVAL)) as listener:
        reason = await listener.failure()
    assert reason == f"{file}: [0].labels: read 'a-b', expected a label name: letters, digits and _"


async def test_a_pattern_without_files(tmp_path: Path) -> None:
    """A pattern that nothing matches has no targets, and that is no failure."""
    async with listening.to(Files((str(tmp_path / "*.json"),), INTERVAL)) as listener:
        assert await listener.next() == ()
