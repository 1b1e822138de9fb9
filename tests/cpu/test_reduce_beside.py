"""Reductions whose results lie side by side, along axes in the middle."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbfused import ops
from nbfused.cpu import reduce as reducing
from tests.variants import sampled

RNG = np.random.default_rng(6)
DTYPES = sampled(["float32", "float64", "float16", "bfloat16", "int32"], "float32")
#: Of results side by side, one vector or some, with an end or without.
SHAPES = [((300, 35, 26), 1), ((300, 35, 13), 1), ((90, 17, 8), 1), ((90, 3, 300), 1),
          ((2, 16, 1100), 1), ((9, 5, 7, 40), (0, 2)), ((5, 4, 3, 20), (1, 2)),
          ((40, 16), 0)]
FUNCTIONS = {"sum": np.sum, "max": np.max, "var": np.var,
             "norm": lambda x, axis: np.sqrt(np.square(x).sum(axis))}


def array(shape, dtype, strided):
    shape = (*shape[:-1], shape[-1]*(1 + strided))
    x = RNG.normal(scale=3, size=shape)
    return x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)[
        ..., ::1 + strided]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("strided", [False, True])
def test_is_numpys(name, shape, axis, dtype, strided):
    if name == "norm" and (dtype == "int32" or isinstance(axis, tuple)):
        pytest.skip("a norm has one axis and is floating")
    x = array(shape, dtype, strided)
    found = getattr(ops, name)(x, axis=axis)
    expected = FUNCTIONS[name](x.astype(float), axis=axis)
    eps = {2: 2e-2, 4: 2e-6, 8: 1e-14}[found.dtype.itemsize]
    np.testing.assert_allclose(found.astype(float), expected, rtol=eps, atol=eps*20)


@pytest.mark.parametrize("strided", [False, True])
def test_nan_and_infinities_stay_in_their_column(strided):
    x = array((70, 20, 24), "float32", strided)
    x[3, 4, 5], x[3, 4, 6], x[3, 5, 6] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(ops.sum(x, axis=1), x.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(ops.max(x, axis=1), x.max(1))


@pytest.mark.parametrize(("name", "shape", "steps", "across"), [
    ("sum", (90, 35, 26), 1, True), ("sum", (90, 35, 26), 2, True),
    ("var", (90, 35, 13), 1, True), ("max", (90, 35, 13), 2, False),
    ("sum", (90, 35, 26), 3, False), ("sum", (90, 2, 26), 1, False),
    ("sum", (90, 7, 13), 1, False), ("sum", (90, 35, 3), 1, False),
    ("logsumexp", (90, 35, 26), 1, False), ("argmax", (90, 35, 26), 1, False)])
def test_the_kernel_across_results_is_for_neighbours(monkeypatch, name, shape, steps,
                                                     across):
    found = []
    whole = reducing._Reduction._across

    def recorded(self, call, reduced):
        found.append(call.shape)
        return whole(self, call, reduced)

    monkeypatch.setattr(reducing._Reduction, "_across", recorded)
    x = array((*shape[:-1], shape[-1]*steps + 1), "float64", False)[
        ..., :shape[-1]*steps:steps]  # of a length that no other test has
    getattr(ops, name)(x, axis=1)
    assert (shape in [(s[0], s[2], s[1]) for s in found]) == across
