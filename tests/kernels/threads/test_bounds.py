"""Indices that lie outside their arrays are found under ``NBFUSED_DEBUG=1``."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest

import nbfused as nf
from nbfused.autograd import apply
from nbfused.config import config
from nbfused.errors import NbFusedError
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map


@pytest.fixture
def debug() -> Iterator[None]:
    with config.override(debug=True):
        yield


def outside(array: str, index: int, axis: int, size: int) -> str:
    return re.escape(f"index {index} of '{array}' is out of bounds for axis {axis} of "
                     f"size {size};")


@nf.rawkernel(differentiable=True)
def copy(x, y, shift):
    i = nf.grid(1)
    y[i] = x[i + shift]


@nf.rawkernel
def flip(x, y):
    i, j = nf.grid(2)
    y[j, i] = x[i, j]


@nf.rawkernel
def tally(x, y):
    i = nf.grid(1)
    old = nf.atomic.add(y, x[i], 1.0)
    nf.atomic.cas(y, x[i] + 1, old, 5.0)


@nf.rawkernel
def through_shared(x, y, k):
    room = nf.shared.array((4, 2), np.float32)
    t = nf.threadIdx.x
    room[t, k] = x[t]
    nf.syncthreads()
    y[t] = room[3 - t, k]


def test_loads_of_threads(device, debug):
    x, y = nf.array(np.arange(5.0), device=device), nf.zeros(5, device=device)
    copy[1, 5](x, y, 0)
    np.testing.assert_array_equal(nf.to_numpy(y), np.arange(5.0))
    with pytest.raises(NbFusedError, match=outside("x", 5, 0, 5)) as caught:
        copy[1, 5](x, y, 1)
    assert isinstance(caught.value, IndexError)
    assert "test_bounds.py:" in str(caught.value)
    assert "copy" in str(caught.value)
    np.testing.assert_array_equal(nf.to_numpy(y), [1, 2, 3, 4, 0])  # nothing was read
    with pytest.raises(IndexError, match=outside("x", -1, 0, 5)):
        copy[1, 5](x, y, -1)


def test_stores_name_their_axis(device, debug):
    x = nf.array(np.arange(6.0).reshape(2, 3), device=device)
    y = nf.zeros((3, 2), device=device)
    flip[1, (2, 3)](x, y)
    np.testing.assert_array_equal(nf.to_numpy(y), np.arange(6.0).reshape(2, 3).T)
    with pytest.raises(IndexError, match=outside("y", 2, 1, 2)):
        flip[1, (3, 3)](nf.zeros((3, 3), device=device), y)


def test_atomics(device, debug):
    x = nf.array(np.array([0, 1, 2]), device=device)
    y = nf.zeros(4, device=device)
    tally[1, 3](x, y)
    with pytest.raises(IndexError, match=outside("y", 3, 0, 3)):
        tally[1, 3](x, y[:3])
    with pytest.raises(IndexError, match=outside("y", -7, 0, 4)):
        tally[1, 3](nf.array(np.array([0, -7, 2]), device=device), y)


def test_arrays_of_a_block(device, debug):
    x = nf.array(np.arange(5, dtype=np.float32), device=device)
    y = nf.zeros(5, "float32", device=device)
    through_shared[1, 4](x, y, 1)
    np.testing.assert_array_equal(nf.to_numpy(y), [3, 2, 1, 0, 0])
    with pytest.raises(IndexError, match=outside("room", 2, 1, 2)):
        through_shared[1, 4](x, y, 2)
    with pytest.raises(IndexError, match=outside("room", 4, 0, 4)):
        through_shared[1, 5](x, y, 0)


def test_derivatives_of_kernels(device, debug):
    x, y = nf.zeros(4, device=device), nf.zeros(5, device=device)
    dx, dy = nf.zeros(4, device=device), nf.full((5,), 1.0, device=device)
    with pytest.raises(IndexError, match=outside("x[1]", 4, 0, 4)):
        copy.bwd[1, 5]((x, dx), (y, dy), 0)


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "complex64"])
def test_what_is_left_out_is_zero_of_every_dtype(device, debug, dtype):
    y = nf.full(3, 1, dtype, device=device)
    with pytest.raises(IndexError, match="'x'"):
        copy[1, 3](nf.full(2, 1, dtype, device=device), y, 0)
    np.testing.assert_array_equal(nf.to_numpy(y), [1, 1, 0])


def test_raw_arguments_of_elementwise_kernels(device, debug):
    gather = nf.ElementwiseKernel("raw T x, int64 at", "T y", "y = x[at + i]", "gather")
    x = nf.array(np.arange(6.0).reshape(2, 3), device=device)
    found = gather(x, nf.array(np.array([0, 2, 3]), device=device))
    np.testing.assert_array_equal(nf.to_numpy(found), [0, 3, 5])
    with pytest.raises(IndexError, match=outside("x", 6, 0, 6)):
        gather(x, nf.array(np.array([0, 2, 4]), device=device))
    spread = nf.ElementwiseKernel("T x, int64 at", "raw T y", "y[at] = x", "spread")
    at = nf.array(np.array([0, -1]), device=device)
    with pytest.raises(IndexError, match=f"spread: {outside('y', -1, 0, 3)}"):
        spread(1.5, at, nf.zeros(3, device=device))


def test_raw_arguments_of_reductions(device, debug):
    weighted = nf.ReductionKernel("T x, raw T w", "T y", "x * w[_j]", "a + b", "y = a",
                                  "0", "weighted")
    x = nf.array(np.arange(6.0), device=device)
    assert float(nf.to_numpy(weighted(x, x))) == 55
    with pytest.raises(IndexError, match=outside("w", 5, 0, 5)):
        weighted(x, x[:5])


def pick(x, i, j):
    return nf.load(x, i, j)


def test_raw_inputs_of_a_map(device, debug):
    spec = Map(parse(pick), ("raw", "element", "element"))
    x = nf.Variable(nf.array(np.arange(6.0).reshape(2, 3), device=device),
                    requires_grad=True)
    i, j = (nf.array(np.array(v), device=device) for v in ([0, 1], [2, 1]))
    (y,) = apply(spec, [x, i, j], names=("table", "i", "j"))
    np.testing.assert_array_equal(nf.to_numpy(y.data), [2, 4])
    y.sum().backward()
    np.testing.assert_array_equal(nf.to_numpy(x.grad), [[0, 0, 1], [0, 1, 0]])
    with pytest.raises(IndexError, match=outside("table", 2, 0, 2)):
        apply(spec, [x, j, i], names=("table", "i", "j"))


def branches(text):
    return len(re.findall(r"\bif\b", text))


def test_nothing_is_looked_at_otherwise(device):
    kind = "hip" if device == "rocm" else "numba"
    x, y = nf.zeros(5, device=device), nf.zeros(5, device=device)
    with config.override(debug=False):
        plain = copy.source(kind, x, y, 1)
    with config.override(debug=True):
        assert branches(copy.source(kind, x, y, 1)) == branches(plain) + 4
    assert all("int64[2]" not in key for key in copy.cached_signatures)
