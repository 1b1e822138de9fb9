"""Maps against NumPy in float64."""

from __future__ import annotations

import itertools
import threading

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.cpu.runtime import compile as compiling
from nbfused.scalar.language.names import atomic_add, exp, load
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map
from tests.cpu.skeletons import run_map
from tests.variants import sampled

BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("f2", "f4", "f8")] + [BF16]
INTEGERS = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]
EPS = {2: 2e-3, 4: 3e-7, 8: 3e-16}


def affine(x, y, c):
    return x*c + y, y - x


def fused(x, y):
    return x*y + x


AFFINE = Map(parse(affine), ("element", "element", "scalar"))
FUSED = Map(parse(fused), ("element", "element"))
RNG = np.random.default_rng(0)


def tolerance(dtype):
    return 1e-2 if dtype == BF16 else EPS[dtype.itemsize]


def values(shape, dtype):
    if dtype.kind in "iu":
        return RNG.integers(0, 10, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype)


def check_affine(x, y, c=1.5):
    got = run_map(AFFINE, x, y, c)
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    for result, expected in zip(got, (x64*c + y64, y64 - x64), strict=True):
        scale = 1 + np.abs(x64*c) + np.abs(y64)
        assert np.all(np.abs(result.astype(np.float64) - expected)
                      <= tolerance(x.dtype)*scale)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127,
                                  1000, 70001])
