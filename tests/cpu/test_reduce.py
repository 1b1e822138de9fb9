"""Reductions against NumPy in float64, along and across, in chunks and whole."""

from __future__ import annotations

import ctypes
import mmap
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from nbfused import ops
from nbfused.config import config
from nbfused.cpu.reduce import _CHUNK
from nbfused.cpu.reduce_text import BLOCK
from nbfused.scalar.parse.functions import parse
from nbfused.specs import COMBINES, Combine, Reduce
from nbfused.specs.vjp.functions import identity
from tests.cpu.skeletons import run_reduce
from tests.variants import sampled, sampled_together

RNG = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype("f4")


@cache
def reduction(name):
    combine = COMBINES[name]
    return Reduce(identity(), ("element",), combine, combine.finish)


def normal(shape, dtype=F32):
    return RNG.standard_normal(shape).astype(dtype)


def check_sum(x, axes, tolerance=None, **kwargs):
    got = np.asarray(run_reduce(reduction("sum"), x, axes=axes, **kwargs))
    x64 = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    eps = tolerance or {4: 3e-7, 8: 3e-15, 16: 3e-15}[got.dtype.itemsize]
    error = np.abs(got - x64.sum(axes))
    assert np.all(error <= eps*(1e-30 + np.abs(x64).sum(axes)))


@pytest.mark.parametrize("size", [0, 1, 2, 31, 63, 64, 65, 127, 128, 2047, 2048, 2049,
                                  _CHUNK - 1, _CHUNK, _CHUNK + 1, 3*_CHUNK + 5])
def test_sums_of_every_length(size):
    check_sum(normal(size), (0,))
    check_sum(normal((3, size)), (1,))


@pytest.fixture(scope="module")
def memory():
    """Memory after which no byte can be read."""
    size = 1 << 16
    room = mmap.mmap(-1, size + mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(room))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(begin + size, mmap.PAGESIZE, 0) == 0
    yield np.frombuffer(room, np.uint8, size)
    assert protect(begin + size, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0


def _numpys(name, x):
    """NumPy's results of a combine, along the last axis."""
    if name == "welford":
        return x.mean(-1), x.var(-1)
    return (getattr(np, name)(x, -1),)


@pytest.mark.skipif(not hasattr(mmap, "PROT_READ"), reason="there is no mprotect")
@pytest.mark.parametrize(("name", "dtype"), sampled_together(
    [("sum", "f4"), ("sum", "f8"), ("sum", BF16), ("sum", "c8"), ("sum", "i1"),
     ("max", "f4"), ("max", "f2"), ("max", "i4"), ("argmax", "f4"), ("argmin", "f8"),
     ("welford", "f4"), ("welford", "f8"), ("any", "f4")],
    ("sum", "c8"), ("max", "f2"), ("argmax", "f4"), ("welford", "f8")), ids=str)
def test_ends_of_rows(memory, name, dtype):
    """Lanes without an element keep their state, and nothing behind is read."""
    dtype = np.dtype(dtype)
    for n in (*range(1, 140, 3), 64, 128, 131):
        x = memory[-3*n*dtype.itemsize:].view(dtype).reshape(3, n)
        x[:] = RNG.integers(-9, 9, (3, n))
        x[2] = -abs(x[2]) if dtype.kind != "c" else x[2]*1j
        exact = x.astype("c16" if dtype.kind == "c" else "f8")
        for special in (None, np.nan) if dtype.kind in "fV" else (None,):
            if special is not None:
                x[1, -1] = exact[1, -1] = special
                if name != "welford":  # inf - inf is in its merge
                    x[0, n//2] = exact[0, n//2] = np.inf
            found = run_reduce(reduction(name), x, axes=(1,))
            with np.errstate(invalid="ignore"):
                expected = _numpys(name, exact)
            for f, e in zip(found if len(expected) > 1 else (found,), expected,
                            strict=True):
                np.testing.assert_allclose(
                    np.asarray(f).astype(e.dtype), e, rtol=1e-2 if dtype == BF16
                    else 1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 17), (5, 16), (300, 16), (70, BLOCK - 1),
                                   (70, BLOCK), (70, BLOCK + 1), (0, 20), (20_000, 33),
                                   (3, 70_000)], ids=str)
def test_sums_across(shape):
    check_sum(normal(shape), (0,))


@pytest.mark.parametrize(("shape", "axes"), [
    ((3, 4, 5), (0, 1, 2)), ((3, 4, 50), (0, 1)), ((50, 4, 3), (1, 2)),
    ((6, 40, 7), (1,)), ((6, 40, 70), (0, 2)), ((90, 50, 30), (0, 2)),
    ((3, 30, 4, 20), (0, 2)), ((3, 30, 4, 20), (1, 3)), ((4, 2, 1, 200), (0, 1)),
], ids=str)
@pytest.mark.parametrize("layout", sampled(["c", "fortran", "strided"], "c"))
def test_sums_over_axes(shape, axes, layout):
    x = normal(shape)
    if layout == "fortran":
        x = np.asfortranarray(x)
    elif layout == "strided":
        x = np.repeat(x, 2, -1)[..., ::-2]
    check_sum(x, axes)


