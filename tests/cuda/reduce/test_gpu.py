"""Memory-bound kernels on a device: ragged extents, every dtype, poisoned results."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.support.dtypes import BFLOAT16

pytestmark = pytest.mark.cuda

RNG = np.random.default_rng(0)
TOLERANCE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-13}


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def put(x):
    return nf.array(x, device="cuda:0")


def close(found, expected, dtype):
    found = nf.to_numpy(found).astype(np.float64)
    tolerance = TOLERANCE[np.dtype(dtype).name]
    np.testing.assert_allclose(found, expected, rtol=tolerance,
                               atol=tolerance*np.abs(expected).max(initial=1e-3))


DTYPES = [np.float16, BFLOAT16, np.float32, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 8, 2047, 2048, 2049, 4095, 4096, 4099, 100_003])
def test_nothing_beyond_the_result_is_written(size, dtype):
    x = normal(size + 9, dtype=dtype)
    whole = put(np.full(size + 16, 7, dtype))
    for start in (0, 1, 8):
        ops.swish(put(x)[start:start + size], out=whole[8:8 + size])
        wide = x[start:start + size].astype(np.float64)
        close(whole[8:8 + size], wide/(1 + np.exp(-wide)), dtype)
        ends = nf.to_numpy(whole).astype(np.float64)
        assert (ends[:8] == 7).all()
        assert (ends[8 + size:] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_values_of_swish(dtype):
    top = {"float16": 60000.0}.get(np.dtype(dtype).name, 1e38)
    x = np.array([top, -top, 88, -88, 90, -90, 0, -0.0, np.inf, np.nan] * 3, dtype)
    found = nf.to_numpy(ops.swish(put(x))).astype(np.float64)
    with np.errstate(over="ignore"):
        wide = x.astype(np.float64)
        expected = wide/(1 + np.exp(-wide))
    small = float(np.finfo(np.float16 if np.dtype(dtype) == np.float16
                           else np.float32).tiny)
    np.testing.assert_allclose(found, expected, atol=4*small,
                               rtol=TOLERANCE[np.dtype(dtype).name])


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16])
def test_division_of_16_bits_over_its_whole_range(dtype):
    bits = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    a = bits[np.isfinite(bits.astype(np.float32))]
    b = RNG.permutation(a)
    with np.errstate(all="ignore"):
        expected = (a.astype(np.float64)/b.astype(np.float64)).astype(dtype)
    found = nf.to_numpy(ops.divide(put(a), put(b)))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    number = ~np.isnan(expected)
    steps = ordered(found[number]) - ordered(expected[number])
    assert np.abs(steps).max() <= 1


def ordered(x):
    """Integers in the order of the 16-bit floats, one for each."""
    bits = x.view(np.int16).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


SHAPES = [(64, 64), (65, 127), (200, 33), (16, 4000), (1000, 1024)]


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, BFLOAT16, np.float32,
                                   np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", SHAPES)
def test_inputs_that_lie_across(shape, dtype):
    x, y = (RNG.integers(-9, 9, s).astype(dtype) for s in (shape, shape[::-1]))
    function, expected = (ops.not_equal, y != x.T) if dtype == np.bool_ else (
        ops.add, x.T + y)
    whole = put(np.zeros((shape[1] + 2, shape[0]), dtype))
    function(put(x).T, put(y), out=whole[1:-1])
    found = nf.to_numpy(whole)
    np.testing.assert_array_equal(found[1:-1], expected.astype(found.dtype))
    assert not found[0].any()
    assert not found[-1].any()


def turned(x, *axes):
    """A view: CuPy's arrays have a method for it, a `DeviceArray` has none."""
    return ops.transpose(x, axes)


def test_inputs_that_lie_across_other_loops():
    x, y = normal(70, 3, 90), normal(3, 90, 70)
    close(ops.add(turned(put(x), 1, 2, 0), put(y)), x.transpose(1, 2, 0) + y, "f4")
    close(ops.add(turned(put(x), 2, 1, 0), put(y[:, 0, :])),
          x.transpose(2, 1, 0) + y[:, 0, :], "f4")
    result = put(np.full((70, 3, 90), np.nan, np.float32))
    ops.add(put(y), turned(put(x), 1, 2, 0), out=turned(result, 1, 2, 0))
    close(result, x + y.transpose(2, 0, 1), "f4")


REDUCED = [(1, 1), (1, 100_003), (3, 4097), (8191, 130), (130, 8191), (4096, 33),
           (2, 3_000_001), (3_000_001, 2), (20_000, 64), (64, 20_000), (513, 4096)]


@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32, np.float64])
@pytest.mark.parametrize("shape", REDUCED)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_of_ragged_extents(shape, axis, dtype):
    x = np.abs(normal(*shape, dtype=dtype))
    expected = np.sqrt(np.square(x.astype(np.float64)).sum(axis))
    close(ops.norm(put(x), axis=axis), expected, dtype)
    total = ops.sum(put(x), axis=axis, dtype=np.float64)
    close(total, x.astype(np.float64).sum(axis), "float64")


@pytest.mark.parametrize("start", [0, 1, 4])
def test_reductions_of_views(start):
    x = normal(301, 515)
    y = put(x)[:, start:]
    for axis in (0, 1, None):
        close(ops.sum(ops.square(y), axis=axis),
              np.square(x[:, start:].astype("f8")).sum(axis), "f4")
        np.testing.assert_array_equal(nf.to_numpy(ops.argmax(y, axis=axis)),
                                      x[:, start:].argmax(axis))
        close(ops.var(y, axis=axis), x[:, start:].var(axis, dtype="f8"), "f4")


def test_the_same_bits_along_every_axis():
    y = put(normal(5000, 1300))
    for axis in (0, 1, None):
        found = {nf.to_numpy(ops.sum(y, axis=axis)).tobytes() for _ in range(8)}
        assert len(found) == 1
