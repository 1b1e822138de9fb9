"""Docstrings: their examples run, and their first lines stand alone.

``python tests/test_docstrings.py SEED`` draws fifty, by name and first line, to be
judged as a stranger would: does it say what the thing is or does?
"""

from __future__ import annotations

import ast
import doctest
import pkgutil
import random
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import nbfused as nf
from nbfused import public as front
from nbfused.scalar.language.vocabulary import Op

ROOT = Path(nf.__file__).parent

#: How no first line begins: it would be a fragment of the name, or a riddle.
OPENINGS = re.compile(
    r"(Of|What|Which|That|Those|Who|How|Why|Whether it|Where|As|For|See|Its?)\b")

PACKAGES = ("arrays", "autograd", "kernels", "op", "ops", "scalar", "testing")


def modules() -> Iterator[ModuleType]:
    """The package itself, its own modules, and the packages that users read of."""
    yield nf
    for entry in pkgutil.iter_modules(nf.__path__, "nbfused."):
        if not entry.ispkg and entry.name != "nbfused.__main__":
            yield import_module(entry.name)
    for package in PACKAGES:
        found = import_module(f"nbfused.{package}")
        yield found
        for entry in pkgutil.iter_modules(found.__path__, f"{found.__name__}."):
            yield import_module(entry.name)


def examples(module: ModuleType) -> list[doctest.DocTest]:
    """The docstrings of a module that have examples."""
    return [t for t in doctest.DocTestFinder().find(module) if t.examples]


CASES = [pytest.param(test, id=test.name) for m in modules() for test in examples(m)]


@pytest.mark.parametrize("test", CASES)
def test_example(test: doctest.DocTest) -> None:
    report: list[str] = []
    with nf.use_backend("cpu"):
        found = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not found.failed, "".join(report)


def test_there_are_examples() -> None:
    """The finder sees through decorators: rows, elementwise ops, functions, classes."""
    found = {case.id for case in CASES}
    assert {"nbfused.ops.normalization.softmax", "nbfused.ops.activations.swish",
            "nbfused.ops.matmul.matmul", "nbfused.op.row.row"} <= found


def test_every_public_name_says_what_it_is() -> None:
    """Of its own: `help` of an operation was that of the class of all of them."""
    for name in {*nf.__all__, *front.__all__} - {"__version__"}:
        found = getattr(nf, name)
        assert found.__doc__, name
        assert not isinstance(found, Op) or found.__doc__ != Op.__doc__, name


def first_lines() -> Iterator[tuple[str, str]]:
    """The dotted name and the first line of every docstring in the package."""
    def walk(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield name, text.splitlines()[0]
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):  # most of a tree, without a docstring
                continue
            yield from walk(child, f"{name}.{child.name}" if isinstance(
                child, (ast.ClassDef, ast.FunctionDef)) else name)

    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield from walk(ast.parse(path.read_text()), ".".join(
            parts[:-1] if parts[-1] == "__init__" else parts) or "nbfused")


def test_first_lines_stand_alone() -> None:
    assert not [f"{name}: {line}" for name, line in first_lines()
                if OPENINGS.match(line)]


if __name__ == "__main__":
    drawn = random.Random(int(sys.argv[1])).sample([*first_lines()], 50)
    print("\n".join(f"{name}: {line}" for name, line in drawn))
