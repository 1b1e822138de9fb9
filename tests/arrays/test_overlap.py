"""Overlap, against sets of the addresses of every byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbfused.arrays import (
    Array,
    byte_range,
    describe,
    may_overlap,
    same_memory,
    self_overlaps,
)
from nbfused.arrays.libraries.numpy import NUMPY


def laid_out(pointer, shape, strides, dtype="f4", device="cpu"):
    return Array(pointer, shape, strides, np.dtype(dtype), device, None, False, NUMPY,
                 None)


def addresses(array):
    """First bytes of the elements, one for each index."""
    return [array.pointer + array.dtype.itemsize * sum(
        i * s for i, s in zip(index, array.strides, strict=True))
        for index in np.ndindex(array.shape)]


def all_bytes(array):
    return {first + k for first in addresses(array)
            for k in range(array.dtype.itemsize)}


@st.composite
def layouts(draw):
    ndim = draw(st.integers(0, 3))
    shape = tuple(draw(st.integers(0, 4)) for _ in range(ndim))
    strides = tuple(draw(st.integers(-6, 6)) for _ in range(ndim))
    dtype = np.dtype(draw(st.sampled_from(["int8", "float32"])))
    pointer = 4096 + draw(st.integers(-10, 10)) * dtype.itemsize
    return laid_out(pointer, shape, strides, dtype)


@given(layouts(), layouts())
def test_two_arrays_overlap_exactly_where_they_share_a_byte(a, b):
    assert may_overlap(a, b) == bool(all_bytes(a) & all_bytes(b))


@given(layouts())
def test_an_array_overlaps_itself_exactly_where_indices_meet(a):
    found = addresses(a)
    assert self_overlaps(a) == (len(set(found)) < len(found))


@given(layouts())
def test_the_range_bounds_every_byte_closely(a):
    found = all_bytes(a)
    bounds = byte_range(a)
    if found:
        assert (bounds.low, bounds.high) == (min(found), max(found) + 1)
    else:
        assert bounds.low == bounds.high


def test_interleaved_arrays_do_not_overlap():
    x = np.zeros((4, 6), np.float32)
    assert not may_overlap(describe(x[:, ::2]), describe(x[:, 1::2]))
    assert may_overlap(describe(x[:, ::2]), describe(x[:, 1:]))
    assert not may_overlap(describe(x), describe(x.copy()))


def test_arrays_on_two_devices_never_overlap():
    a = laid_out(64, (4,), (1,), "i1", "cuda:0")
    b = laid_out(64, (4,), (1,), "i1", "cuda:1")
    assert may_overlap(a, a)
    assert not may_overlap(a, b)
    assert not same_memory(a, b)


def test_the_same_memory_needs_the_same_layout():
    x = np.zeros((3, 4))
    assert same_memory(describe(x), describe(x[:]))
    assert same_memory(describe(x[:1]), describe(np.broadcast_to(x[0], (1, 4))))
    assert not same_memory(describe(x), describe(x.reshape(4, 3)))
    assert not same_memory(describe(x), describe(x[::-1]))
    assert not same_memory(describe(x[0]), describe(x[0].view(np.float32)[:4]))


def test_contrived_strides_of_large_arrays_count_as_overlapping():
    shape, strides = (3000, 3000), (2999, 3001)
    assert self_overlaps(laid_out(0, shape, strides))


@pytest.mark.parametrize("extent", [10**6, 10**9])
def test_plain_large_arrays_are_decided_at_once(extent):
    assert not self_overlaps(laid_out(0, (extent, 4), (4, 1)))
    assert self_overlaps(laid_out(0, (extent, 4), (0, 1)))