SPANS = [
    ((3001, 7), 0), ((301, 7, 11), (0, 2)), ((64, 6, 32, 4), (0, 3)), ((5, 403, 3), 1),
    ((2, 50, 3, 20), (1, 3)), ((17, 3, 5), (0, 2)), ((70_001, 2), 0)]


@pytest.mark.parametrize(("shape", "axes", "layout"), sampled_together(
    [(*span, layout) for span in SPANS for layout in ("c", "reversed", "strided")],
    *((*span, "c") for span in SPANS[:5]), (*SPANS[0], "strided")), ids=str)
def test_spans(shape, axes, layout):
    x = np.random.default_rng(5).normal(2.0, 1.0, shape)
    if layout != "c":
        x = x[::-1] if layout == "reversed" else np.repeat(x, 2, -1)[..., ::2]
    exact = x.astype(np.longdouble)  # NumPy adds up rows in order, without blocks
    mean = exact.mean(axes, keepdims=True)
    np.testing.assert_allclose(ops.mean(x, axis=axes), mean.squeeze(), 2e-15)
    np.testing.assert_allclose(ops.var(x, axis=axes), ((exact - mean)**2).mean(axes),
                               5e-14)
    assert np.array_equal(ops.max(x, axis=axes), x.max(axes))


@pytest.mark.parametrize("shape", [(100, 1), (1000, 7), (65, 48), (90, 7, 3)], ids=str)
@pytest.mark.parametrize("dtype", sampled(["f4", "f2", "i4", "i8"], "f4"))
def test_short_rows(shape, dtype):
    x = np.random.default_rng(6).integers(-9, 9, shape).astype(dtype)
    assert np.array_equal(ops.sum(x, axis=1), x.sum(1))
    assert np.array_equal(ops.argmax(x, axis=1), x.argmax(1))


@pytest.mark.parametrize("dtype", sampled(
    ["f2", "f8", "i1", "u1", "i4", "u8", "?", "c8", "c16"],
    "f2", "i1", "?", "c8"))
def test_accumulators(dtype):
    for shape, axes in (((70_001,), (0,)), ((40, 300), (0,)), ((40, 300), (1,))):
        x = (normal(shape)*5).astype(dtype)
        if x.dtype.kind == "c":
            x += 1j*normal(shape)
        got = run_reduce(reduction("sum"), x, axes=axes)
        if x.dtype.kind in "biu":
            assert np.array_equal(got, x.sum(axes))
            assert got.dtype == x.sum(axes).dtype
        else:
            check_sum(x, axes, {"f2": 1e-3, "c8": 3e-7}.get(dtype))


def test_bfloat16():
    x = normal((20, 3000)).astype(BF16)
    check_sum(x, (1,), 5e-3, dtypes=[BF16])
    check_sum(x, (1,), 1e-6, dtypes=[F32])


def test_many_ones_are_counted_exactly():
    assert run_reduce(reduction("sum"), np.ones(1 << 24, F32), axes=(0,)) == 1 << 24
    x = np.broadcast_to(np.float32(1), 100_000_000)
    assert run_reduce(reduction("sum"), x, axes=(0,)) == 1e8


def test_more_elements_than_32_bits_count():
    x = np.broadcast_to(np.int8(1), (1 << 32) + 3)
    assert run_reduce(reduction("sum"), x, axes=(0,)) == (1 << 32) + 3


def test_errors_are_like_those_of_pairwise_summation():
    x = RNG.random(5_000_000, dtype=F32)
    exact = x.sum(dtype=np.float64)
    got = float(run_reduce(reduction("sum"), x, axes=(0,)))
    assert abs(got - exact) <= 2e-7*exact
    across = np.repeat(x[:200_000, None], 16, 1)
    got = run_reduce(reduction("sum"), across, axes=(0,))
    assert np.all(abs(got - across.sum(0, dtype=np.float64)) <= 4e-7*got)


@pytest.mark.parametrize("name", sampled(
    ["max", "min", "prod", "any", "all", "logsumexp"],
    "prod", "logsumexp"))
@pytest.mark.parametrize(("shape", "axes"), [
    ((1,), (0,)), ((1000,), (0,)), ((200_000,), (0,)), ((9, 100), (1,)),
    ((100, 90), (0,))], ids=str)
