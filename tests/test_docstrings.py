"""The examples in docstrings run, and print what they say."""

from __future__ import annotations

import doctest
import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

import nbfused as nf
from nbfused import front
from nbfused.scalar.vocabulary import Op

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
