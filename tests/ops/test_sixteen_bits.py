"""Reductions of 16-bit floats whose state is more than their dtype can hold."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from tests.variants import sampled


@pytest.mark.parametrize("dtype", sampled(
    ["float16", ml_dtypes.bfloat16], "float16"), ids=str)
@pytest.mark.parametrize(("name", "n", "scale"), [
    ("norm", 3000, 20.0), ("var", 300, 150.0), ("std", 300, 150.0)])
def test_gradients_read_the_sum_of_squares_in_float32(name, n, scale, dtype, device):
    x = (np.random.default_rng(0).normal(size=n) * scale).astype(dtype)
    wide = x.astype(np.float64)
    centred = wide if name == "norm" else wide - wide.mean()
    assert (centred @ centred) > 65504
    wanted = {"norm": centred / np.linalg.norm(wide), "var": 2 * centred / n,
              "std": centred / n / wide.std()}[name]
    v = nf.Variable(nf.array(x, device=device), requires_grad=True)
    getattr(nf.ops, name)(v).backward()
    found = nf.to_numpy(v.grad).astype(np.float64)
    np.testing.assert_allclose(found, wanted, rtol=2e-2, atol=1e-6)
