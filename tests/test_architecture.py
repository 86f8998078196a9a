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
        "scipy",
        "yaml",
        "zstandard",
    }
)
# HTML is written in these two words.
VOCABULARY = frozenset({"monitor.web.markup"})

# Part → the parts it must not know. A part that is not named may use all of the package but FRONT.
FRONT = frozenset({"__main__", "commands"})
STRANGERS = {
    "web": frozenset({"sources", "store", "demo", "discovery", "notify", "service", "settings"}),
    "sources": frozenset({"web", "store", "demo", "metrics", "notify", "service"}),
    "store": frozenset({"web", "sources", "demo", "discovery", "metrics", "notify", "service"}),
    "settings": frozenset({"web", "sources", "store", "demo", "discovery", "metrics", "notify", "service"}),
    "metrics": frozenset({"web", "sources", "store", "demo", "discovery", "notify", "service"}),
    "demo": frozenset({"web", "sources", "store", "metrics", "notify", "service"}),
    "notify": frozenset({"store", "demo", "discovery", "metrics", "service", "settings"}),
}

# Library → the one part that knows it, in one module or two.
ONLY_IN = {
    "dns": {"discovery"},
    "httpx2": {"discovery"},
    "lightkube": {"discovery"},
    "pydantic": {"settings"},
    "pydantic_settings": {"settings"},
    "sqlite3": {"store", "storefile"},
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


def test_the_core_knows_nothing_of_the_shell() -> None:
    """A core module imports core modules only, in annotations too."""
    found = [
        f"{module}:{each.line} imports {each.target}"
        for module, path in modules().items()
        if is_core(module)
        for each in imports(path)
        if each.module.split(".")[0] == "monitor" and not is_core(each.target)
    ]
    assert not found, broken(found)


def test_the_parts_of_the_shell_do_not_know_each_other() -> None:
    """Parts of the shell meet in the service and the commands, not in each other."""
    found = [
        f"{module}:{each.line} imports {each.target}"
        for module, path in modules().items()
        for each in imports(path)
        if part(each.target) in STRANGERS.get(part(module), frozenset()) and each.module.startswith("monitor")
    ]
    assert not found, broken(found)


def test_only_the_front_knows_the_front() -> None:
    """Nothing but the command line imports the command line."""
    found = [
        f"{module}:{each.line} imports {each.target}"
        for module, path in modules().items()
        if part(module) not in FRONT
        for each in imports(path)
        if each.module.startswith("monitor") and part(each.target) in FRONT
    ]
    assert not found, broken(found)


def test_nothing_in_the_core_imports_its_composer() -> None:
    """`pipeline` joins the stages; no stage knows it."""
    found = [
        f"{module}:{each.line}"
        for module, path in modules().items()
        if is_core(module) and module != "monitor.core.pipeline"
        for each in imports(path)
        if each.target == "monitor.core.pipeline" and not each.typing
    ]
    assert not found, broken(found)


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
        module: {each.target for each in imports(path) if not each.typing and each.target in modules()}
        - {module}
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
