"""The shape of the package: what may import what, and how long a piece may get."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Time, randomness and the world come into the core as arguments.
OUTSIDE = frozenset(
    {
        "aiohttp",
        "asyncio",
        "concurrent",
        "glob",
        "http",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "random",
        "secrets",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "ssl",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib.request",
    }
)
THIRD_PARTY = frozenset(
    {
        "aiohttp",
        "dns",
        "httpx2",
        "lightkube",
        "prometheus_client",
        "pydantic",
        "pydantic_settings",
        "yaml",
        "zstandard",
    }
)
SEEING = ".detectors.floor .detectors.plunge .detectors.level .detectors.shape .detectors.trend"
# HTML is written in these two words.
VOCABULARY = frozenset({"monitor.web.markup"})

# Room → the rooms that it may import, annotations included; every room stands below those that it names, so
# that no arrow goes up. A module belongs to the longest name that fits.
ROOMS: dict[str, frozenset[str]] = {
    name: frozenset(f"core.{each[1:]}" if each.startswith(".") else each for each in allowed.split())
    for name, allowed in (
        ("core.vocabulary", ""),
        ("core.tables", ""),
        ("core.pages.passes", ""),
        ("core.pages.exposition", ".pages.passes"),
        ("core.pages.engines", ".pages.passes .pages.exposition"),
        ("core.pages", ".pages.passes .pages.exposition .pages.engines"),
        ("core.counts", ".pages.engines"),
        ("core.detectors.base", ".vocabulary"),
        ("core.detectors.measures", ".pages.engines .counts .detectors.base"),
        ("core.detectors.floor", ".detectors.base .detectors.measures"),
        ("core.detectors.plunge", ".detectors.base .detectors.measures"),
        ("core.detectors.level", ".detectors.base .detectors.measures"),
        ("core.detectors.shape", ".detectors.base .detectors.measures"),
        ("core.detectors.trend", ".detectors.base .detectors.measures"),
        ("core.detectors.sightings", ".detectors.base .detectors.shape"),
        (
            "core.detectors.troubles",
            ".vocabulary .detectors.base .detectors.measures .detectors.sightings " + SEEING,
        ),
        (
            "core.detectors",
            ".pages.engines .counts .detectors.base .detectors.measures .detectors.sightings "
            ".detectors.troubles " + SEEING,
        ),
        (
            "core.fleet",
            (
                ".vocabulary .tables .counts .detectors.base .detectors.measures .detectors.floor .detectors.plunge "
                ".detectors.level .detectors.shape .detectors.sightings .detectors.troubles"
            ),
        ),
        ("core.economics", ".pages.engines .counts .detectors.base .detectors.measures"),
        ("core.events.attribution", ".vocabulary .pages.engines .counts"),
        ("core.events", ".vocabulary .pages .detectors.base .fleet .economics .events.attribution"),
        (
            "core.streams",
            (
                ".vocabulary .tables .pages .pages.engines .counts .detectors .detectors.base "
                ".detectors.measures .fleet .economics .events .events.attribution"
            ),
        ),
        (
            "core.pipeline",
            ".economics .tables .pages .pages.engines .counts .detectors .events .events.attribution .streams",
        ),
        ("metrics", ""),
        ("settings", ".vocabulary .pages.engines"),
        ("sources", ".pages .pages.engines metrics"),
        ("sources.discovery", ".pages.engines metrics settings sources"),
        ("store", ".events .streams metrics"),
        ("web", ".vocabulary .economics metrics"),
        ("web.door", "settings web"),
        ("notify", ".vocabulary metrics sources web"),
        ("service.demo", ".vocabulary .pages .pages.engines .events .streams .pipeline store web"),
        (
            "service",
            (
                ".vocabulary .pages .pages.engines .counts .detectors .events .economics .streams .pipeline "
                "metrics settings sources sources.discovery store web notify"
            ),
        ),
        (
            "service.commands",
            (
                ".vocabulary .pages .pages.exposition .pages.engines .detectors .economics .events .streams "
                ".pipeline settings sources sources.discovery store web web.door notify service.demo service"
            ),
        ),
        ("__main__", "service.commands"),
    )
}

# Library → the one part that knows it, in one module or two.
ONLY_IN = {
    "bcrypt": {"web"},
    "dns": {"sources"},
    "httpx2": {"sources"},
    "lightkube": {"sources"},
    "pydantic": {"settings", "web"},
    "pydantic_settings": {"settings"},
    "sqlite3": {"store"},
    "yaml": {"settings"},
}

VAGUE = frozenset({"utils", "util", "helpers", "helper", "common", "models", "types", "misc", "base_utils"})
LONGEST_FILE = 400
LONGEST_FUNCTION = 40


@dataclass(frozen=True, slots=True)
class Import:
    """One import: of `module`, or of `name` from it; `typing` where for annotations only."""

    module: str
    name: str | None
    line: int
    typing: bool

    @property
    def target(self) -> str:
        """The module that is meant: `monitor.core.events` also for `from monitor.core import events`."""
        whole = f"{self.module}.{self.name}"
        return whole if whole in modules() else self.module


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted((ROOT / "monitor").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(path: Path) -> tuple[Import, ...]:
    """Every import of a file, those inside functions too."""
    return tuple(_imports(ast.parse(path.read_text()), typing=False))


def _imports(node: ast.AST, *, typing: bool) -> list[Import]:
    found: list[Import] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            found += [Import(alias.name, None, child.lineno, typing) for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            found += [Import(child.module or "", alias.name, child.lineno, typing) for alias in child.names]
        else:
            guarded = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            found += _imports(child, typing=typing or guarded)
    return found


def part(module: str) -> str:
    """The part of the package that a module belongs to: `web` for `monitor.web.charts`."""
    steps = module.split(".")
    return steps[1] if len(steps) > 1 else ""


def is_core(module: str) -> bool:
    """Whether a module of the package is bound by the core's rules."""
    return part(module) == "core"


