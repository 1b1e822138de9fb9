"""The printed text compiles for CUDA, without float64 where float32 is computed."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nbfused.cuda.runtime import compile
from nbfused.errors import CompileError
from nbfused.scalar.autodiff.differentiate import vjp
from nbfused.scalar.ir.interpret import evaluate
from nbfused.scalar.language.vocabulary import OPS
from nbfused.scalar.parse.functions import parse
from nbfused.scalar.printing.numba import CUDA_CALLS, NAMES, statements
from nbfused.scalar.typing.types import Typed, Weak, compute_dtype, specialize
from tests.scalar.kernels import numbers, operation, pairs, source, storage
from tests.scalar.printing.test_print_numba import assert_equal, operations, typed
from tests.variants import sampled

try:
    cuda = compile._numba_cuda()  # imports with NumPy 2.5 too
except CompileError as missing:
    pytest.skip(str(missing), allow_module_level=True)

#: Operations that have no real operands.
APART = {"real", "imag", "conj", "complex_from", "select", "powi", "philox", "and",
         "or", "xor", "lshift", "rshift", "invert"}
FLOATING = [op for op in OPS if op not in APART]
#: Long texts.  Those of complex sines contain the real ones, and their derivatives
#: consist of operations that are compiled alone.
LONG = {"sin", "cos", "tan", "sinc", "lgamma", "digamma", "complex_sin", "complex_cos",
        "complex_tan", "complex_sinc", "complex_asinh"}


def ptx(function: Typed, dtype: str) -> str:
    """PTX of a kernel that runs the function on one element."""
    from numba import types

    params = function.function.params
    outs = [f"out{k}" for k in range(len(function.results))]
    arguments = {p: f"source[{k}]" for k, p in enumerate(params)}
    lines = statements(function, arguments, outs, calls=CUDA_CALLS)
    lines += [f"target[{k}] = {o}" for k, o in enumerate(outs)]
    scope = {**NAMES, "libdevice": cuda.libdevice}
    body = "\n".join(f"    {line}" for line in lines)
    exec(f"def kernel(source, target):\n{body}\n", scope)
    pointer = types.CPointer(getattr(types, dtype))
    results = {np.dtype(np.bool_): types.uint8}.get(
        function.results[0], getattr(types, function.results[0].name, None))
    text, _ = cuda.compile(
        scope["kernel"], types.void(pointer, types.CPointer(results)), device=False,
        abi="numba", cc=(9, 0), output="ptx")
    return str(text)


def doubles(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(r"\.f64\b", line)]


@pytest.mark.parametrize("op", sampled(FLOATING, *(
    op for op in FLOATING if op not in LONG or not op.startswith("complex_"))))
def test_float32_needs_no_float64(op):
    d = np.dtype(np.float32)
    f = operation(op)
    assert doubles(ptx(specialize(f, (d,)*len(f.params)), "float32")) == []


def test_the_scan_sees_float64():
    f = operation("exp")
    assert doubles(ptx(specialize(f, (np.dtype(np.float64),)), "float64"))


@pytest.mark.parametrize("op", ["floordiv", "mod", "lshift", "rshift", "powi", "sign"])
@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "uint64"])
def test_integers_compile(op, dtype):
    f = operation(op)
    ptx(specialize(f, (np.dtype(dtype),)*len(f.params)), dtype)


def test_weak_numbers_bring_no_float64():
    def f(x, scale, count):
        total = 0.5
        for k in range(count):
            total = total + scale*k/2 if x > 1e-3*k else total - 3
        return total*x**3 + int(x)/count + (1 if x > 0 else 2.5)

    d = np.dtype(np.float32)
    t = specialize(parse(f), (d, d, Weak("int")))
    arguments = {"x": "x[0]", "scale": "x[1]", "count": "i64(x[2])"}
    text = statements(t, arguments, ["r"])
    assert not [line for line in text if "f64" in line]


@pytest.mark.parametrize("op", sampled(
    [op for op in FLOATING if any(OPS[op].partials)],
    *(op for op in FLOATING if op not in LONG)))
def test_derivatives_need_no_float64(op):
    f = operation(op)
    d = np.dtype(np.float32)
    back = vjp(f, (True,)*len(f.params), (True,))
    t = specialize(back, (d,)*len(back.params))
    assert {r.name for r in t.results} <= {"float32", "complex64"}
    assert doubles(ptx(t, "float32")) == []


def on_device(functions, params, args):
    """The results of the printed functions, computed by the GPU."""
    text = source(functions, params, CUDA_CALLS).replace(
        "range(n)", "range(cuda.grid(1), n, cuda.gridsize(1))")
    scope = {**NAMES, "libdevice": cuda.libdevice, "cuda": cuda}
    exec(text, scope)
    n = len(args[0])
    outs = [np.empty(n, compute_dtype(d)) for t in functions.values()
            for d in t.results]
    stored = [a.view(storage(a.dtype)) for a in args]
    cuda.jit(scope["kernel"])[32, 128](*stored, *outs, n)
    return dict(zip(functions, outs, strict=True))


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore::numba.cuda.core.errors.NumbaPerformanceWarning")
@pytest.mark.parametrize("arity", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "int64",
                                   "uint8", "uint32", "uint64", "bool"])
def test_the_gpu_agrees_with_the_interpreter(dtype, arity):
    d = np.dtype(dtype)
    args = [numbers(d)] if arity == 1 else list(pairs(d))
    wrong = []
    ops = operations(dtype, arity)
    for first in range(0, len(ops), 12):
        functions = {op: typed(op, dtype) for op in ops[first:first + 12]}
        for op, got in on_device(functions, [d]*arity, args).items():
            (logical,) = functions[op].results
            with np.errstate(over="ignore"):
                got = got.astype(logical)
            (expected,) = evaluate(functions[op], *args)
            try:
                assert_equal(op, got, expected)
            except AssertionError as e:
                wrong.append(f"{op}: {e}")
    assert not wrong, "\n".join(wrong)
