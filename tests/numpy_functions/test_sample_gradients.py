"""Gradients of samples through functions of the library, differentiated once more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import nbfused as nf

pytestmark = [pytest.mark.interpreted,
              pytest.mark.filterwarnings("ignore::nbfused.errors.NbFusedWarning")]

SAMPLES = np.array([[0.1, 0.7, 0.4, 1.3], [-0.6, 0.9, 0.3, -0.2],
                    [0.8, 0.5, -1.1, 0.6]])
WEIGHTS = np.array([[1.0, -0.5, 0.3, 2.0], [0.7, 0.1, -1.2, 0.4],
                    [0.2, 1.1, 0.9, -0.8]])


def _matrix(x: Any) -> Any:
    return np.outer(x, x) + np.diag(np.arange(1.0, 5.0))


FUNCTIONS = {
    "cumsum": lambda x: np.cumsum(x * x), "cumprod": np.cumprod, "sort": np.sort,
    "median": lambda x: np.median(x**3), "inv": lambda x: np.linalg.inv(_matrix(x)),
    "solve": lambda x: np.linalg.solve(_matrix(x), x),
    "det": lambda x: np.linalg.det(_matrix(x)),
    "eigvalsh": lambda x: np.linalg.eigvalsh(_matrix(x)),
    "fft": lambda x: abs(np.fft.fft(x + 0.3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_are_seen_outside_of_vmap(name):
    def loss(x):
        return (FUNCTIONS[name](x)**2).sum()

    def penalty(samples):
        return (nf.vmap(nf.grad(loss))(samples) * WEIGHTS).sum()

    def alone(samples):  # sample by sample, by differences
        step = 1e-5 * WEIGHTS
        return np.array([(nf.grad(loss)(x + w) - nf.grad(loss)(x - w)) / 2e-5
                         for x, w in zip(samples, step, strict=True)])

    expected = alone(SAMPLES)
    for gradient in (nf.grad(penalty), nf.fuse(nf.grad(penalty)),
                     nf.grad(nf.fuse(penalty))):
        assert_allclose(gradient(SAMPLES), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_samples_are_fused(name):
    def loss(x):
        return (FUNCTIONS[name](x)**2).sum()

    expected = [nf.grad(loss)(x) for x in SAMPLES]
    assert_allclose(nf.fuse(nf.vmap(nf.grad(loss)))(SAMPLES), expected, rtol=1e-10)
