"""Kernels of every op compile, without float64 and without spills; no GPU needed."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest

import nbfused as nf
import nbfused.ops
from nbfused.cuda.runtime import compile
from nbfused.errors import CompileError
from nbfused.registry.operations import OPS
from nbfused.testing.conformance import checks
from tests.cuda.recorded import PTXAS, assembled, recording, registers
from tests.variants import sampled

try:
    compile._numba_cuda()
except CompileError as missing:
    pytest.skip(str(missing), allow_module_level=True)

FLOAT32 = np.dtype("float32")
WIDE = re.compile(r"float64|complex128")


def kernels_of(calls, arch=(9, 0)):
    """What the calls launch; their results are not computed, so not compared."""
    with recording(arch) as kernels:
        for call in calls:
            try:
                call()
            except AssertionError:
                continue
    return list(kernels.values())


def calls_of(op, dtype=FLOAT32):
    """For each case of an op one forward call, and one with gradients."""
    chosen = {}
    for check in checks([op]):
        if check.kind in ("value", "low-gradient") and check.dtype == dtype:
            chosen.setdefault((check.case, check.kind), partial(check, "cpu"))
    return chosen.values()


CHECKED = set()


def assert_clean(kernel):
    """No float64 without need, no spills; ops share kernels, each is compiled once."""
    if kernel.text in CHECKED:
        return
    CHECKED.add(kernel.text)
    code, said = assembled(kernel)
    if not any(WIDE.search(p) for p in kernel.parameters):
        assert ".f64" not in code, f"{kernel.name} computes in float64\n{kernel.text}"
    if said is not None:
        used, spilled = registers(said)
        assert spilled == 0, f"{kernel.name} spills {spilled} bytes of {used} registers"


#: One op or a few of each kind of kernel; what the others compile is much the same.
#: Products have files of their own.
SEVERAL = ("where", "sum", "softmax", "take")


@pytest.mark.parametrize("op", sampled(OPS, *SEVERAL))
def test_kernels_of_an_op_on_float32(op):
    for kernel in kernels_of(calls_of(op)):
        assert_clean(kernel)


X = np.zeros((64, 4096), np.float32)


def layer_norm_both_ways(dtype):
    x, w = X.astype(dtype), X[0].astype(dtype)
    v = [nf.Variable(a, requires_grad=True) for a in (x, w, w)]
    nf.ops.layer_norm(*v).backward(x)


def embedding(x):
    nf.ops.take(nf.Variable(x, requires_grad=True), np.arange(3), axis=0
                ).backward(x[:3])


SAMPLE = {
    "map": lambda d: nf.ops.swish(X.astype(d)),
    "map strided": lambda d: nf.ops.gelu(X.astype(d)[::2, ::3]),
    "map broadcast": lambda d: nf.ops.add(X.astype(d), X[0].astype(d)),
    "embedding": lambda d: embedding(X.astype(d)),
    "embedding, odd length": lambda d: embedding(X[:, :1001].astype(d)),
    "reduce all": lambda d: nf.ops.sum(X.astype(d)),
    "reduce rows": lambda d: nf.ops.argmax(X.astype(d), axis=1),
    "reduce columns": lambda d: nf.ops.var(X.astype(d), axis=0),
    "row": lambda d: nf.ops.softmax(X.astype(d)),
    "row, odd length": lambda d: nf.ops.log_softmax(X.astype(d)[:, :1001]),
    "row, short": lambda d: nf.ops.softmax(X.astype(d)[:, :32]),
    "row both ways": layer_norm_both_ways,
    "row, too long to be kept": lambda d: nf.ops.rms_norm(
        np.zeros((4, 1 << 17), d)),
    "contract": lambda d: nf.ops.linear(
        X.astype(d), X.astype(d).T, X[0, :64].astype(d), activation="relu"),
    "contract, large": lambda d: nf.ops.matmul(
        np.zeros((2048, 32), d), np.zeros((32, 2048), d)),
}


@pytest.mark.parametrize("what", sampled(
    SAMPLE, "map strided", "map broadcast", "reduce columns", "row, odd length",
    "contract"))
@pytest.mark.parametrize("dtype", sampled(["bfloat16", "float64", "int32"], "bfloat16"))
def test_each_kind_of_kernel(what, dtype):
    kind = nf.arrays.BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)
    if dtype == "int32" and what.startswith(("embedding", "row", "map strided")):
        kind = np.dtype("float32")  # these take floats only
    for kernel in kernels_of([partial(SAMPLE[what], kind)]):
        assert_clean(kernel)


@pytest.mark.parametrize("arch", sampled([(7, 5), (8, 0), (10, 0)], (7, 5)))
@pytest.mark.parametrize("what", sampled(
    ["map", "embedding, odd length", "reduce columns", "row both ways", "contract"],
    "map", "contract"))
def test_other_targets(what, arch):
    call = partial(SAMPLE[what], nf.arrays.BFLOAT16)
    for kernel in kernels_of([call], arch):
        assembled(kernel, arch)


def test_complex_map_and_reduce():
    z = np.zeros((64, 64), np.complex64)
    calls = [partial(nf.ops.multiply, z, z), partial(nf.ops.sum, z),
             partial(nf.ops.sum, z, axis=0), partial(nf.ops.matmul, z, z)]
    kernels = kernels_of(calls)
    assert len(kernels) >= 4
    for kernel in kernels:
        assembled(kernel)


def test_contiguous_accesses_are_16_bytes():
    (kernel,) = kernels_of([lambda: nf.ops.swish(X)])
    code = compile.ptx(kernel, (9, 0))
    assert re.search(r"ld\.global\.v4\.[fbu]32", code)
    assert re.search(r"st\.global\.v4\.[fbu]32", code)


def test_the_next_row_is_copied_asynchronously():
    both, _ = kernels_of([partial(layer_norm_both_ways, np.float32)])[1:]
    code = compile.ptx(both, (9, 0))
    assert "cp.async.cg.shared.global" in code
    assert "ld.shared.v4" in code
    assert "cp.async" not in compile.ptx(both, (7, 5))


@pytest.mark.skipif(PTXAS is None, reason="needs ptxas")
def test_spills_would_be_seen():
    (kernel,) = kernels_of([lambda: nf.ops.matmul(
        np.zeros((2048, 32), "f4"), np.zeros((32, 2048), "f4"))])
    tight = compile.Kernel(kernel.name, kernel.text, kernel.parameters,
                           kernel.threads, 8)
    _, spilled = registers(assembled(tight)[1])
    assert spilled > 0
