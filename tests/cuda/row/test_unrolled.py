"""Rows of few columns as one map: the kernels chosen, and the values by host code."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.backend import Call, Signature
from nbfused.cpu.map import compile_map, map_launcher
from nbfused.cuda.row.split import launches
from nbfused.cuda.row.split.unrolled import OPERANDS, UnrolledRow, could_unroll
from nbfused.cuda.row.text import RowText
from nbfused.op import row, stage
from nbfused.ops.losses import _cross_entropy
from nbfused.ops.normalization import _layer_norm
from nbfused.scalar.typing.types import Weak
from tests.cuda.recorded import assembled, needs_compiler, registers
from tests.cuda.row import test_split as split
from tests.variants import sampled

F32, F64, I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
BFLOAT16 = nf.arrays.BFLOAT16


@row
def shifted_softmax(x):
    @stage("max")
    def top(x):
        return x

    @stage("sum")
    def total(x, top):
        return nf.exp(x - top)

    return nf.exp(x - top)/total


@row(w="column")
def weighted(x, w):
    @stage("sum")
    def total(x, w, index, size):
        return x*w*index/size

    return total*w*x


@pytest.fixture
def by_host(monkeypatch):
    """Maps run by the host's kernels."""
    monkeypatch.setattr(launches, "MapLauncher", lambda name, typed, signature:
                        map_launcher(compile_map(typed, signature)))


def run(function, kinds, arrays, scalars, outs):
    """Run a row function of arrays (rows..., columns) as one map."""
    spec = function.spec(kinds, -1)
    types = iter([*(a.dtype for a in arrays)])
    inputs = tuple(Weak(type(scalars[0]).__name__) if k == "scalar" else next(types)
                   for k in kinds)
    outputs = tuple(a.dtype for a in outs)
    shape = arrays[0].shape
    text = RowText("row", spec.typed(inputs, outputs), Signature(
        inputs, outputs, (len(shape) - 1, 1), ("s",)*len([*arrays, *outs])))
    operands = [*arrays, *outs]
    array_kinds = [*(k for k in kinds if k != "scalar"), *(o.kind for o in spec.outs)]
    strides = []
    for a, kind in zip(operands, array_kinds, strict=True):
        own = [n//a.itemsize for n in a.strides]
        strides.append(tuple({"element": own, "row": [*own, 0],
                              "column": [0]*(len(shape) - 1) + own}[kind]))
    assert could_unroll(text, shape[-1])
    UnrolledRow(text)(Call(shape, tuple(a.ctypes.data for a in operands),
                           tuple(strides), tuple(scalars), 0, 0))


def drawn(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape)


@pytest.mark.parametrize("columns", [1, 2, 3, 8])
def test_softmax(by_host, columns):
    x = np.moveaxis(drawn(5, columns, 40), 1, 2)
    x[0, 3, 0] = np.inf
    x[2, 7] = -np.inf
    y = np.empty_like(x)
    run(shifted_softmax, ("element",), [x], (), [y])
    with np.errstate(invalid="ignore"):
        e = np.exp(x - x.max(-1, keepdims=True))
        np.testing.assert_allclose(y, e/e.sum(-1, keepdims=True), rtol=1e-13)


@pytest.mark.parametrize("columns", [1, 4])
def test_columns_numbers_and_places(by_host, columns):
    x, w, y = drawn(30, columns), drawn(columns), np.empty((30, columns))
    run(weighted, ("element", "column"), [x, w], (), [y])
    k = np.arange(columns)
    total = (x*w*k/columns).sum(-1, keepdims=True)
    np.testing.assert_allclose(y, total*w*x, rtol=1e-13)


@pytest.mark.parametrize("columns", [1, 5])
def test_values_of_rows(by_host, columns):
    """Cross entropy reads a label of each row, and has one result for it."""
    x = drawn(20, columns)
    labels = np.arange(20) % columns
    y = np.empty(20)
    run(_cross_entropy, ("element", "row", "scalar"), [x, labels], (-1,), [y])
    e = np.exp(x)
    expected = -np.log(e[np.arange(20), labels]/e.sum(-1))
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=1e-15)


def test_layer_norm(by_host):
    x, w, b, y = drawn(20, 6), drawn(6), drawn(6)[::-1], np.empty((20, 6))
    run(_layer_norm, ("element", "column", "column", "scalar"), [x, w, b], (1e-5,), [y])
    r = 1/np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, (x - x.mean(-1, keepdims=True))*r*w + b, rtol=1e-12,
                               atol=1e-14)


@pytest.mark.parametrize(("shape", "axis", "kind"), [
    ((7, 3, 50_000), 1, "_of3_map"), ((8, 100, 100), 0, "_of8_map"),
    ((9, 100, 100), 0, "_row"), ((1, 70_001), 0, "_map"), ((500, 1), 1, "_map"),
    ((70_000, 4), 1, "_of4_map_columns"), ((10_000, 4), 1, "_row")])
def test_which_rows_are_one_map(shape, axis, kind):
    needs_compiler()
    ((name, _),), _ = split.launches(
        lambda: ops.softmax(np.zeros(shape, F32), axis=axis))
    assert name.startswith(f"softmax{kind}")


def test_rows_of_many_operands_are_not():
    many = RowText("row", shifted_softmax.spec(("element",), -1).typed((F32,), (F32,)),
                   Signature((F32,), (F32,), (1, 1), ("s", "s")))
    assert could_unroll(many, OPERANDS//2)
    assert not could_unroll(many, OPERANDS//2 + 1)
    assert not could_unroll(many, 0)


@pytest.mark.parametrize("dtype", sampled([F32, BFLOAT16, F64], BFLOAT16), ids=str)
@pytest.mark.parametrize("columns", sampled([3, 8], 8))
def test_their_kernels_do_not_spill(columns, dtype):
    needs_compiler()
    _, kernels = split.launches(lambda: split.both(
        lambda v: ops.softmax(v, axis=0), np.zeros((columns, 1 << 16), dtype)))
    assert len(kernels) >= 2
    for kernel in kernels:
        _, said = assembled(kernel)
        assert said is None or registers(said)[1] == 0