def test_combines(name, shape, axes):
    x = 1 + normal(shape)*(0.01 if shape[0] < 1001 else 1e-5)
    x = np.where(RNG.random(shape) < 0.5, 1, 0).astype("?") if name in ("any", "all") \
        else x.astype("f8")
    got = run_reduce(reduction(name), x, axes=axes)
    expected = np.log(np.exp(x).sum(axes)) if name == "logsumexp" \
        else getattr(np, name)(x, axis=axes)
    assert np.allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize(("shape", "axis"), [
    ((6, 300), 1), ((6, 129), 1), ((6, 3*_CHUNK//2), 1), ((300, 70), 0), ((70, 20), 1)],
    ids=str)
def test_sums_of_exponentials(shape, axis):
    """Along rows and across, whole and in chunks, of infinite and of far numbers."""
    x = normal(shape)*100
    rows = x if axis else x.T
    rows[0], rows[1, 3:5], rows[2, -1], rows[3, -3], rows[4] = \
        -np.inf, np.inf, np.nan, -np.inf, 1e30
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp.reduce(x.astype("f8"), axis)
    found = run_reduce(reduction("logsumexp"), x, axes=(axis,))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_nan_wins_in_max():
    x = normal((4, 200))
    x[1, 77] = np.nan
    got = run_reduce(reduction("max"), x, axes=(1,))
    assert np.array_equal(got, x.max(1), equal_nan=True)


@pytest.mark.parametrize("name", sampled(["argmax", "argmin"], "argmax"))
@pytest.mark.parametrize(("shape", "axis"), [
    ((1,), 0), ((200,), 0), ((150_000,), 0), ((7, 300), 1), ((300, 70), 0)], ids=str)
def test_the_first_of_equal_elements(name, shape, axis):
    x = RNG.integers(0, 9, shape).astype(F32)
    got = run_reduce(reduction(name), x, axes=(axis,))
    assert np.array_equal(got, getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("name", sampled(["argmax", "argmin"], "argmin"))
@pytest.mark.parametrize(("shape", "axis"), [
    ((7, 100), 1), ((7, 9*_CHUNK), 1), ((70, 90), 0), ((90, 20), 1), ((5_000, 7), 0)],
    ids=str)
def test_the_place_of_nan_infinity_and_zero(name, shape, axis):
    x = RNG.integers(-3, 4, shape).astype(F32)
    rows = x if axis else x.T
    rows[0, 5:9:3], rows[1], rows[2] = np.nan, -np.inf, np.inf
    rows[3] = 0.0
    rows[3, ::2] = -0.0
    rows[4, -1] = np.nan
    found = run_reduce(reduction(name), x, axes=(axis,))
    assert np.array_equal(found, getattr(np, name)(x, axis))


def test_index_counts_within_the_reduced_axes():
    def weighted(x, index):
        return x*index

    spec = Reduce(parse(weighted), ("element", "index"), COMBINES["sum"], identity())
    x = normal((3, 4, 50, 6), "f8")
    for axes in ((1, 3), (0, 1), (2,), (0, 1, 2, 3)):
        moved = np.moveaxis(x, axes, range(-len(axes), 0))
        flat = moved.reshape(*moved.shape[:4 - len(axes)], -1)
        expected = (flat*np.arange(flat.shape[-1])).sum(-1)
        assert np.allclose(run_reduce(spec, x, axes=axes), expected, rtol=1e-12)


def test_scalars_size_and_several_inputs_and_outputs():
    def squares(x, y, c):
        return (x - y)*(x - y)*c

    def mean(s0, c, size):
        return s0/size, s0*c

    spec = Reduce(parse(squares), ("element", "element", "scalar"), COMBINES["sum"],
                  parse(mean))
    x, y = normal((5, 90), "f8"), normal((90,), "f8")
    for axes in ((0,), (1,)):
        first, second = run_reduce(spec, x, y, 0.5, axes=axes)
        expected = ((x - y)**2*0.5).sum(axes)
        assert np.allclose(first, expected/x.shape[axes[0]], rtol=1e-13)
        assert np.allclose(second, expected*0.5, rtol=1e-13)


def test_nothing_to_reduce_gives_the_identity():
    for shape, axes in (((4, 0), (1,)), ((0, 40), (0,))):
        assert np.all(run_reduce(reduction("sum"), normal(shape), axes=axes) == 0)
        assert np.all(run_reduce(reduction("prod"), normal(shape), axes=axes) == 1)


def test_a_combine_of_the_users_own():
    def lift(x):
        return x, 1

    def merge(a, n, b, m):
        return (a*n + b*m)/max(n + m, 1), n + m

    def finish(a, n):
        return a

    combine = Combine("mean", parse(lift), parse(merge), ("0", "0"), parse(finish))
    spec = Reduce(identity(), ("element",), combine, combine.finish)
    x = normal((300, 40), "f8")
    for axes in ((0,), (1,), (0, 1)):
        assert np.allclose(run_reduce(spec, x, axes=axes), x.mean(axes), rtol=1e-11)


@pytest.mark.parametrize(("shape", "axes"), [
    ((300_001,), (0,)), ((2_000, 300), (0,)), ((40, 70, 50), (0, 2))], ids=str)
def test_the_number_of_threads_changes_no_bit(shape, axes):
    x = normal(shape)
    results = []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            results.append(run_reduce(reduction("sum"), x, axes=axes))
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


def test_a_strided_output():
    x = normal((70, 50))
    room = np.full((70, 3), 7, F32)
    run_reduce(reduction("sum"), x, axes=(1,), out=[room[:, 1]])
    assert np.allclose(room[:, 1], x.sum(1), atol=1e-5)
    assert np.all(room[:, ::2] == 7)
