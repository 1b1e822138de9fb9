"""Maps of every second element, some of which are copied at once."""

from __future__ import annotations

import ctypes
import mmap

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.cpu import map as maps
from nbfused.cpu.map import _COPIED
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map
from tests.cpu.skeletons import run_map
from tests.variants import sampled

RNG = np.random.default_rng(77)
SHAPES = [(3, 63), (3, 64), (2, 65), (4, 5, 100), (2, _COPIED), (2, _COPIED + 1),
          (3, 2*_COPIED + 70), (150_001,)]
DTYPES = sampled(["float32", "float64", "float16", "bfloat16", "int32", "int8",
                  "complex64"], "float32", "float16", "int8")


def second(shape, dtype):
    """Every second of some numbers, the others of which would be noticed."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    whole = np.full((*shape[:-1], 2*shape[-1]), 99).astype(kind)
    whole[..., ::2] = RNG.integers(-9, 10, shape).astype(kind)
    return whole[..., ::2]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_against_numpy(shape, dtype):
    """Whole numbers, so that nothing is rounded."""
    x, y = second(shape, dtype), second(shape, dtype)
    dense, column = np.ascontiguousarray(y), y[..., :1]
    for a, b in ((x, y), (x, dense), (dense, x), (x, column), (x, x),
                 (x[..., ::-1], y)):
        expected = a.astype(np.complex128)*b.astype(np.complex128) + 1
        found = run_map(Map(parse(lambda a, b: a*b + 1), ("element", "element")), a, b)
        np.testing.assert_array_equal(found.astype(np.complex128), expected)


def test_kernels_that_copy(monkeypatch):
    texts = []
    build = maps.build
    monkeypatch.setattr(maps, "build", lambda text: texts.append(text) or build(text))
    twice = Map(parse(lambda x: 2*x), ("element",))
    for shape, copies in (((20, 64), True), ((20, 63), False)):
        x = second(shape, "float32")
        texts.clear()
        np.testing.assert_array_equal(run_map(twice, x), 2*x)
        assert ["copy_every_second" in text for text in texts] == [copies]


def test_results_in_place_and_apart():
    x = second((5, 3000), "float32")
    whole = np.full((5, 6000), 7, np.float32)
    out = whole[:, ::2]
    nf.ops.add(x, x, out=out)
    np.testing.assert_array_equal(out, 2*x)
    np.testing.assert_array_equal(whole[:, 1::2], 7)
    expected = out.astype(float)**2
    nf.ops.square(out, out=out)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(whole[:, 1::2], 7)


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_of_threads(threads):
    x = second((7, 40_001), "float32")
    with config.override(num_threads=threads):
        found = nf.ops.exp(x/8)
    np.testing.assert_allclose(found, np.exp2(x.astype(float)/8*np.log2(np.e)), 1e-6)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
@pytest.mark.parametrize("count", [64, 65, 128, 1000, _COPIED])
def test_nothing_is_read_beyond_the_last_element(dtype, count):
    """A page that nobody may read begins there."""
    size, dtype, protect = 4*mmap.PAGESIZE, np.dtype(dtype), ctypes.CDLL(None).mprotect
    room = mmap.mmap(-1, 2*size)
    end = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(room)) + size)
    assert protect(end, size, mmap.PROT_READ & mmap.PROT_WRITE) == 0
    numbers = np.frombuffer(room, dtype, size // dtype.itemsize)
    numbers[:] = np.arange(numbers.size) % 50
    x = numbers[1::2][-count:]
    np.testing.assert_array_equal(nf.ops.add(x, x), 2*x.astype(float))
    assert protect(end, size, mmap.PROT_READ | mmap.PROT_WRITE) == 0
