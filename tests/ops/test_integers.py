"""Integers where floating point is meant: they would wrap around."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.errors import KernelTypeError
from tests.variants import sampled

pytestmark = pytest.mark.interpreted

INTEGERS = ["int8", "uint8", "int16", "int32", "uint32", "int64", "bool"]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("call", [
    ops.softmax, ops.log_softmax, ops.rms_norm,
    lambda x: ops.add_rms_norm(x, x.astype("float32")),
    lambda x: ops.add_rms_norm(x.astype("float32"), x),
    lambda x: ops.cross_entropy(x, np.zeros(2, np.int64))])
def test_rows_take_no_integers(call, dtype):
    with pytest.raises(KernelTypeError, match=f"real and floating, got dtype {dtype};"):
        call(np.ones((2, 3), dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("ord", sampled([1, 2, float("inf")], 1))
def test_norms_of_integers_are_numpys(dtype, ord):
    info = np.array([0, 1] if dtype == "bool" else
                    [np.iinfo(dtype).min, np.iinfo(dtype).max])
    x = np.tile(info.astype(dtype), 3)
    got, want = ops.norm(x, ord), np.linalg.norm(x.astype(float), ord)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=1e-15)


def test_hard_swish_does_not_wrap_around():
    got = ops.hard_swish(np.array([127, -128, 3, -1], np.int8))
    np.testing.assert_allclose(got, [127, 0, 3, -1 / 3])


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("mean", [
    ops.mean, lambda x, axis: nf.Variable(x).mean(axis).data])
@pytest.mark.parametrize("axis", [None, 0, (0, 1)], ids=str)
def test_means_of_long_integers_do_not_wrap_around(mean, axis, dtype):
    x = np.full((3, 4), np.iinfo(dtype).max)
    got = mean(x, axis)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, np.mean(x, axis), rtol=1e-15)


def test_fused_means_of_long_integers_do_not_wrap_around():
    x = np.full((3, 4), np.iinfo("int64").max)
    np.testing.assert_allclose(nf.fuse(lambda x: x.mean(0))(x), x.mean(0), rtol=1e-15)


@pytest.mark.parametrize("ddof", [6, 9])
@pytest.mark.parametrize("name", ["var", "std"])
def test_no_negative_degrees_of_freedom(name, ddof):
    x = np.stack([np.arange(6.0), np.ones(6)])
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning):
        want = getattr(np, name)(x, axis=1, ddof=ddof)
    np.testing.assert_array_equal(getattr(ops, name)(x, axis=1, ddof=ddof), want)
    np.testing.assert_array_equal(want, [np.inf, np.nan])
