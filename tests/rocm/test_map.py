"""Maps on ROCm against NumPy: every kind of operand, layout and dtype."""

from __future__ import annotations

import mmap

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Call, Signature
from nbfused.config import config
from nbfused.rocm import map as map_
from nbfused.scalar.language.names import atomic_add, load
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.typing.types import Weak
from nbfused.specs import Map

DEVICE = "rocm:0"
BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("f2", "f4", "f8")] + [BF16]
INTEGERS = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]
EPS = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 3e-7, "float64": 3e-16,
       "complex64": 1e-6, "complex128": 1e-15}
RNG = np.random.default_rng(0)


@nf.elementwise
def affine(x, y, c):
    return x*c + y, y - x


@nf.elementwise
def fused(x, y):
    return x*y + x


def values(shape, dtype):
    if dtype.kind in "iu":
        return RNG.integers(0, 100, shape).astype(dtype)
    x = RNG.standard_normal(shape)
    return (x + 1j*RNG.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


def put(x):
    return nf.array(x, device=DEVICE)


def assert_affine(x, y, take=lambda x: x, take_y=lambda y: y, c=1.5):
    """`take` and `take_y` make views, of host and of device arrays."""
    got = affine(take(put(x)), take_y(put(y)), c)
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    a, b = take(x).astype(wide), take_y(y).astype(wide)
    for result, expected in zip(got, (a*c + b, b - a), strict=True):
        found = nf.to_numpy(result)
        assert found.dtype == x.dtype
        assert found.shape == expected.shape
        error = np.abs(found.astype(wide) - expected)
        assert np.all(error <= EPS[x.dtype.name]*(1 + np.abs(a*c) + np.abs(b)))


# --- sizes and dtypes


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [1, 3, 8, 17, 255, 256, 2049, 70001])
def test_sizes_around_the_width_of_accesses(dtype, size):
    assert_affine(values(size, dtype), values(size, dtype))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_and_scalars(dtype):
    x, y = (values((3, 11), np.dtype(dtype)) for _ in "xy")
    assert_affine(x, y, c=2 - 1j)
    assert_affine(x, y, lambda z: z[:, ::-2], lambda z: z[:, ::2], c=0.5)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap_around(dtype):
    x, y = values(77, dtype), values(77, dtype)
    for take in (lambda x: x, lambda x: x[::-3]):
        got = nf.to_numpy(fused(take(put(x)), take(put(y))))
        assert np.array_equal(got, take(x)*take(y) + take(x))
        assert got.dtype == dtype


@pytest.mark.parametrize("step", [1, 2])
def test_bools_are_stored_as_0_and_1(step):
    @nf.elementwise
    def both(a, b):
        return (a & b) | (a == b)

    a, b = RNG.random(101) < 0.5, RNG.random(101) < 0.5
    got = nf.to_numpy(both(put(a)[::step], put(b)[::step]))
    assert np.array_equal(got, ((a & b) | (a == b))[::step])
    assert set(got.view(np.uint8)) <= {0, 1}


def test_dtypes_of_many_sizes_in_one_kernel():
    @nf.elementwise
    def mixed(a, b, c, d):
        return a + b, c & (d > 0)

    a, b = values(1001, np.dtype("f2")), values(1001, np.dtype("c16"))
    c, d = RNG.random(1001) < 0.5, values(1001, np.dtype("i1"))
    first, second = mixed(*map(put, (a, b, c, d)))
    assert np.allclose(nf.to_numpy(first), a + b, rtol=1e-14)
    assert np.array_equal(nf.to_numpy(second), c & (d > 0))


# --- layouts


LAYOUTS = {
    "c": lambda x: x,
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[..., ::-1],
    "every second": lambda x: x[..., ::2],
    "every third backwards": lambda x: x[..., ::-3],
    "all reversed": lambda x: x[tuple(slice(None, None, -1) for _ in x.shape)],
    "holes everywhere": lambda x: x[tuple(slice(None, None, 2) for _ in x.shape)],
    "begins within an access": lambda x: x[..., 1:],
}
SHAPES = [(), (5,), (3, 70), (4, 1, 9), (2, 3, 4, 5), (3, 2, 4, 2, 7)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides(shape, layout):
    take = LAYOUTS[layout] if shape else lambda x: x
    x, y = (values(shape, np.dtype("f4")) for _ in "xy")
    assert_affine(x, y, take, take)
    other = values(take(x).shape, np.dtype("f4"))
    assert_affine(x, other, take)
    assert_affine(other, y, take_y=take)


@pytest.mark.parametrize("shape", [(1,), (6, 1), (72,), (5, 1, 1), (1, 6, 72)], ids=str)
@pytest.mark.parametrize("dtype", ["f2", "f8"])
def test_broadcast(shape, dtype):
    x, y = values((5, 6, 72), np.dtype(dtype)), values(shape, np.dtype(dtype))
    assert_affine(x, y)
    assert_affine(y, x)


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 4, 5)], ids=str)
def test_nothing_to_compute(shape):
    x = put(values(shape, np.dtype("f4")))
    first, second = affine(x, x, 2.0)
    assert first.shape == second.shape == shape


