"""Every free number of what detects says what it is: value, unit, meaning, and what it was chosen by."""

from __future__ import annotations

import ast
import re
from typing import TypeGuard

from tests import test_architecture


def test_every_number_of_detectors_and_fleet_says_what_it_is() -> None:
    """A named number has its unit, meaning and origin in a docstring below it or a comment beside or above it."""
    found = []
    for module, path in test_architecture.modules().items():
        if test_architecture.room(module).startswith(("core.detectors", "core.fleet")):
            lines, body = path.read_text().splitlines(), ast.parse(path.read_text()).body
            for node, after in zip(body, [*body[1:], None], strict=True):
                if _is_number(node) and not (_is_docstring(after) or _has_comment(lines, node)):
                    found.append(f"{module}:{node.lineno} {lines[node.lineno - 1]}")
    assert not found, test_architecture.broken(found)


def _is_number(node: ast.stmt) -> bool:
    """Whether a statement gives numbers a name in capitals; fields of tables say what they are by themselves."""
    if not isinstance(node, ast.Assign):
        return False
    first = _first_name(node.targets[0])
    numbers = (each for each in ast.walk(node.value) if isinstance(each, ast.Constant))
    named = first.isupper() and not first.endswith(("DTYPE", "FIELDS"))
    return named and any(type(each.value) in (int, float) for each in numbers)


def _first_name(target: ast.expr) -> str:
    first = target.elts[0] if isinstance(target, ast.Tuple) else target
    return first.id if isinstance(first, ast.Name) else ""


def _is_docstring(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _has_comment(lines: list[str], node: ast.stmt) -> bool:
    last = lines[(node.end_lineno or node.lineno) - 1]
    return "  # " in last or lines[node.lineno - 2].startswith("#")


def test_every_field_says_what_it_is() -> None:
    """A field of a structured array has a comment beside it: its meaning, and its unit where it has one."""
    found = []
    for module, path in test_architecture.modules().items():
        if test_architecture.room(module).startswith("core"):
            lines = path.read_text().splitlines()
            fields = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if _is_field(node)]
            bare = [number for number in fields if "  # " not in lines[number - 1]]
            found += [f"{module}:{number} {lines[number - 1].strip()}" for number in bare]
    assert not found, test_architecture.broken(found)


def _is_field(node: ast.AST) -> TypeGuard[ast.Tuple]:
    """Whether this is the (name, format) of a field, with or without a shape."""
    if not isinstance(node, ast.Tuple) or not 1 < len(node.elts) <= len(("name", "format", "shape")):
        return False
    texts = [each.value for each in node.elts[:2] if isinstance(each, ast.Constant)]
    return len(texts) > 1 and re.fullmatch(r"\?|[fiu]\d", str(texts[1])) is not None
