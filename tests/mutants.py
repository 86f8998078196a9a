"""Which flipped operators the tests of a module do not notice: `make mutants` (hours of work, so not in CI).

Every comparison, arithmetic or boolean operator and every number of a module is flipped, one at a time, and that
module's own tests run against it; a mutant that leaves them green is a survivor and is printed with its line.

    python -m tests.mutants [MODULE…] [--lines 10-40] [--jobs N]

The process imports the tests once and forks for each mutant, which redefines the module in place: a mutant costs
what the tests cost, not what their imports do. Annotations, docstrings and what only names things are left alone.
Comparisons are flipped to their opposite (`<` to `>=`), numbers are doubled, whole ones raised by one.

Survivors that were looked at and are no gap are listed beside the modules in `HARMLESS`, by their reason: guards
against a division by zero, numbers whose neighbours do as well, and what only saves time.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import io
import os
import re
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
LONGEST_SECONDS = 60
QUIETLY = (
    "--hypothesis-profile=mutants",
    "-q",
    "-x",
    "-p",
    "no:cacheprovider",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)

hypothesis.settings.register_profile(
    "mutants", deadline=None, max_examples=20, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate]
)

# Module → the tests that are its own.
TESTS = {
    "monitor.core.counts.deltas": (
        "tests/test_restarts.py",
        "tests/test_deltas.py",
        "tests/test_deltas_gauge.py",
    ),
    "monitor.core.counts.estimates": ("tests/test_intervals.py", "tests/test_estimates.py"),
    "monitor.core.counts.restarts": ("tests/test_restarts.py",),
    "monitor.core.events": ("tests/test_events.py",),
    "monitor.core.detectors.floor": ("tests/heart/test_floor.py",),
    "monitor.core.detectors.plunge": ("tests/heart/test_plunge.py",),
    "monitor.core.detectors.level": ("tests/heart/test_level.py",),
    "monitor.core.detectors.shape": ("tests/heart/test_shape.py",),
    "monitor.core.detectors.trend": ("tests/heart/test_trend.py",),
    "monitor.core.detectors.troubles": ("tests/heart/test_recovery.py",),
    "monitor.core.fleet.odd": ("tests/heart/test_odd.py",),
    "monitor.core.fleet.shared": ("tests/heart/test_shared.py",),
    "monitor.core.fleet.turns": ("tests/heart/test_turns.py",),
    "monitor.core.fleet.groupwise": ("tests/heart/test_groupwise.py",),
}

# A line of a survivor that was looked at → why it is no gap.
HARMLESS = {
    r"1e-9|_EPS|1e-3": "guards against a division by zero",
    r"if .*\.(any|all)\(": "only saves time: the rest comes to the same where nothing is to be done",
}

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One flip: `number` in the order of the module's places, and what it is."""

    number: int
    line: int
    text: str


def places(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the nodes that can be flipped, in order, with what flipping does."""
    for node in _code(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            flipped = COMPARISONS[type(node.ops[0])]
            yield node, f"{type(node.ops[0]).__name__} → {flipped.__name__}"
        elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in OPERATORS:
            yield node, f"{type(node.op).__name__} → {OPERATORS[type(node.op)].__name__}"
        elif isinstance(node, ast.BoolOp):
            yield node, "or → and" if isinstance(node.op, ast.Or) else "and → or"
        elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
            yield node, f"without {type(node.op).__name__}"
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, int | float)
            and not isinstance(node.value, bool)
        ):
            yield node, f"{node.value} → {_other(node.value)}"


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that compute something, in order: neither annotations nor what names fields."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _is_words(child):
                continue
            yield child
            yield from _code(child)


def _is_words(node: ast.AST) -> bool:
    """Whether a statement only names things: imports for the checker, fields of tables, kinds."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.Assign):
        return bool(re.search(r"DTYPE|FIELDS|__all__|Literal", ast.unparse(node)))
    return isinstance(node, ast.AnnAssign) and node.value is None


def _other(value: float) -> float:
    return value + 1 if isinstance(value, int) else value * 2 or 1.0


def flip(tree: ast.Module, number: int) -> ast.Module:
    """Return a module with one place flipped."""
    flipped = deepcopy(tree)
    node = next(each for at, (each, _) in enumerate(places(flipped)) if at == number)
    if isinstance(node, ast.Compare):
        node.ops[0] = COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd() if isinstance(node.op, ast.USub | ast.Invert) else _twice(node)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        node.value = _other(node.value)
    return ast.fix_missing_locations(flipped)


def _twice(node: ast.UnaryOp) -> ast.unaryop:
    """Return `not`, and put another one inside."""
    node.operand = ast.UnaryOp(ast.Not(), node.operand)
    return ast.Not()


def mutants(source: str, lines: range) -> list[Mutant]:
    """Return every mutant of a module's source that lies within these lines."""
    found = [
        Mutant(number, getattr(node, "lineno", 0), text)
        for number, (node, text) in enumerate(places(ast.parse(source)))
    ]
    return [mutant for mutant in found if mutant.line in lines]


def survives(module: str, source: str, mutant: Mutant) -> bool:
    """Return whether the module's tests are green with a mutant in its place, in a process of its own."""
    child = os.fork()
    if child == 0:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            os._exit(_tested(module, source, mutant))
    _, status = os.waitpid(child, 0)
    return status == 0


def _tested(module: str, source: str, mutant: Mutant) -> int:
    """Return 0 where the tests of a module are green with the mutant in its place."""
    signal.alarm(LONGEST_SECONDS)
    known = sys.modules[module]
    try:
        exec(compile(flip(ast.parse(source), mutant.number), str(known.__file__), "exec"), known.__dict__)  # noqa: S102
    except Exception:  # noqa: BLE001 — a module that cannot be imported is noticed
        return 1
    return int(pytest.main([*QUIETLY, *TESTS[module]]))


def survivors(module: str, lines: range, jobs: int) -> tuple[int, list[Mutant]]:
    """Return how many mutants a module has, and those that its tests do not notice."""
    source = Path(str(importlib.import_module(module).__file__)).read_text()
    with contextlib.redirect_stdout(io.StringIO()) as said:
        if pytest.main([*QUIETLY, *TESTS[module]]):
            raise SystemExit(f"the tests of {module} fail without a mutant\n{said.getvalue()}")
    every = mutants(source, lines)
    with ThreadPoolExecutor(jobs) as pool:
        alive = list(pool.map(partial(survives, module, source), every))
    return len(every), [mutant for mutant, lives in zip(every, alive, strict=True) if lives]


def _reason(line: str) -> str:
    return next((reason for words, reason in HARMLESS.items() if re.search(words, line)), "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Report the survivors of the modules that are named, or of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", help="a module, or the end of its name")
    parser.add_argument("--lines", default="1-9999", help="only mutants of these lines")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    asked = parser.parse_args(arguments)
    first, last = map(int, asked.lines.split("-"))
    for module in TESTS:
        if asked.modules and not any(module.endswith(name) for name in asked.modules):
            continue
        number, alive = survivors(module, range(first, last + 1), asked.jobs)
        source = Path(str(sys.modules[module].__file__)).read_text().splitlines()
        looked_at = [mutant for mutant in alive if _reason(source[mutant.line - 1])]
        print(
            f"{module}: {number} mutants, {len(alive)} survive, {len(looked_at)} of these looked at",
            flush=True,
        )
        for mutant in alive:
            if mutant not in looked_at:
                print(f"  {mutant.line}: {mutant.text:24} {source[mutant.line - 1].strip()}", flush=True)


if __name__ == "__main__":
    main()
