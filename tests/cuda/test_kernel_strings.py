"""CuPy's kernels compile for CUDA, their derivatives too; no GPU needed."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.cuda.runtime import compile
from nbfused.errors import CompileError
from nbfused.kernels import ElementwiseKernel, ReductionKernel
from tests.cuda.recorded import assembled, recording
from tests.variants import sampled

try:
    compile._numba_cuda()
except CompileError as missing:
    pytest.skip(str(missing), allow_module_level=True)

X = np.linspace(0.5, 1, 4096, dtype=np.float32).reshape(64, 64)
K = (np.arange(4096, dtype=np.int32) % 64).reshape(64, 64)

KERNELS = {
    "generic": (ElementwiseKernel("T x, T y", "T z", "T d = x - y; z = d * d;"), X, X),
    "raw": (ElementwiseKernel("T x, raw T y", "T z",
                              "z = x + y[_ind.size() - i - 1]"), X, X),
    "loops": (ElementwiseKernel(
        "T x, T y", "T z", "T s = x; for (int k = 0; k < 20; k++) { if (s > 9) break; "
        "s += s * y / (k + 1); } while (s > 2) s *= 0.5f; z = s;"), X, X),
    "array": (ElementwiseKernel(
        "T x, T y", "T z", "T v[4] = {x, y}; for (int k = 0; k < 4; ++k) "
        "v[(k + 1) & 3] += v[k]; z = v[0];"), X, X),
    "function": (ElementwiseKernel(
        "T x, T y", "T z", "z = f(x) * max(x, y) / (1 + fabsf(y))",
        preamble="template<typename U> __device__ U f(U v) "
                 "{ return v > 1 ? v : expf(v); }"), X, X),
    "integers": (ElementwiseKernel(
        "T x, int32 k", "T z, int8 j", "z = x * (k / 3) + k % 5; j = (k << 2) | 3"),
        X, K),
    "sum": (ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = sqrt(a)", "0"),
            X, X),
    "maximum": (ReductionKernel("T x", "T z", "x", "max(a, b)", "z = a", "-INFINITY"),
                X),
    "other": (ReductionKernel("T x", "T z", "x", "a + b + a * b", "z = a", "0"), X),
    "no identity": (ReductionKernel("T x", "T z", "x", "hypotf(a, b)", "z = a", None),
                    X),
}


@pytest.mark.parametrize("name", sampled(
    KERNELS, "array", "integers", "sum"))
def test_kernel_and_its_derivative(name):
    kernel, *args = KERNELS[name]
    with recording() as found:
        leaves = [nf.Variable(a, requires_grad=True) if a.dtype == np.float32 else a
                  for a in args]
        result = kernel(*leaves)
        first = result[0] if isinstance(result, tuple) else result
        first.sum().backward()
    assert len(found) >= 2
    for one in found.values():
        code, _ = assembled(one)
        assert ".f64" not in code, one.text


def test_stores_and_atomics():
    store = ElementwiseKernel("raw T x", "raw T y", "y[n - 1 - i] = x[i];")
    count = ElementwiseKernel("int32 k", "raw int32 y", "atomicAdd(&y[k], 1)")
    with recording() as found:
        store(nf.Variable(X, requires_grad=True), size=4096).sum().backward()
        count(K, np.zeros(64, np.int32))
    texts = "".join(assembled(one)[0] for one in found.values())
    assert "atom.global.add" in texts or "red.global.add" in texts


def test_ptx_as_text():
    kernel = ElementwiseKernel("T x, raw T y, float64 s", "raw T z, T w",
                               "z[i] = x * y[i]; w = x * float(s);")
    assert ".visible .entry" in kernel.source("ptx")


def test_double_literals_compute_in_double():
    """As in CUDA: an f makes them float."""
    for literal, wide in (("0.1", True), ("0.1f", False)):
        with recording() as found:
            ElementwiseKernel("T x", "T y", f"y = x * {literal}")(X)
        (one,) = found.values()
        assert (".f64" in assembled(one)[0]) is wide


@pytest.mark.parametrize("name", sampled(
    ["_", "__", "cuda", "math", "f32", "é"], "cuda", "é"))
def test_any_name(name):
    """A kernel's name is the user's, a word of the text or letters that PTX lacks."""
    twice = ElementwiseKernel("T x", "T y", "y = 2*x", name)
    total = ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", name)
    with recording() as found:
        twice(X)
        total(X, axis=0)
    for one in found.values():
        assembled(one)
