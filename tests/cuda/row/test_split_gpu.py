"""Rows that many blocks share, on a device: odd shapes, every dtype, both ways."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.cuda.row.split import choice
from nbfused.cuda.runtime.driver import device
from nbfused.support.dtypes import BFLOAT16
from tests.cuda.row.split_rows import EPS, rows

pytestmark = pytest.mark.cuda

DTYPES = [np.float16, BFLOAT16, np.float32, np.float64]
#: Shapes and axes by the skeleton that the rules choose for them.
SPLIT = [((1, 1_000_003), 1), ((3, 300_007), 1), ((8, 1 << 18), 1),
         ((1031, 1033), 0), ((1024, 1040), 0), ((5, 257, 1021), 1),
         ((2, 3, 400_009), 2)]
THREAD = [((2, 21, 1 << 16), 1), ((9, 140_000), 0)]
MAP = [((1, 70_001), 0), ((3, 500, 1), 2), ((7, 140_000), 0), ((3, 3, 50_021), 1),
       ((5, 8, 1031), 1), ((2, 4, 1 << 14), 1)]


def put(x):
    return nf.array(np.ascontiguousarray(x), device="cuda:0")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axis"), SPLIT + THREAD + MAP)
def test_both_ways(shape, axis, dtype):
    eps = EPS[np.dtype(dtype).name]

    def compare(name, found, expected, scale):
        np.testing.assert_allclose(found, expected, rtol=32*eps, atol=32*eps*scale,
                                   err_msg=name)

    rows(compare, shape, axis, dtype, put)


@pytest.mark.parametrize("skeleton", ["split", "thread", "map"])
@pytest.mark.parametrize(("shape", "axis"), [
    ((1, 1), 1), ((1, 2), 0), ((17, 3), 0), ((3, 17), 0), ((2, 4099), 1), ((31, 64), 0),
    ((4, 5, 6), 1), ((513, 8), 0)])
def test_small_rows_by_every_skeleton(monkeypatch, skeleton, shape, axis):
    monkeypatch.setattr(choice, "RULES", (choice.Rule(
        skeleton, "forced", lambda f: f.unrolled if skeleton == "map" else not (
            f.sums and skeleton == "thread")),
        *choice.RULES))

    def compare(name, found, expected, scale):
        np.testing.assert_allclose(found, expected, rtol=4e-6, atol=4e-6*scale,
                                   err_msg=name)

    rows(compare, shape, axis, np.float32, put)


def views(x):
    """Views of an array of three dimensions, by NumPy and on the device."""
    there = put(x)
    return [(x[::2], there[::2]), (x[:, ::-1], there[:, ::-1]),
            (x[:, 1:, 3:], there[:, 1:, 3:]),
            (x.transpose(2, 0, 1), ops.transpose(there, (2, 0, 1)))]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_views_along_every_axis(monkeypatch, axis):
    monkeypatch.setattr(choice, "RULES", (
        choice.Rule("split", "forced", lambda f: True),))
    x = np.random.default_rng(0).standard_normal((14, 33, 70)).astype(np.float32)
    for host, there in views(x):
        e = np.exp(host.astype("f8") - host.max(axis, keepdims=True))
        np.testing.assert_allclose(
            nf.to_numpy(ops.softmax(there, axis=axis)),
            e/e.sum(axis, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("shape", "axis"), [((1, 1 << 22), 1), ((4096, 1024), 0)])
def test_the_same_bits_every_time(shape, axis):
    x = put(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    found = set()
    for _ in range(5):
        v = nf.Variable(x, requires_grad=True)
        y = ops.softmax(v, axis=axis)
        y.backward(x)
        found.add(nf.to_numpy(y.data).tobytes() + nf.to_numpy(v.grad).tobytes())
    assert len(found) == 1


def test_three_rows_of_67_million():
    free, _ = device(0).memory()
    if free < 6 << 30:
        pytest.skip("needs 6 GiB of the device's memory")
    columns = 67_108_859  # a prime
    x = np.random.default_rng(0).standard_normal((3, columns), np.float32)
    x[1, -1], x[2, 5] = np.nan, -np.inf
    y = nf.to_numpy(ops.softmax(put(x)))
    for k in (0, 2):
        wide = np.exp(x[k].astype("f8") - x[k].max())
        total = wide.sum()
        np.testing.assert_allclose(y[k], wide/total, rtol=1e-5)
    assert np.isnan(y[1]).all()