def broken(rule: object) -> str:
    """The message of a failed rule: one line per place."""
    return "\n".join(rule) if isinstance(rule, list) else str(rule)


def test_the_core_does_no_input_or_output() -> None:
    """The core imports, of what is not ours, numpy and pure parts of the standard library only."""
    found = [
        f"{module}:{each.line} imports {each.module}"
        for module, path in modules().items()
        if is_core(module)
        for each in imports(path)
        if {each.module, each.module.split(".")[0]} & (OUTSIDE | THIRD_PARTY) and not each.typing
    ]
    assert not found, broken(found)


def room(module: str) -> str:
    """The room of a module: the longest name of `ROOMS` that it is, or is in; empty for the package itself."""
    inside = module.removeprefix("monitor").removeprefix(".")
    fitting = [name for name in ROOMS if inside == name or inside.startswith(f"{name}.")]
    return max(fitting, key=len, default="")


def test_every_module_has_a_room() -> None:
    """A new module is in a room of the table; only the two packages around the rooms are in none."""
    assert [name for name in modules() if not room(name)] == ["monitor", "monitor.core"]


def test_no_room_knows_one_above_it() -> None:
    """In the order of the table every room may import earlier ones only."""
    order = list(ROOMS)
    found = [
        f"{name} may import {each}, which is above it"
        for name, allowed in ROOMS.items()
        for each in allowed
        if order.index(each) >= order.index(name)
    ]
    assert not found, broken(found)


def test_rooms_import_what_the_table_lets_them() -> None:
    """A module imports its own room and those that the table names, in annotations too."""
    found = [
        f"{module}:{each.line} imports {each.target}"
        for module, path in modules().items()
        for each in imports(path)
        if each.module.split(".")[0] == "monitor"
        and room(each.target) not in ROOMS.get(room(module), frozenset()) | {room(module), ""}
    ]
    assert not found, broken(found)


