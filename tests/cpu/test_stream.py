"""Streamed results are those of the plain kernel, and nothing else is touched."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbfused.config import config
from nbfused.cpu import map as mapping
from nbfused.cpu.text import stream
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map
from tests.cpu.skeletons import run_map

SQUARE = Map(parse(lambda x: x*x + 1), ("element",))
BOTH = Map(parse(lambda x, y: (x + y, x - y)), ("element", "element"))
DTYPES = [np.dtype(t) for t in ("i1", "f2", "f4", "f8", "c16", ml_dtypes.bfloat16)]
SIZES = [1, 1000, 70_001, 262_144]


@pytest.fixture
def streamed(monkeypatch):
    """Everything counts as large; what was streamed."""
    seen, streaming = [], stream.with_streaming

    def counted(*args):
        seen.append(args)
        return streaming(*args)

    monkeypatch.setattr(stream, "_last_cache", lambda: 1)
    monkeypatch.setattr(mapping, "with_streaming", counted)
    with config.override(num_threads=3):
        yield seen


def inside(size, dtype, skip):
    """An array that begins `skip` elements after a line, between poisoned ones."""
    room = np.empty(size + 256, dtype)
    room.view(np.uint8)[...] = 0x7b
    at = (-room.ctypes.data % 64)//room.itemsize + 64 + skip
    return room, room[at:at + size]


def untouched(room, array):
    before = (array.ctypes.data - room.ctypes.data)
    whole = room.view(np.uint8)
    return np.all(whole[:before] == 0x7b) and \
        np.all(whole[before + array.nbytes:] == 0x7b)


@pytest.mark.parametrize("skip", [0, 1, 5])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_dtype_and_beginning(streamed, dtype, size, skip):
    x = np.random.default_rng(0).integers(0, 5, size).astype(dtype)
    room, y = inside(size, dtype, skip)
    run_map(SQUARE, x, out=[y])
    assert streamed
    assert np.array_equal(y, x*x + np.ones(1, dtype))
    assert untouched(room, y)


@pytest.mark.parametrize("size", SIZES)
def test_several_outputs(streamed, size):
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(size).astype(np.float32) for _ in "ab")
    (room_a, a), (room_b, b) = (inside(size, np.float32, 3) for _ in "ab")
    run_map(BOTH, x, y, out=[a, b])
    assert len(streamed) == 1
    assert np.array_equal(a, x + y)
    assert np.array_equal(b, x - y)
    assert untouched(room_a, a)
    assert untouched(room_b, b)


def test_outputs_that_begin_at_different_places_of_a_line(streamed):
    x = np.arange(70_001, dtype=np.float32)
    (_, a), (_, b) = inside(x.size, np.float32, 1), inside(x.size, np.float32, 2)
    run_map(BOTH, x, x, out=[a, b])
    assert not streamed
    assert np.array_equal(a, x + x)
    assert not b.any()


def test_in_place(streamed):
    _, x = inside(70_001, np.float32, 1)
    x[...] = expected = np.arange(x.size) % 7
    run_map(SQUARE, x, out=[x])
    assert not streamed
    assert np.array_equal(x, expected**2 + 1)


def test_strided_and_small_results(streamed, monkeypatch):
    x = np.arange(70_001, dtype=np.float32)
    run_map(SQUARE, x, out=[np.empty((x.size, 2), np.float32)[:, 0]])
    run_map(SQUARE, np.ones((300, 300), np.float32).T)
    with config.override(num_threads=1):
        run_map(SQUARE, x)
    monkeypatch.setattr(stream, "_last_cache", lambda: 1 << 20)
    run_map(SQUARE, x)
    assert not streamed


def test_the_bits_are_those_of_the_plain_kernel(streamed, monkeypatch):
    swish = Map(parse(lambda x: x/(1 + np.exp(-x))), ("element",))
    x = np.random.default_rng(2).standard_normal(123_457).astype(np.float32)
    far, near = np.empty_like(x), np.empty_like(x)
    run_map(swish, x, out=[far])
    assert len(streamed) == 1
    monkeypatch.setattr(stream, "_last_cache", lambda: 1 << 60)
    run_map(swish, x, out=[near])
    assert len(streamed) == 1
    assert np.array_equal(far, near)


def test_the_size_of_the_last_cache_is_plausible():
    assert 1 << 18 <= stream._last_cache() <= 1 << 32
