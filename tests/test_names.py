"""A name of the package means one thing."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "monitor"

# Rooms whose modules are called after what they set, run or show, which has that name elsewhere.
NAMED_AFTER = (PACKAGE / "settings", PACKAGE / "service" / "commands", PACKAGE / "web" / "screens")
# Module names that each package may have once: what its other modules are made of, its main part.
ROLES = frozenset({"__init__", "__main__", "base", "service"})


def files() -> list[Path]:
    """The modules of the package."""
    return sorted(PACKAGE.rglob("*.py"))


def test_a_class_name_means_one_thing() -> None:
    """No two classes or literal types have one name, private ones within one module aside."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in files():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
            elif isinstance(node, ast.Assign) and _is_literal(node.value):
                for target in node.targets:
                    found[ast.unparse(target)].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert not twice, f"expected a name of its own for each: {twice}"


def _is_literal(value: ast.expr) -> bool:
    return isinstance(value, ast.Subscript) and ast.unparse(value.value) == "Literal"


def test_a_module_name_means_one_thing() -> None:
    """No two modules or packages have one name, unless one is called after the other."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in files():
        name = path.parent.name if path.stem == "__init__" else path.stem
        if path.parent not in NAMED_AFTER and name not in ROLES:
            found[name].append(path.relative_to(PACKAGE))
    twice = {name: places for name, places in found.items() if len(places) > 1}
    assert not twice, f"expected a name of its own for each: {twice}"


def test_parameters_are_nouns() -> None:
    """No parameter is called by a mere preposition or verb, whose unit or meaning the reader would guess."""
    vague = {"about", "at", "into", "it", "of", "on", "over", "said", "that", "what", "which"}
    found = [
        f"{path.relative_to(PACKAGE)}:{each.lineno} {each.arg}"
        for path in files()
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.arg) and each.arg in vague
    ]
    assert not found, f"expected nouns such as `now`, `times`, `rows`, `enabled`: {found}"
