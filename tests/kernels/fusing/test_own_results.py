"""What functions give is an array of its own, however it was made: it may change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nbfused as nf

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedWarning")]

X = np.arange(12.0).reshape(3, 4)**1.5

FUNCTIONS = {
    "take": lambda x: np.take(x, [[0, 1], [-1, 0]], axis=0),
    "index": lambda x: x[np.array([[0, 1], [-1, 0]])],
    "ix_": lambda x: x[np.ix_([0, 2], [1, 2])], "kron": lambda x: np.kron(x, x),
    "roll": lambda x: np.roll(x, 1), "cross": lambda x: np.cross(x[:, :3], x[:, 1:]),
    "choose": lambda x: np.choose([[0, 1, 0, 1]] * 3, [x, -x]),
    "tensordot": lambda x: np.tensordot(x, x.T, 1),
}


def _by_transpose(y: Any) -> None:
    y.T[...] *= 2


def _by_swapped_rows(y: Any) -> None:
    y.swapaxes(0, -1)[1:] += 1


@pytest.mark.parametrize("change", [_by_transpose, _by_swapped_rows])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_is_changed_through_its_views(name, change):
    def f(x):
        y = FUNCTIONS[name](x)
        z = y * 2
        change(y)
        return y, z, x

    fused = nf.fuse(f)
    for _ in range(3):
        for found, expected in zip(fused(X.copy()), f(X.copy()), strict=True):
            assert_allclose(found, expected, rtol=1e-12)


def test_gradients_see_the_change():
    def f(x):
        y = np.take(x, [[0, 1], [-1, 0]], axis=0)
        y.T[...] *= 2
        return (y**2).sum()

    by_rows = 8 * X * np.array([2, 1, 1])[:, None]
    for gradient in (nf.fuse(nf.grad(f)), nf.grad(nf.fuse(f))):
        assert_allclose(gradient(X), by_rows, rtol=1e-12)
