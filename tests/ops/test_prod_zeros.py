"""Derivatives of `prod` where factors are zero: the product of the others."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import nbfused as nf


def partial(f, i):
    """The derivative of `f` in its i-th element."""
    return lambda x: nf.grad(f)(x)[i]


def without(x: list[float], indices: tuple[int, ...]) -> float:
    """The mixed derivative of a multilinear function, by leaving factors out."""
    if len(set(indices)) < len(indices):
        return 0.0
    return float(np.prod([v for k, v in enumerate(x) if k not in indices]))


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("x", [[0, 0, 3.0], [0, 0, 0, 3.0], [0, 2, 3.0], [1, 2, 3.0],
                               [0, 0, 0, 0, 5.0]], ids=str)
def test_every_mixed_derivative(x, order, device):
    for indices in product(range(len(x)), repeat=order):
        if list(indices) != sorted(indices):
            continue
        f = nf.ops.prod
        for i in indices:
            f = partial(f, i)
        got = float(nf.to_numpy(f(nf.array(np.array(x), device=device))))
        assert got == pytest.approx(without(x, indices), abs=1e-12), indices
