"""Definitions and options that no kernel has: named errors, nothing launched."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import (
    DefinitionError,
    KernelTypeError,
    NbFusedError,
    RangeError,
    ScalarSyntaxError,
)


def elementwise(body, x):
    return nf.ElementwiseKernel("T x", "T y", body, "k")(x)


def reduction(body, x):
    return nf.ReductionKernel("T x", "T y", body, "a + b", "y = a", "0", "k")(x)


def finished(body, x):
    return nf.ReductionKernel("T x", "T y", "x", "a + b", body, "0", "k")(x)


def combined(body, x):
    return nf.ReductionKernel("T x", "T y", "x", lambda a, b: a + body(b), "y = a",
                              "0", "k")(x)


@pytest.mark.parametrize("run", [elementwise, reduction, finished])
def test_a_builtin_that_is_no_function_of_numbers(run):
    with pytest.raises(ScalarSyntaxError, match="has no len"):
        run(len, np.arange(3.0))


def place(x):
    return x + nf.threadIdx.x


def index(x):
    return x + nf.grid(1)


def lane(x):
    return x + nf.laneid


def barrier(x):
    nf.syncthreads()
    return x


def of_warp(x):
    nf.syncwarp()
    return x


def shuffle(x):
    return nf.shfl_sync(0xffffffff, x, 0)


def shared(x):
    room = nf.shared.array(4, np.float32)
    room[0] = x
    return room[0]


def row(body, x):
    return nf.row(body)(x)


def decorated(body, x):
    return nf.elementwise(body)(x)


RUNS = [elementwise, reduction, finished, row, decorated]
THREADS = [place, index, lane, barrier, of_warp, shuffle, shared]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("body", THREADS)
def test_what_only_threads_have(run, body):
    with nf.trace_launches() as launches, \
            pytest.raises(KernelTypeError, match=r"in @nf\.rawkernel only"):
        run(body, np.arange(3.0))
    assert not launches


@pytest.mark.parametrize("body", [place, shuffle])
def test_what_only_threads_have_where_states_are_combined(body):
    with pytest.raises(NbFusedError, match=r"@nf\.rawkernel"):
        combined(nf.func(body), np.arange(3.0))


@pytest.mark.parametrize("body", [
    lambda x: x[0], lambda x: nf.atomic.add(x, 0, 1), lambda x: nf.load(x, 0)])
@pytest.mark.parametrize("run", [elementwise, reduction, finished])
def test_an_element_is_not_indexed(run, body):
    with pytest.raises(NbFusedError, match="one element here and cannot be indexed"):
        run(body, np.arange(3.0))


def test_a_raw_array_is():
    kernel = nf.ElementwiseKernel("raw T x", "T y", lambda x, i: x[2 - i], "k")
    np.testing.assert_array_equal(kernel(np.arange(3.0), size=3), [2, 1, 0])


@pytest.mark.parametrize("size", [2**56 + 1, 2**62, 2**70])
def test_more_points_than_can_be(size):
    kernel = nf.ElementwiseKernel("raw T x", "raw T y", "y[0] = x[0]", "k")
    with pytest.raises(RangeError, match=f"'size' is {size}; expected at most"):
        kernel(np.arange(3.0), np.zeros(3), size=size)


@pytest.mark.parametrize("names", [3, None, 1.5])
@pytest.mark.parametrize("decorator", [nf.func, nf.elementwise])
def test_names_that_are_none(decorator, names):
    with pytest.raises(KernelTypeError, match="'nondiff_argnames' must be a name"):
        decorator(nondiff_argnames=names)(lambda x: x)


def test_a_file_that_cannot_be_read(tmp_path):
    for path in (tmp_path / "missing.cubin", tmp_path, 3.5, "a\0b"):
        with pytest.raises(DefinitionError, match=r"'path' .* cannot be read"):
            nf.RawModule(path=path)


@nf.rawkernel(differentiable=True)
def weighted(p, y):
    i = nf.grid(1)
    y[i] = p.x[i] * p.w[i] * p.scale


def test_pairs_of_structs(device):
    x, dx, w, dw, y, dy = (nf.array(np.arange(1.0, 4) * k, device=device)
                           for k in range(1, 7))
    p = {"x": x, "w": w, "scale": 2.0}
    dp = {"x": dx, "w": dw, "scale": None}
    weighted.bwd[1, 3](nf.Dual(p, dp), (y, dy))
    k = np.arange(1.0, 4)
    np.testing.assert_array_equal(nf.to_numpy(dx), 2*k + 6*k * 3*k * 2)
    np.testing.assert_array_equal(nf.to_numpy(dw), 4*k + 6*k * k * 2)
    with pytest.raises(KernelTypeError, match="the fields x, w, scale, got x, w"):
        weighted.bwd[1, 3](nf.Dual(p, {"x": dx, "w": dw}), (y, dy))
    with pytest.raises(KernelTypeError, match="the fields x, w, scale, got float"):
        weighted.bwd[1, 3](nf.Dual(p, 1.0), (y, dy))


@pytest.mark.parametrize("text", ["T(i) x", "T w, T(m, n) x"])
def test_core_dimensions_of_a_parameter(text):
    """CuPy's newest kernels are gufuncs by these."""
    with pytest.raises(DefinitionError, match=r"core dimensions.*nf.row"):
        nf.ElementwiseKernel(text, "T y", "y = 0")