def near(found, expected, scale):
    """Within rounding of the terms: a GPU may multiply and add in one."""
    assert np.all(abs(found - expected) <= 1e-6*scale)


def test_strided_output():
    x = values((6, 40), np.dtype("f4"))
    room = put(np.full((40, 12), 7, np.float32))
    fused(put(x), put(x), out=room.T[::2])
    found = nf.to_numpy(room)
    near(found[:, ::2], (x*x + x).T, (x*x + abs(x)).T)
    assert np.all(found[:, 1::2] == 7)


@pytest.mark.parametrize("step", [1, -1, 2])
def test_in_place(step):
    x, y = values(1000, np.dtype("f4")), values(1000, np.dtype("f4"))
    target = put(x)[::step]
    fused(target, put(y)[::step], out=target)
    near(nf.to_numpy(target), (x*y + x)[::step], (abs(x*y) + abs(x))[::step])


@pytest.mark.parametrize("dtype", [BF16, np.dtype("i4"), np.dtype("c8")], ids=str)
def test_output_of_another_dtype(dtype):
    x = values(100, np.dtype("f4"))
    out = nf.empty((100,), dtype, device=DEVICE)
    fused(put(x), put(x), out=out, casting="unsafe")
    near(nf.to_numpy(out).astype("c8"), (x*x + x).astype(dtype).astype("c8"),
         (x*x + abs(x))*(1e4 if dtype == BF16 else 1))


# --- what is no element


def run(function, kinds, inputs, outputs, scatter=()):
    """A Map on contiguous arrays, launched without the dispatcher."""
    spec = Map(parse(function), kinds, tuple((0,)*y.ndim for y in scatter))
    named = [k for k in kinds if k not in ("index", "size", "scatter")]
    arrays = [put(x) for x in inputs if isinstance(x, np.ndarray)]
    arrays += [put(y) for y in (*outputs, *scatter)]
    kinds = [k for k in named if k != "scalar"] + ["element"]*len(outputs)
    kinds += ["raw"]*len(scatter)
    codes = tuple("1" if k == "element" else f"r{a.ndim}"
                  for k, a in zip(kinds, arrays, strict=True))
    types = tuple(x.dtype if isinstance(x, np.ndarray) else Weak(type(x).__name__)
                  for x in inputs)
    (shape,) = {a.shape for k, a in zip(kinds, arrays, strict=True) if k == "element"}
    map_.build_map(spec, Signature(types, tuple(y.dtype for y in (*outputs, *scatter)),
                                   (len(shape),), codes))(Call(
        shape, tuple(a.pointer for a in arrays), tuple(a.strides for a in arrays),
        tuple(x for x in inputs if not isinstance(x, np.ndarray))))
    return [nf.to_numpy(a) for a in arrays[len(arrays) - len(outputs) - len(scatter):]]


@pytest.mark.parametrize("shape", [(203,), (4, 5, 6)], ids=str)
def test_index_and_size(shape):
    def place(x, index, size):
        return x*0 + index, size - index

    x = values(shape, np.dtype("f8"))
    index, rest = run(place, ("element", "index", "size"), [x],
                      [x, np.zeros(shape, np.int64)])
    assert np.array_equal(index, np.arange(x.size).reshape(shape))
    assert np.array_equal(rest, x.size - np.arange(x.size).reshape(shape))


@pytest.mark.parametrize("dtype", ["f2", "f4", "i4", "c8", "?"])
def test_arrays_that_the_function_indexes(dtype):
    def gather(i, table, c):
        return load(table, i, i + 1)*c

    table, i = values((9, 10), np.dtype(dtype)), RNG.integers(0, 9, (3, 41))
    expected = table[i, i + 1]*2
    found, = run(gather, ("element", "raw", "scalar"), [i, table, 2],
                 [np.zeros_like(expected)])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f2", BF16, "f4", "f8", "i4", "u8", "i2", "c8"],
                         ids=str)
def test_scatter_counts_every_hit(dtype):
    def histogram(i, w, bins):
        atomic_add(bins, i, w)

    i = RNG.integers(0, 10, 1234)
    w = np.ones(i.size, dtype)
    found, = run(histogram, ("element", "element", "scatter"), [i, w], [],
                 [np.zeros(10, dtype)])
    assert np.array_equal(found.astype("f8" if np.dtype(dtype).kind != "c" else "c16"),
                          np.bincount(i, minlength=10))


