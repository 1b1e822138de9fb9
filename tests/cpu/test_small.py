"""Batches of small products, and of narrow ones, against NumPy in float64."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from nbfused import ops
from nbfused.autograd import grad
from nbfused.config import config
from nbfused.cpu.contract import launcher, small
from tests.variants import sampled, sampled_together

RNG = np.random.default_rng(0)
#: Rows, columns and terms of each product of a batch: written out, then not.
SMALL = [(3, 3, 3), (3, 1, 3), (1, 3, 3), (2, 2, 2), (4, 4, 4), (5, 5, 5), (7, 8, 2),
         (1, 1, 16), (8, 1, 16), (1, 8, 16)]
NARROW = [(6, 6, 6), (3, 9, 4), (9, 3, 17), (8, 8, 8), (13, 12, 11), (40, 40, 40),
          (64, 64, 64), (65, 65, 65), (1, 70, 30), (70, 1, 30), (2, 2, 17)]
DTYPES = ["f2", ml_dtypes.bfloat16, "f4", "f8", "c8", "c16", "i1", "u1", "i2", "i4",
          "i8", "u8"]


@pytest.fixture
def natively(monkeypatch):
    """The list of the small products that were bound."""
    bound = []
    own = small.SmallProducts._bound
    monkeypatch.setattr(small.SmallProducts, "_bound", lambda self, *args: (
        bound.append(args), own(self, *args))[1])
    return bound


@pytest.fixture
def blas(monkeypatch):
    """The list of the products that are left to BLAS."""
    left = []
    own = launcher.multiply_by_blas
    monkeypatch.setattr(launcher, "multiply_by_blas", lambda *args: (
        left.append(args), own(*args)))
    return left


def drawn(shape, dtype, turned=False):
    """Small whole numbers, whose products are exact; `turned` lie along columns."""
    shape = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
    made = RNG.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, shape)
    made = made.astype(dtype)
    if np.dtype(dtype).kind == "c":
        made = made + 1j*RNG.integers(-3, 4, shape).astype(dtype)
    return made.swapaxes(-1, -2) if turned else made


def exact(a, b):
    wide = "c16" if a.dtype.kind == "c" else "f8" if a.dtype.kind in "fV" else "i8"
    return np.matmul(a.astype(wide), b.astype(wide)).astype(a.dtype)


@pytest.mark.parametrize(("extents", "dtype"), sampled_together(
    product(SMALL, DTYPES), *((extents, "f4") for extents in SMALL[:6]),
    *((SMALL[0], dtype) for dtype in DTYPES)), ids=str)
def test_each_is_written_out(extents, dtype, natively, blas):
    """All but large ones of complex numbers and of short integers."""
    m, n, k = extents
    for turned in product((False, True), repeat=2):
        a = drawn((700, m, k), dtype, turned[0])
        b = drawn((700, k, n), dtype, turned[1])
        assert np.array_equal(ops.matmul(a, b), exact(a, b))
    few = 32 if np.dtype(dtype).kind == "c" or dtype in ("i1", "u1", "i2") else 128
    assert bool(natively) == (m*n*k <= few)
    assert not (blas and natively)


@pytest.mark.parametrize(("extents", "dtype"), sampled_together(
    product(NARROW, ("f4", "f8")), *((extents, "f4") for extents in NARROW),
    ((13, 12, 11), "f8")), ids=str)
def test_narrow_ones_are_made_without_blas(extents, dtype, natively, blas):
    """All but those whose right factor takes longer to turn than BLAS to multiply."""
    m, n, k = extents
    for turned in product((False, True), repeat=2):
        blas.clear()
        a, b = drawn((60, m, k), dtype, turned[0]), drawn((60, k, n), dtype, turned[1])
        bias = drawn((1, n), dtype)[0]
        for first, second in ((a, b), (a[7], b)):
            want = exact(first, second)
            assert np.array_equal(ops.matmul(first, second), want)
            assert np.array_equal(ops.linear(first, second, bias, activation=ops.relu),
                                  np.maximum(want + bias, 0))
        assert turned[1] or not blas
        backwards = ops.matmul(a[::2, :, ::-1], b[::-2, ::-1])
        assert np.array_equal(backwards, exact(a[::2], b[::-2]))
    assert not natively


@pytest.mark.parametrize("dtype", sampled(["f4", "f8", "f2", "c16"], "f4", "f2"))
def test_one_factor_for_all(dtype, natively, blas):
    points, turn = drawn((900, 3), dtype), drawn((3, 3), dtype)
    for x in (points, np.asfortranarray(points), drawn((1800, 6), dtype)[::-2, 1::2]):
        assert np.array_equal(ops.matmul(x, turn), exact(x, turn))
        assert np.array_equal(ops.matmul(turn, x.T), exact(turn, x.T))
        assert np.array_equal(ops.matmul(turn, x[..., None]), exact(turn, x[..., None]))
    assert natively
    assert not blas


def test_batches_of_several_dimensions(natively):
    a, b = drawn((5, 40, 3, 3), "f4"), drawn((40, 3, 3), "f4")
    apart = np.moveaxis(drawn((5, 3, 3, 40), "f4"), 3, 1)
    for first, second in ((a, a[::-1]), (a, b), (b, a), (a[:, ::2], b[::2]),
                          (a[:, :, :2], b), (a, apart), (apart, a), (apart, b[3]),
                          (a.swapaxes(0, 1), a[:, :1, :, 1:].swapaxes(0, 1))):
        assert np.array_equal(ops.matmul(first, second), exact(first, second))
    assert natively


def test_epilogues_outputs_and_layouts(natively):
    a, b = drawn((300, 4, 3), "f4"), drawn((300, 3, 2), "f4")
    bias, want = drawn((4, 2), "f4"), exact(a, b)
    for out in (np.empty((2, 4, 300), "f4").T, np.empty((300, 8, 5), "f4")[:, ::2, 1:3],
                np.empty((300, 4, 2), "f8"), np.full((302, 4, 2), 7, "f4")[1:-1]):
        ops.matmul(a, b, out=out)
        assert np.array_equal(out, want)
        assert out.base is None or out.base.shape != (302, 4, 2) or (
            out.base[[0, -1]] == 7).all()
    got = ops.linear(a, b, bias[0], activation=ops.relu)
    assert np.array_equal(got, np.maximum(want + bias[0], 0))
    assert natively


def test_odd_numbers_stay_in_their_products(natively):
    a, b = drawn((400, 3, 3), "f8"), drawn((400, 3, 3), "f8")
    a[7, 1, 2], b[9, 0, 1] = np.nan, np.inf
    a[9, :, 0] = 1
    got = ops.matmul(a, b)
    odd = ~np.isfinite(got)
    assert odd[7, 1].all()
    assert odd[9, :, 1].all()
    assert odd.sum() == 6
    zeros = ops.matmul(np.full((400, 3, 3), -0.0), np.ones((400, 3, 3)))
    assert not np.signbit(zeros).any()  # as NumPy's
    assert natively


@pytest.mark.parametrize("extents", [(3, 3, 3), (12, 12, 12)], ids=str)
def test_the_number_of_threads_changes_no_bit(extents):
    m, n, k = extents
    a, b = (RNG.standard_normal((9000, *shape)) for shape in ((m, k), (k, n)))
    found = []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            found.append(ops.matmul(a, b))
    assert np.allclose(found[0], a @ b, rtol=1e-13, atol=1e-13)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_gradients_are_small_products(natively):
    a, b = RNG.standard_normal((300, 4, 3)), RNG.standard_normal((300, 3, 2))
    bar = RNG.standard_normal((300, 4, 2))
    ga, gb = grad(lambda a, b: (ops.matmul(a, b)*bar).sum(), argnums=(0, 1))(a, b)
    np.testing.assert_allclose(ga, bar @ b.swapaxes(1, 2), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gb, a.swapaxes(1, 2) @ bar, rtol=1e-12, atol=1e-12)
    assert natively


def test_one_signature_may_have_other_loops(natively):
    """The loop is over the batch, then over rows of each product."""
    for shape in ((700, 1, 3), (2, 400, 3), (700, 1, 3), (3, 250, 3)):
        a, b = drawn(shape, "f4"), drawn((shape[0], 3, 3), "f4")
        assert np.array_equal(ops.matmul(a, b), exact(a, b))
    assert len({args[1][-1] for args in natively}) == 2


@pytest.mark.parametrize("k", [2, 3, 4])
def test_few_terms_are_written_row_by_row(k, natively, blas):
    a, b, bias = drawn((3, 20, k), "f4"), drawn((3, k, 100), "f4"), drawn((100,), "f4")
    for first, second in ((a, b), (a[0], b[0]), (a[1], b), (a, b[2]), (a[:, ::-2], b)):
        want = exact(first, second)
        assert np.array_equal(ops.matmul(first, second), want)
        assert np.array_equal(ops.linear(first, second, bias, activation=ops.relu),
                              np.maximum(want + bias, 0))
        out = np.empty(want.shape[::-1], "f4").T
        ops.matmul(first, second, out=out)
        assert np.array_equal(out, want)
    assert natively
    assert not blas


def test_few_products_have_no_kernel_of_their_own(natively, monkeypatch):
    monkeypatch.undo()
    a = drawn((10, 3, 3), "f4")
    assert np.array_equal(ops.matmul(a, a), exact(a, a))
    assert not natively