def test_sizes_around_the_width_of_vectors(dtype, size):
    check_affine(values(size, dtype), values(size, dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype):
    x, y = values(77, dtype), values(77, dtype)
    with np.errstate(over="ignore"):
        assert np.array_equal(run_map(FUSED, x, y), x*y + x)


def test_bool():
    def both(a, b):
        return a & b

    a, b = RNG.random(100) < 0.5, RNG.random(100) < 0.5
    got = run_map(Map(parse(both), ("element", "element")), a, b)
    assert got.dtype == np.bool_
    assert np.array_equal(got, a & b)
    assert set(got.view(np.uint8)) <= {0, 1}


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_and_scalars(dtype):
    def turn(z, w, c):
        return z*w + c

    z, w = (values(33, np.dtype("f8")) + 1j*values(33, np.dtype("f8")) for _ in "ab")
    z, w = z.astype(dtype), w.astype(dtype)
    got = run_map(Map(parse(turn), ("element", "element", "scalar")), z, w, 2 - 1j)
    assert np.allclose(got, z.astype("c16")*w + (2 - 1j), rtol=1e-6 if dtype == "c8"
                       else 1e-14)


LAYOUTS = {
    "c": lambda x: x,
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[..., ::-1],
    "every third": lambda x: np.repeat(x, 3, -1)[..., ::3],
    "all reversed": lambda x: x[tuple(slice(None, None, -1) for _ in x.shape)],
}


@pytest.mark.parametrize("shape", [(5,), (3, 70), (4, 1, 9), (2, 3, 4, 5)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides(shape, layout):
    x, y = values(shape, np.dtype("f4")), values(shape, np.dtype("f4"))
    check_affine(LAYOUTS[layout](x), y)
    check_affine(x, LAYOUTS[layout](y))


@pytest.mark.parametrize("shape", [(1,), (6, 1), (70,), (5, 1, 1), (1, 6, 70)], ids=str)
def test_broadcast(shape):
    x = values((5, 6, 70), np.dtype("f4"))
    check_affine(x, values(shape, np.dtype("f4")))
    check_affine(values(shape, np.dtype("f4")), x)


def test_strided_output():
    x = values((6, 40), np.dtype("f4"))
    room = np.full((40, 12), 7, np.float32)
    out = room.T[::2]
    run_map(FUSED, x, x, out=[out])
    assert np.allclose(out, x*x + x, rtol=1e-6)
    assert np.all(room[:, 1::2] == 7)


def test_output_of_another_dtype():
    x = values(100, np.dtype("f4"))
    (out,) = [run_map(FUSED, x, x, dtypes=[BF16])]
    assert np.array_equal(out, (x*x + x).astype(BF16))
    out = run_map(FUSED, x, x, dtypes=[np.dtype("i4")])
    assert np.array_equal(out, (x*x + x).astype("i4"))


@pytest.mark.parametrize("size", [5, 1000, 300_000])
def test_in_place(size):
    x, y = values(size, np.dtype("f4")), values(size, np.dtype("f4"))
    expected = run_map(FUSED, x, y)
    run_map(FUSED, x, y, out=[x])
    assert np.array_equal(x, expected)


def test_all_outputs_in_place_of_inputs():
    x, y = values(10_000, np.dtype("f4")), values(10_000, np.dtype("f4"))
    first, second = run_map(AFFINE, x, y, 0.5)
    run_map(AFFINE, x, y, 0.5, out=[y, x])
    assert np.array_equal(y, first)
    assert np.array_equal(x, second)


def test_index_and_size():
    def place(x, index, size):
        return x*0 + index, size - index

    spec = Map(parse(place), ("element", "index", "size"))
    for shape in ((200,), (4, 5, 6)):
        x = np.asfortranarray(values(shape, np.dtype("f8")))
        index, rest = run_map(spec, x)
        assert np.array_equal(index, np.arange(x.size).reshape(shape))
        assert np.array_equal(rest, x.size - np.arange(x.size).reshape(shape))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("shape", "other"), [
    ((40_001, 3), (1, 3)), ((40_001, 2), (40_001, 1)),
    ((173, 1, 401, 2), (1, 1, 401, 1)), ((31, 7, 61, 9), (31, 1, 61, 1)),
    ((2, 3, 5, 7, 11, 40), (3, 1, 7, 1, 40))], ids=str)
def test_rows_follow_one_another(shape, other, threads):
    """Of any rank, from any point on: the loops over rows count, they do not divide."""
    x = RNG.integers(-9, 9, (*shape[:-1], 2*shape[-1])).astype("f8")[..., ::-2]
    y = np.broadcast_to(RNG.integers(-9, 9, other).astype("f8"), shape)
    with config.override(num_threads=threads):
        assert np.array_equal(run_map(FUSED, x, y), x*y + x)


@pytest.mark.parametrize("shape", [(4, 3), (3, 2, 2)], ids=str)
def test_derivatives_of_short_rows(shape):
    """By two orders; the oracle is differences."""
    x, y = (RNG.uniform(0.5, 1.5, s) for s in (shape, shape[-1:]))
    nf.testing.gradcheck(lambda x, y: nf.ops.exp(x * y) / y, [x, y], order=2,
                         tolerance=2e-6)


@pytest.mark.parametrize("divisor", [1, 3, 6, 7, 12, 30, 60, 61, 10**6, 0, -1, -7])
@pytest.mark.parametrize("shape", [(60,), (10, 6), (5, 2, 6), (2, 30), (60, 1)],
                         ids=str)
def test_the_index_divided_by_a_number(shape, divisor):
    """Whether or not a row of the loop stays within one multiple of it."""
    def parts(x, index, d):
        return x*0 + index // d, index % d, d // 7

    x = values((*shape[:-1], 2*shape[-1]), np.dtype("f8"))[..., ::2]  # rows stay rows
    found = run_map(Map(parse(parts), ("element", "index", "scalar")), x, divisor)
    index = np.arange(60).reshape(shape)
    with np.errstate(divide="ignore"):
        expected = index // np.int64(divisor), index % np.int64(divisor)
    for f, e in zip(found, expected, strict=False):
        np.testing.assert_array_equal(f, e)


def test_the_index_divided_in_the_middle_of_rows():
    """Threads begin and end where they will; several numbers at once."""
    def parts(x, index, d, e):
        return x*0 + index // d, index % e, index % d

    x = values((7, 2*30_011), np.dtype("f4"))[:, ::2]
    index = np.arange(x.size).reshape(x.shape)
    spec = Map(parse(parts), ("element", "index", "scalar", "scalar"))
    for threads, (d, e) in itertools.product((1, 2, 3), (
            (30_011, 30_011), (7*30_011, 30_011), (60_022, 1 << 40), (30_010, 4))):
        with config.override(num_threads=threads):
            found = run_map(spec, x, d, e)
        for f, expected in zip(found, (index // d, index % e, index % d), strict=True):
            np.testing.assert_array_equal(f, expected.astype(f.dtype))


@pytest.mark.parametrize("columns", [5, 100])
def test_short_rows_of_a_table(columns):
    """Whole ones and cut ones, contiguous or not."""
    def gather(i, table, index, columns, rows):
        return load(table, i // rows, i % rows, index % columns)

    spec = Map(parse(gather), ("element", "raw", "index", "scalar", "scalar"))
    table = values((3, 40, columns), np.dtype("f4"))
    i = RNG.integers(0, 120, (3, 30_011, 1))
    wide = np.broadcast_to(i, (*i.shape[:2], columns))
    for x, threads in itertools.product(
            (table, table.swapaxes(1, 2).copy().swapaxes(1, 2)), (1, 3)):
        with config.override(num_threads=threads):
            found = run_map(spec, wide, x, columns, 40)
        np.testing.assert_array_equal(found, x.reshape(-1, columns)[i[..., 0]])


def test_raw_input_with_strides():
    def gather(i, table):
        return load(table, i, i + 1)*2

    table = np.asfortranarray(values((9, 10), np.dtype("f2")))[::-1]
    i = RNG.integers(0, 9, (3, 40))
    got = run_map(Map(parse(gather), ("element", "raw")), i, table)
    assert np.array_equal(got, table[i, i + 1]*2)


@pytest.mark.parametrize("dtype", ["f4", "i8", "f2"])
def test_scatter_counts_every_hit(dtype):
    def histogram(i, w, bins):
        atomic_add(bins, i, w)

    spec = Map(parse(histogram), ("element", "element", "scatter"), ((10,),))
    i, w = RNG.integers(0, 10, 100_000 if dtype != "f2" else 200), None
    w = np.ones(i.size, dtype)
    bins = np.zeros(10, dtype)
    run_map(spec, i, w, out=[], scatter=[bins])
    assert np.array_equal(bins, np.bincount(i, minlength=10))


def test_scalars_follow_the_dtype():
    x = values(50, np.dtype("f4"))
    first, _ = run_map(AFFINE, x, x, 1e300)
    assert np.array_equal(np.isinf(first), x != 0)


def test_the_number_of_threads_changes_no_bit():
    def soft(x):
        return x/(1.0 + exp(-x))

    x = values((300, 1001), np.dtype("f4"))
    spec = Map(parse(soft), ("element",))
    with config.override(num_threads=1):
        one = run_map(spec, x), run_map(spec, x[:, ::2])
    for threads in (2, 3):
        with config.override(num_threads=threads):
            assert np.array_equal(run_map(spec, x), one[0])
            assert np.array_equal(run_map(spec, x[:, ::2]), one[1])


def test_in_place_loops_are_vectorised(monkeypatch):
    """The text says that iterations are independent, so nothing checks for overlap."""
    seen = []
    emit = compiling._emit
    monkeypatch.setattr(compiling, "_emit",
                        lambda text, name: seen.append(text) or emit(text, name))

    def unique(x, y):
        return x*y - 0.123456

    with config.override(cache_disable=True):
        run_map(Map(parse(unique), ("element", "element")),
                values(9, np.dtype("f4")), values(9, np.dtype("f4")))
    assert " x float>" in seen[0]
    assert "memcheck" not in seen[0]
    assert "diff.check" not in seen[0]


def test_calls_from_many_threads():
    x = [values(200_000, np.dtype("f4")) for _ in range(8)]
    expected = [v*v + v for v in x]
    wrong = []

    def work(k):
        for _ in range(10):
            got = run_map(FUSED, x[k], x[k])
            if not np.allclose(got, expected[k], rtol=1e-6):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    with config.override(num_threads=3):
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_a_kernel_of_many_operands_is_right():
    names = [f"x{k}" for k in range(12)]
    spec = Map(parse(_sum_of(names)), ("element",)*12)
    x = [values(100, np.dtype("f8")) for _ in names]
    expected = list(itertools.accumulate(x))[-1]
    assert np.allclose(run_map(spec, *x), expected, rtol=1e-14)


def _sum_of(names):
    namespace = {}
    text = f"def total({', '.join(names)}):\n    return {' + '.join(names)}\n"
    exec(text, namespace)
    return namespace["total"]


@pytest.mark.parametrize("dtype", sampled(
    ["i1", "f2", "bfloat16", "f4", "c8", "c16"], "i1", "f4", "c16"))
@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 65, 130])
def test_rows_are_copied_as_bytes(dtype, columns):
    rng = np.random.default_rng(columns)
    size = 12 * columns * np.dtype(dtype).itemsize
    table = rng.integers(0, 256, size, np.uint8).view(dtype).reshape(12, columns)
    indices = rng.integers(-12, 12, 9)
    for given in (table, table[::-1]):
        found = nf.ops.take(given, indices)
        np.testing.assert_array_equal(found.view(np.uint8),  # NaNs as they are
                                      given[indices].view(np.uint8))
    cube = np.ascontiguousarray(np.broadcast_to(table, (3, *table.shape)))
    np.testing.assert_array_equal(nf.ops.take(cube, indices, 1).view(np.uint8),
                                  np.take(cube, indices, 1).view(np.uint8))


def test_rows_that_threads_cut():
    table = np.random.default_rng(0).normal(size=(4, 200_003)).astype("f4")
    for indices in ([3], [0, -1], [2, 2, 1, -4, 0]):
        np.testing.assert_array_equal(nf.ops.take(table, np.array(indices)),
                                      table[indices])


@pytest.mark.parametrize("count", [1023, 1024, 1055, 1056, 5000, 70_001])
@pytest.mark.parametrize("columns", [2, 5, 64, 65])
def test_rows_that_are_fetched_ahead(columns, count):
    rng = np.random.default_rng(count)
    table = rng.normal(size=(20_000, columns)).astype("f4")
    indices = rng.integers(-20_000, 20_000, count)
    for given in (indices, np.repeat(indices, 2)[::2], indices.astype("i4")):
        np.testing.assert_array_equal(nf.ops.take(table, given), table[indices])
