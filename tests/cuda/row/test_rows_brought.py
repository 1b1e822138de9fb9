"""Rows that the copy engine brings while what their columns have is loaded."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused import ops
from nbfused.cuda.row.plan import RowPlan, suffice
from nbfused.cuda.runtime import compile
from nbfused.errors import CompileError
from nbfused.op import row, stage
from nbfused.support.dtypes import BFLOAT16
from tests.cuda.recorded import assembled, recording, registers
from tests.variants import sampled


@pytest.fixture
def compiler():
    try:
        compile._numba_cuda()
    except CompileError as missing:
        pytest.skip(str(missing))


NORMS = {"rms": (ops.rms_norm, 1, 1), "layer": (ops.layer_norm, 1, 2),
         "add": (ops.add_rms_norm, 2, 1)}


BROUGHT = [
    (1024, np.float32, "rms layer add"), (1000, np.float32, "rms"),
    (4096, np.float32, "rms"), (1024, BFLOAT16, "rms"), (4000, BFLOAT16, "rms"),
    (4096, BFLOAT16, "rms layer add"), (2048, np.float16, "rms layer add")]


@pytest.mark.parametrize("shape", sampled(BROUGHT, *BROUGHT[:2]))
def test_columns_values_are_loaded_while_a_row_is_brought(compiler, shape):
    columns, dtype, brought = shape
    x = np.zeros((4, columns), dtype)
    for name, (call, inputs, weights) in NORMS.items():
        arrays = [x, x[::-1]][:inputs] + [x[0], x[1]][:weights]
        with recording() as found:
            call(*arrays)
        (kernel,) = found.values()
        code, said = assembled(kernel)
        if said is not None:
            assert registers(said)[1] == 0
        assert code.count("cp.async.bulk") == (inputs if name in brought else 0)
        if name in brought:
            copied, there = code.index("cp.async.bulk"), code.index("mbarrier.try_wait")
            assert "ld.global" not in code[:copied] + code[there:]
            assert copied < code.index("ld.global.v4.b32") < there
            assert ".align 128 .b8 nbfused_shared" in code


@row(w="column")
def weighted(x, w):
    @stage("sum")
    def total(x):
        return x

    return x/total*w


def test_rows_are_brought_where_that_is_faster_and_can_be(compiler):
    x, w = np.zeros((4, 1024), np.float32), np.zeros(1024, np.float32)

    def brought(call, arch=(9, 0)):
        with recording(arch) as found:
            call()
        (kernel,) = found.values()
        return "cp.async.bulk" in compile.ptx(kernel, arch)

    assert brought(lambda: ops.rms_norm(x, w))
    assert brought(lambda: ops.rms_norm(x[::-2, :1000], w[24:]))
    assert not brought(lambda: ops.rms_norm(x, w), (8, 0))
    assert not brought(lambda: ops.softmax(x))  # no values of columns
    half = x.astype(np.float16)
    assert not brought(lambda: ops.rms_norm(half[:, :64], half[0, :64]))  # short
    assert not brought(lambda: ops.rms_norm(x[:, 1:1021], w[1:1021]))  # not aligned
    assert not brought(lambda: weighted(half, w))  # accesses of 8 bytes


@pytest.mark.parametrize(("kept", "each", "even", "found"), [
    (1, 1, True, False), (2, 8, True, True), (2, 8, False, False), (2, 12, True, False),
    (3, 8, False, True), (4, 12, True, True), (4, 12, False, False),
    (4, 11, False, True), (8, 8, True, False)])
def test_registers_for_rows_that_are_brought(kept, each, even, found):
    assert suffice(RowPlan(64, True, kept, even), each) == found
