"""Results that are views of an argument or of another result, which may change."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import nbfused as nf

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedWarning")]


def _through(view: Any, change: Any) -> Any:
    """A function that changes an argument through a view, and returns the view."""
    def f(a):
        part = view(a)
        change(part)
        return part
    return f


def _double(x: Any) -> None:
    x *= 2


def _cap(x: Any) -> None:
    x[x > 20] = 5


def _shift(x: Any) -> None:
    x[1:] += x[:-1]


def _other_view(a):
    a.T[...] *= 2
    return np.fliplr(a)


def _after_a_shift(a):
    a[1:] += a[:-1]
    return a.reshape(-1, 2), a[0], a


def _of_what_is_computed(a):
    t = a * 2
    part = t[1:]
    part += 1
    return part, t.T, t


def _elements(a):
    row = a[0] * 2
    row[1] = 9
    return row[0], row[1], row


FUNCTIONS = {
    "reshape": _through(lambda a: a.reshape(-1, 6), _double),
    "transpose": _through(lambda a: a.T, _double),
    "slice": _through(lambda a: a[1:, ::2], _cap),
    "reversed": _through(lambda a: a[::-1], _double),
    "shifted": _through(lambda a: a[:, 1:], _shift),
    "ravel": _through(lambda a: a.ravel(), _shift),
    "other view": _other_view, "after a shift": _after_a_shift,
    "of what is computed": _of_what_is_computed, "elements": _elements,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_memory_is_shared_as_in_numpy(name):
    f = FUNCTIONS[name]
    fused = nf.fuse(f)
    for _ in range(4):  # traced, logged, by the plan
        a, b = np.arange(24.0).reshape(4, 6), np.arange(24.0).reshape(4, 6)
        found, expected = ((*x, y) if isinstance(x, tuple) else (x, y)
                           for x, y in ((fused(a), a), (f(b), b)))
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one, other)
        for i, j in combinations(range(len(found)), 2):
            assert np.shares_memory(found[i], found[j]) == \
                np.shares_memory(expected[i], expected[j])


def test_with_a_call_between_launches():
    @nf.fuse
    def f(a):
        a[1:] += np.sort(a, axis=0)[:-1]
        return a.T

    for _ in range(4):
        a = np.arange(24.0).reshape(4, 6)[::-1].copy()
        expected = a.copy()
        expected[1:] += np.sort(a, axis=0)[:-1]
        found = f(a)
        assert np.shares_memory(found, a)
        assert_array_equal(found, expected.T)
        assert_array_equal(a, expected)


def test_an_element_is_no_view_of_an_argument():
    first = nf.fuse(lambda x: (x[0], x[..., 1], x[:1]))
    for _ in range(4):
        x = np.arange(3.0)
        element, view, part = first(x)
        x[:] = 7
        assert [float(element), float(view), *part] == [0, 7, 7]
