"""Every function of NumPy on arrays is composed, computed by a library, or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbfused.autograd.numpy_api.ufuncs import ufunc_operation
from nbfused.numpy_functions.refused import REFUSED
from nbfused.registry.operations import NUMPY

PAGE = Path(__file__).parents[2] / "docs/reference/numpy.md"


def functions() -> Iterator[tuple[str, Any]]:
    """NumPy's functions that arrays of other types can take over, by name."""
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in dir(module):
            found = getattr(module, name)
            if not name.startswith("_") and (isinstance(found, np.ufunc)
                                             or hasattr(found, "_implementation")):
                yield prefix + name, found


def implemented(name: str, function: Any) -> bool:
    if isinstance(function, np.ufunc):
        return ufunc_operation(function, "__call__") is not None
    return NUMPY.get(f"{function.__module__}.{function.__name__}") is not None


FOUND = dict(functions())
THERE = {name for name, function in FOUND.items() if implemented(name, function)}


def test_nothing_is_forgotten():
    """A function that a later NumPy adds is found here, too."""
    assert sorted(FOUND.keys() - THERE) == []


def test_nine_of_ten_are_there():
    computed = THERE - REFUSED.keys()
    print(len(computed), "of", len(FOUND), "functions; refused:", sorted(
        REFUSED.keys() & FOUND.keys()))
    assert len(computed) >= 0.9 * len(FOUND)


def test_the_page_lists_them():
    """All of them, and those that are refused as such."""
    if not PAGE.exists():
        pytest.skip("the documents are not installed")
    there, _, refused = PAGE.read_text().partition("## Refused")
    assert {n for n in THERE - REFUSED.keys() if f"`{n}`" not in there} == set()
    assert {n for n in REFUSED if f"`{n}`" not in refused} == set()
    shown = set(re.findall(r"`([\w.]+)`", there.partition("## Composed")[2]))
    assert {n for n in shown if n in REFUSED} == set()
