"""Kernels of fused functions compile for CUDA, without float64; no GPU needed.

What they compute is a test of the simulator: `tests/cuda/simulation`.
"""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.cuda.runtime import compile
from nbfused.errors import CompileError
from tests.cuda.recorded import assembled, recording

try:
    compile._numba_cuda()
except CompileError as missing:
    pytest.skip(str(missing), allow_module_level=True)

X = np.zeros((64, 96), np.float32)

FUNCTIONS = {
    "map": lambda x, s: (np.where(x > 0.5, x * s, np.exp(x)), x ** 2 + s),
    "reduce": lambda x, s: np.sqrt(np.sum(x * x * s, axis=-1)),
    "several sums": lambda x, s: (x.mean(0), (x * x).mean(0) - x.mean(0) ** 2),
    "side by side": lambda x, s: (x.max(1), x.min(1) * s, (x * 2).sum(1), x.std(1)),
    "row": lambda x, s: (x - x.mean(-1, keepdims=True)) / (
        x.std(-1, keepdims=True) + s) * x[0],
    "product": lambda x, s: (np.maximum(x @ x.T * s, 0), x @ x.T),
}


@pytest.mark.filterwarnings("ignore:fuse.*decorated again")
@pytest.mark.parametrize("dtype", [
    "float32", pytest.param("float16", marks=pytest.mark.variants)])
@pytest.mark.parametrize("name", [
    name if name in ("reduce", "row", "several sums")
    else pytest.param(name, marks=pytest.mark.variants) for name in FUNCTIONS])
def test_kernels_compile(name, dtype):
    fused = nf.fuse(FUNCTIONS[name])
    x = nf.Variable(X.astype(dtype), requires_grad=True)
    with recording() as kernels:
        results = fused(x, 0.5)
        for r in results if isinstance(results, tuple) else (results,):
            nf.ops.sum(r).backward(retain_graph=True)
    assert kernels
    for kernel in kernels.values():
        code, _ = assembled(kernel)
        assert ".f64" not in code, f"{kernel.name} computes in float64\n{kernel.text}"
