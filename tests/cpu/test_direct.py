"""Products of few rows or columns against NumPy in float64."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from nbfused import ops
from nbfused.config import config
from nbfused.cpu.contract import launcher, matrices
from nbfused.cpu.contract.direct_ways import Way, is_narrow, way_of
from nbfused.cpu.contract.gemm import Factors
from nbfused.cpu.runtime.objects import has_float16
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract
from tests.cpu.skeletons import run_contract
from tests.variants import sampled, sampled_together

RNG = np.random.default_rng(0)
EXTENTS = [(2, 300, 70), (300, 2, 70), (5, 400, 3000), (64, 64, 9000), (18, 32, 5000),
           (33, 7, 100), (31, 1000, 90), (1, 700, 300), (700, 1, 300), (3, 100, 5),
           (129, 17, 40), (12, 2100, 65), (19, 35, 9000), (67, 9, 9000)]
HALVES = [(5, 7, 300), (300, 3, 70), (2, 300, 40), (1, 1, 90), (40, 9, 12)]


@pytest.fixture
def direct(monkeypatch):
    """Refuse the blocked kernel; count products that are left to BLAS."""
    left: list[tuple[int, ...]] = []
    monkeypatch.setattr(launcher._Product, "_can_block", lambda self, call: False)
    monkeypatch.setattr(launcher, "is_better_packed", lambda factors, turned: False)
    monkeypatch.setattr(launcher, "multiply_by_blas", lambda a, b, out, swapped: (
        left.append(out.shape), np.matmul(a, b, out=out)))
    return left


def factor(rows, columns, dtype, turned):
    shape = (columns, rows) if turned else (rows, columns)
    drawn = RNG.standard_normal(shape).astype(dtype)
    return drawn.T if turned else drawn


def off(got, a, b, wanted):
    """Error in units of eps, relative to the product of magnitudes."""
    size = np.abs(a).astype("f8") @ np.abs(b).astype("f8") + 1
    return float((np.abs(got - wanted)/size).max()/np.finfo(got.dtype).eps)


@pytest.mark.parametrize(("extents", "dtype"), sampled_together(
    [(extents, dtype) for extents in EXTENTS for dtype in ("f4", "f8")],
    *((extents, "f4") for extents in EXTENTS)), ids=str)
def test_products(extents, dtype, direct):
    m, n, k = extents
    bias = RNG.standard_normal(n).astype(dtype)
    for turned in product((False, True), repeat=2):
        a, b = factor(m, k, dtype, turned[0]), factor(k, n, dtype, turned[1])
        wanted = a.astype("f8") @ b.astype("f8")
        assert off(ops.matmul(a, b), a, b, wanted) <= 8
        assert off(ops.linear(a, b, bias, activation=ops.relu), a, b,
                   np.maximum(wanted + bias, 0)) <= 8
        for out in (np.empty((n, m), dtype).T, np.empty((m, 2*n), dtype)[:, ::2],
                    np.empty((m, n + 3), dtype)[:, 3:]):
            ops.matmul(a, b, out=out)
            assert off(out, a, b, wanted) <= 8
    assert not direct


def test_nothing_is_written_beside_the_result(direct):
    for m, n in ((3, 130), (130, 5), (13, 31)):
        around = np.full((m + 2, n + 2), 7, "f4")
        a, b = factor(m, 60, "f4", False), factor(60, n, "f4", False)
        ops.matmul(a, b, out=around[1:-1, 1:-1])
        assert (around[[0, -1]] == 7).all()
        assert (around[:, [0, -1]] == 7).all()
    assert not direct


def test_odd_numbers_stay_in_their_rows_and_columns():
    a, b = factor(7, 300, "f4", False), factor(300, 200, "f4", False)
    a[2, 5], b[9, 40] = np.nan, np.inf
    got = ops.matmul(a, b)
    assert np.isnan(got[2]).all()
    assert not np.isfinite(got[:, 40]).any()
    assert np.isfinite(np.delete(np.delete(got, 2, 0), 40, 1)).all()


@pytest.mark.parametrize("extents", [(3, 9000, 500), (9000, 3, 500), (5, 8, 90_000)],
                         ids=str)
def test_the_number_of_threads_changes_no_bit(extents):
    m, n, k = extents
    a, b = factor(m, k, "f4", False), factor(k, n, "f4", False)
    found = []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            found.append(ops.matmul(a, b))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_batches_of_narrow_products(direct):
    a, b = RNG.standard_normal((4, 50, 600)), RNG.standard_normal((4, 600, 7))
    assert np.allclose(ops.matmul(a, b), a @ b, rtol=1e-12, atol=1e-11)
    assert np.allclose(ops.matmul(a, b[0]), a @ b[0], rtol=1e-12, atol=1e-11)
    half = ops.matmul(a.astype("f2"), b.astype("f2"))
    assert np.allclose(half, a.astype("f2").astype("f8") @ b.astype("f2").astype("f8"),
                       rtol=2e-3, atol=0.1)
    assert not direct


@pytest.mark.parametrize("lie", [
    lambda x: x[..., ::2, :1], lambda x: x[:, ::-2, :1], lambda x: x[:1, :, 1:2],
    lambda x: np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1)[..., :1]])
@pytest.mark.parametrize("extents", [(5, 73, 188), (3, 50, 300), (2, 40, 77)])
def test_vectors_of_a_batch_are_copied_where_they_have_gaps(lie, extents, monkeypatch):
    """So that each product is made of dots, in whichever factor the vectors are."""
    batch, m, k = extents
    ways, own = [], launcher.way_of
    monkeypatch.setattr(launcher, "way_of", lambda *of: (
        ways.append(own(*of)), ways[-1])[1])
    x = lie(RNG.standard_normal((batch, k, 3)))
    a = RNG.standard_normal((batch, m, x.shape[-2]))
    for left, right in ((a, x), (x.swapaxes(1, 2), a.swapaxes(1, 2))):
        expected = (left[..., None]*right[:, None]).sum(-2)
        np.testing.assert_allclose(ops.matmul(left, right), expected, rtol=1e-12,
                                   atol=1e-11)
    assert {way.form for way in ways} == {"dots"}
    assert all(way.copied is not None for way in ways)


@pytest.mark.parametrize(("extents", "dtype"), sampled_together(
    product(HALVES, ("f2", ml_dtypes.bfloat16)),
    *((extents, "f2") for extents in HALVES[1:]), (HALVES[0], ml_dtypes.bfloat16)),
    ids=str)
def test_halves_are_read_as_they_lie(dtype, extents, direct):
    m, n, k = extents
    a, b = (RNG.integers(-1, 2, shape) for shape in ((m, k), (k, n)))
    for lie in (np.ascontiguousarray, np.asfortranarray,
                lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::-2, ::3][::-1]):
        for other in (np.ascontiguousarray, np.asfortranarray):
            got = ops.matmul(lie(a.astype(dtype)), other(b.astype(dtype)))
            assert np.array_equal(got, (a @ b).astype(dtype))
    assert not direct


@pytest.mark.parametrize("converts", [has_float16(), False])
def test_float16_is_packed_where_the_processor_does_not_convert_it(
        converts, direct, monkeypatch):
    packed = []
    own = matrices.Factor.pack
    monkeypatch.setattr(matrices, "has_float16", lambda: converts)
    monkeypatch.setattr(matrices.Factor, "pack", lambda self, *given, **more: (
        packed.append(self), own(self, *given, **more))[1])
    a, b = RNG.integers(-1, 2, (5, 90)), RNG.integers(-1, 2, (90, 7))
    plain = Contract("mk,kn->mn", parse(lambda acc: acc))
    got = run_contract(plain, a.astype("f2"), b.astype("f2"))
    assert np.array_equal(got, a @ b)
    assert len(packed) == (0 if converts else 2)
    assert not direct


@pytest.mark.parametrize("columns", range(1, 10))
def test_short_rows_are_taken_apart(columns):
    """The factor of few columns is copied along the sums, by its rows or in squares."""
    a, b = RNG.integers(-4, 5, (300, 70)), RNG.integers(-4, 5, (70, columns))
    for side in (1, 3):  # of more columns than are read
        lies = np.repeat(b, side, 1)[:, ::side].astype("f4")
        assert np.array_equal(ops.matmul(a.astype("f4"), lies), a @ b)


def test_how_factors_are_read():
    """Along columns, along the sums, or copied, by what takes fewest instructions."""
    def way(m, n, k, *strides, turned=False):
        return way_of(Factors(np.dtype("f4"), m, n, k, *strides), turned)

    assert way(4, 1000, 50, 50, 1, 1, 1000) == Way("columns", False)
    assert way(1000, 4, 50, 1, 1000, 1, 4, turned=True) == Way("columns", True)
    assert way(2, 1000, 50, 50, 1, 1, 1000) == Way("streams", False)
    assert way(1, 1000, 900, 900, 1, 900, 1) == Way("dots", False)
    assert way(3, 1000, 900, 1, 3, 900, 1) == Way("dots", False, 0)
    assert way(3, 1000, 900, 1, 3, 900, 1, turned=True) == Way("dots", True, 1)
    assert way(60, 300, 12, 12, 1, 12, 1) == Way("columns", False, 1)


def test_what_is_narrow():
    single = np.dtype("f4")
    assert is_narrow(single, 4, 1000, 50)
    assert is_narrow(single, 80, 80, 80)
    assert is_narrow(single, 1000, 1000, 4)
    assert not is_narrow(np.dtype("c8"), 4, 1000, 50)
    assert not is_narrow(single, 1000, 1000, 100)


BOTH_KINDS = """
import sys
from nbfused.cpu.contract import direct_code, direct_ways
direct_code.has_masks = direct_ways.has_masks = lambda: sys.argv[1] == "masks"
import numpy as np
from nbfused import ops
rng = np.random.default_rng(0)
for m, k, n in ((300, 65, 36), (300, 30, 3), (41, 20, 8), (9, 7, 61), (500, 600, 5)):
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    for dtype, far in ((np.float32, 1e-4), (np.float16, 0.02)):
        x, y = a.astype(dtype), b.astype(dtype)
        exact = x.astype(np.float64) @ y.astype(np.float64)
        found = ops.matmul(x, y)
        assert np.abs(found - exact).max() <= far*np.abs(exact).max(), (m, k, n, dtype)
print("right")
"""


@pytest.mark.parametrize("kind", sampled(["masks", "overlaps"], "overlaps"))
def test_processors_with_and_without_masks(kind):
    """Each multiplies as the other kind would, whichever this one is."""
    made = subprocess.run(
        [sys.executable, "-c", BOTH_KINDS, kind], capture_output=True, text=True,
        check=False, timeout=600, cwd=Path(__file__).parents[2],
        env={**os.environ, "NBFUSED_CACHE_DISABLE": "1"})
    assert made.stdout == "right\n", made.stderr
