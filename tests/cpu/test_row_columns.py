"""Rows whose elements, or columns, weights say, lie apart in memory."""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.cpu import row as rows
from tests.variants import sampled

RNG = np.random.default_rng(9)
DTYPES = sampled(["float32", "float64", "float16", "bfloat16"], "float32")


def normed(x, weight):
    """The layer norm, its derivatives by x and the weight, for ones."""
    mean = x.mean(-1, keepdims=True)
    scale = 1/np.sqrt(np.square(x - mean).mean(-1, keepdims=True) + 1e-5)
    at = (x - mean)*scale
    by_x = scale*(weight - weight.mean() - at*(at*weight).mean(-1, keepdims=True))
    return at*weight, by_x, at.sum(0)


@pytest.mark.parametrize("columns", [60, 503, 4096, 4097, 9000])
@pytest.mark.parametrize("step", [1, 2, -3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_strided_weight_is_as_good_as_another(columns, step, dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x = RNG.normal(size=(70, columns)).astype(kind)
    weight = RNG.normal(size=columns*abs(step)).astype(kind)[::step]
    zero = np.zeros(columns, kind)
    variables = [nf.Variable(a, requires_grad=True) for a in (x, weight)]
    out = nf.ops.layer_norm(*variables, zero)
    out.backward(np.ones_like(x))
    found = out.data, *(v.grad for v in variables)
    eps = {2: 3e-2, 4: 1e-5, 8: 1e-12}[x.dtype.itemsize]
    for one, expected in zip(found, normed(x.astype(float), weight.astype(float)),
                             strict=True):
        np.testing.assert_allclose(one.astype(float), expected, rtol=eps,
                                   atol=eps*(1 + np.abs(expected).max()))


@pytest.mark.parametrize(("columns", "step", "copied"), [
    (300, 2, True), (300, 1, False), (5000, 2, False)])
def test_strided_columns_are_copied_once(monkeypatch, columns, step, copied):
    texts = []
    build = rows.build
    monkeypatch.setattr(rows, "build", lambda text: texts.append(text) or build(text))

    @nf.row(weight="column")
    def scaled(x, weight):
        @nf.stage("sum")
        def total(x):
            return x

        return x*weight/total

    x, weight = np.ones((40, columns)), np.arange(2.0*columns)[::step][:columns]
    np.testing.assert_allclose(scaled(x, weight), x*weight/columns)
    assert ["x1_at = address(x1_copy)" in text for text in texts] == [copied]


@pytest.mark.parametrize("columns", [33, 40, 257, 4095, 4096, 4097, 9001])
@pytest.mark.parametrize("step", [2, -3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_strided_rows_are_as_good_as_others(columns, step, dtype):
    """Blocks of them, whole and not, and sums over rows."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    stored = RNG.normal(size=(37, 2, columns*abs(step))).astype(kind)
    x = stored[:, 1:, ::step]
    weight = RNG.normal(size=columns).astype(kind)
    variables = [nf.Variable(a, requires_grad=True) for a in (x, weight)]
    out = nf.ops.layer_norm(*variables, np.zeros(columns, kind))
    out.backward(np.ones_like(x))
    found = out.data[:, 0], variables[0].grad[:, 0], variables[1].grad
    eps = {2: 3e-2, 4: 1e-5, 8: 1e-12}[x.dtype.itemsize]
    for one, expected in zip(found, normed(x[:, 0].astype(float), weight.astype(float)),
                             strict=True):
        np.testing.assert_allclose(one.astype(float), expected, rtol=eps,
                                   atol=eps*(1 + np.abs(expected).max()))
    e = np.exp(x.astype(float) - x.astype(float).max(-1, keepdims=True))
    np.testing.assert_allclose(nf.ops.softmax(x).astype(float),
                               e/e.sum(-1, keepdims=True), rtol=eps, atol=eps)
    np.testing.assert_array_equal(stored[:, 1:, ::step], x)


@pytest.mark.parametrize(("columns", "step", "copied"), [
    (300, 2, True), (300, 1, False), (5000, 2, True)])
def test_strided_rows_are_copied_where_they_are_read_again(monkeypatch, columns, step,
                                                           copied):
    texts = []
    build = rows.build
    monkeypatch.setattr(rows, "build", lambda text: texts.append(text) or build(text))
    x = np.ones((40, columns*step))[:, ::step]

    @nf.row
    def shared(x):
        @nf.stage("sum")
        def total(x):
            return x

        return x/total

    @nf.row
    def summed(x):
        @nf.stage("sum")
        def total(x):
            return x

        return total

    np.testing.assert_allclose(shared(x), x/columns)
    np.testing.assert_allclose(summed(x), columns)
    found = ["address(x0_copy)" in text for text in texts]
    assert found == [copied, False][:len(texts)]
    assert found


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("columns", [2, 15, 16, 17, 63, 64, 65, 130])
def test_every_second_element_is_copied_and_nothing_beyond_the_last(columns, dtype):
    """A page that nobody may read begins where the rows end."""
    size, dtype, protect = 2*mmap.PAGESIZE, np.dtype(dtype), ctypes.CDLL(None).mprotect
    room = mmap.mmap(-1, 2*size)
    end = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(room)) + size)
    assert protect(end, size, mmap.PROT_READ & mmap.PROT_WRITE) == 0
    numbers = np.frombuffer(room, dtype, size // dtype.itemsize)
    numbers[:] = np.arange(numbers.size) % 99
    x = numbers[1::2][-3*columns:].reshape(3, columns)

    @nf.row
    def below(x):
        @nf.stage("max")
        def top(x):
            return x

        return x - top

    wide = x.astype(float)
    np.testing.assert_array_equal(below(x), wide - wide.max(1, keepdims=True))
    assert protect(end, size, mmap.PROT_READ | mmap.PROT_WRITE) == 0