def test_scatter_beside_results():
    def both(x, i, bins):
        atomic_add(bins, i, 1, x)
        return x*2

    x, i = values(300, np.dtype("f8")), RNG.integers(0, 4, 300)
    found, bins = run(both, ("element", "element", "scatter"), [x, i], [x],
                      [np.zeros((4, 2))])
    assert np.array_equal(found, x*2)
    assert np.allclose(bins[:, 1], np.bincount(i, x, 4), rtol=1e-13)
    assert not bins[:, 0].any()


def test_a_number_beyond_its_dtype_is_infinite():
    x = values(50, np.dtype("f4"))
    first, _ = affine(put(x), put(x), 1e300)
    assert np.array_equal(np.isinf(nf.to_numpy(first)), x != 0)


@pytest.mark.parametrize("step", [1, 2])
def test_names_of_parameters_that_the_text_uses_too(step):
    @nf.elementwise
    def swap(r1, r0, w, k, p0, y0, points):
        return r0, r1 + w + k + p0 + y0 + points

    x = values((7, 90), np.dtype("f4"))
    first, second = swap(*(put(row)[::step] for row in x))
    assert np.array_equal(nf.to_numpy(first), x[1, ::step])
    assert np.allclose(nf.to_numpy(second), (x.sum(0) - x[1])[::step], atol=1e-5)


@pytest.mark.parametrize("step", [2**31 + 8, -2**31 - 8])
def test_offsets_beyond_32_bits(step):
    """Memory of the host, most of which is never touched."""
    if config.rocm_emulate != "1":
        pytest.skip("memory of the host, in place of a device's")
    room = np.frombuffer(mmap.mmap(-1, 2*abs(step) + 64, mmap.MAP_PRIVATE), np.uint8)
    x, y = room[16:][::step][:3], room[:-16][::step][:3]
    x[:] = 1, 2, 3
    spec = Map(parse(lambda x, table: x + load(table, 2)), ("element", "raw"))
    signature = Signature((x.dtype, x.dtype), (x.dtype,), (1,), ("s", "r1", "s"))
    map_.build_map(spec, signature)(Call(
        (3,), (x.ctypes.data, x.ctypes.data, y.ctypes.data), ((step,),)*3))
    assert y.tolist() == [4, 5, 6]


# --- launches


class Program:
    """Records what would be launched."""

    launched: list[tuple[object, ...]] = []  # noqa: RUF012

    def __init__(self, kernel):
        self.kernel = kernel

    def launch(self, *arguments):
        assert len(arguments[3]) == len(self.kernel.parameters)
        self.launched.append((self.kernel.text, *arguments))


@pytest.fixture
def launched(monkeypatch):
    """What a Map of two float32 arrays launches, for a shape, pointers and strides."""
    monkeypatch.setattr(map_, "Program", Program)
    monkeypatch.setattr(map_, "device", lambda ordinal: ordinal)

    def launch(shape, pointers=(0, 256), strides=None):
        dense = tuple(int(np.prod(shape[k + 1:])) for k in range(len(shape)))
        strides = strides or (dense, dense)
        codes = tuple({1: "1", 0: "0"}.get(s[-1], "s") for s in strides)
        signature = Signature((FLOATS[1],), (FLOATS[1],), (len(shape),), codes)
        spec = Map(parse(lambda x: x*2), ("element",))
        map_.build_map(spec, signature)(Call(shape, pointers, strides, (), 0, 7))
        text, _, stream, blocks, given = Program.launched.pop()
        assert stream == 7
        assert given[:2] == pointers
        return ("map_neighbours<F, 4>" in text), blocks, given

    return launch


def test_accesses_of_16_bytes_where_all_are_aligned(launched):
    assert launched((4096,))[:2] == (True, 4)
    assert launched((4097,))[:2] == (True, 5)
    assert launched((4096,), (4, 256))[0] is False
    assert launched((4096,), (0, 264))[0] is False
    assert launched((8, 64), strides=((128, 1), (64, 1)))[0] is True
    assert launched((8, 64), strides=((0, 1), (64, 1)))[0] is True
    assert launched((8, 64), strides=((65, 1), (64, 1)))[0] is False
    assert launched((8, 63))[0] is False
    assert launched((8, 64), strides=((1, 0), (64, 1)))[0] is True
    assert launched((8, 64), strides=((128, 2), (64, 1)))[0] is False
    assert launched((64,), strides=((-1,), (1,)))[0] is False


def test_blocks_take_several_groups_of_what_is_too_large(launched):
    near, blocks, given = launched((2**40,))
    assert near
    assert blocks == map_.MOST_BLOCKS
    assert given == (0, 256, 2**40)