def test_the_table_allows_nothing_that_nobody_uses() -> None:
    """Each arrow of the table is there for an import."""
    used = {
        (room(module), room(each.target))
        for module, path in modules().items()
        for each in imports(path)
        if each.module.split(".")[0] == "monitor"
    }
    found = [
        f"{name} → {each}" for name, allowed in ROOMS.items() for each in allowed if (name, each) not in used
    ]
    assert not found, broken(found)


def test_the_door_shows_the_rooms() -> None:
    """`ls monitor` shows at most twelve entries, and the map names each room."""
    shown = sorted(path.name for path in (ROOT / "monitor").iterdir() if path.name != "__pycache__")
    assert len(shown) <= 12, shown
    guide = (ROOT / "monitor" / "README.md").read_text()
    missing = [
        name
        for name in ROOMS
        if f"`{name.replace('.', '/')}`" not in guide and f"`{name.rsplit('.', 1)[-1]}`" not in guide
    ]
    assert not missing, missing


@pytest.mark.parametrize(("library", "owners"), ONLY_IN.items(), ids=ONLY_IN)
def test_one_part_knows_a_library(library: str, owners: set[str]) -> None:
    """A library with weight is imported by one part only, so that it can be left out or replaced."""
    found = [
        f"{module}:{each.line}"
        for module, path in modules().items()
        if part(module) not in owners
        for each in imports(path)
        if each.module.split(".")[0] == library and not each.typing
    ]
    assert not found, broken(found)


def test_imports_make_no_circle() -> None:
    """The modules can be put in an order in which each imports earlier ones only."""
    left = {
        module: {each.target for each in imports(path) if each.target in modules()} - {module}
        for module, path in modules().items()
    }
    # A package's __init__ is imported with each of its modules; that is no choice of theirs.
    for module, needs in left.items():
        needs.difference_update({name for name in needs if module.startswith(f"{name}.")})
    while ready := [module for module, needs in left.items() if not needs & left.keys()]:
        for module in ready:
            del left[module]
    assert not left, f"a circle among {sorted(left)}"


def test_modules_are_imported_not_their_functions() -> None:
    """Inside the package a call reads `deltas.between(…)`; records and constants are imported by name."""
    found = [
        f"{module}:{each.line} takes {each.name} from {each.module}"
        for module, path in modules().items()
        for each in imports(path)
        if each.module.startswith("monitor")
        and each.name is not None
        and each.target == each.module
        and each.module not in VOCABULARY
        and each.name.lstrip("_")[:1].islower()
    ]
    assert not found, broken(found)


def test_names_say_something() -> None:
    """No module is called utils or the like."""
    found = [module for module in modules() if VAGUE & set(module.split("."))]
    assert not found, broken(found)


def _sources() -> list[Path]:
    fixtures = ROOT / "tests" / "fixtures"
    files = [*(ROOT / "monitor").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    return [path for path in sorted(files) if not path.is_relative_to(fixtures)]


def test_files_stay_short() -> None:
    """No file is longer than 400 lines."""
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in _sources()}
    found = [f"{path}: {lines} lines" for path, lines in lengths.items() if lines > LONGEST_FILE]
    assert not found, broken(found)


def test_functions_stay_short() -> None:
    """No function is longer than 40 lines, its docstring aside."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {_length(node)} lines"
        for path in _sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _length(node) > LONGEST_FUNCTION
    ]
    assert not found, broken(found)


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    first = node.body[0]
    documented = ast.get_docstring(node, clean=False) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
    return (node.end_lineno or node.lineno) - node.lineno + 1 - docstring


def test_the_type_checker_has_the_same_core() -> None:
    """All of the package is checked strictly, and the core says Any nowhere."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert config["strict"]
    (core,) = [each for each in config["overrides"] if each.get("disallow_any_explicit")]
    assert core["module"] == "monitor.core.*"
