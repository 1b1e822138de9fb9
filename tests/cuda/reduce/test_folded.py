"""Narrow results, and axes that are not neighbours: which kernels, and right."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.cuda.reduce import folded
from nbfused.cuda.reduce.folded import LEAST, ROWS, SECTOR
from nbfused.support.dtypes import BFLOAT16
from tests.cuda.recorded import assembled, needs_compiler, recording, registers

#: Rows of seven float32, as many as are read as wide ones.
MANY = -(-LEAST // (7*4*7) // ROWS)*ROWS


def kernels_of(call):
    with recording() as kernels:
        call()
    return list(kernels.values())


def stages(call):
    return [k.name.split("reduce_")[1] for k in kernels_of(call)]


@pytest.mark.variants
def test_rows_of_a_few_columns_are_read_as_wide_ones():
    needs_compiler()
    assert SECTOR > 7*4
    x = np.zeros((MANY, 7), np.float32)
    both = ["columns_partial", "rows_finish"]
    assert stages(lambda: ops.sum(x, axis=0)) == both
    assert stages(lambda: ops.argmax(x, axis=0)) == both
    more = np.zeros((MANY + 1, 7), np.float32)
    assert stages(lambda: ops.mean(more, axis=0)) == [
        "columns_partial", "rows_partial", "rows_finish"]
    for kernel in kernels_of(lambda: ops.var(more, axis=0)):
        code, said = assembled(kernel)
        assert ".f64" not in code
        assert said is None or registers(said)[1] == 0


@pytest.mark.parametrize("call", [
    lambda: ops.argmax(np.zeros((MANY, 16), np.float32), axis=0),
    lambda: ops.sum(np.zeros((MANY - ROWS, 7), np.float32), axis=0),
    lambda: ops.sum(np.zeros((MANY, 8), np.float32)[:, :7], axis=0),
    lambda: ops.sum(np.zeros((MANY, 16), np.float32), axis=0),
    lambda: ops.sum(np.zeros((MANY, 7), np.float32), axis=1)])
def test_others_are_not(call):
    """Wide rows, few, rows apart, along the other axis."""
    needs_compiler()
    assert "rows_finish" not in stages(call) or "columns_partial" not in stages(call)


@pytest.mark.parametrize(("columns", "width"), [(4096, 4), (4094, 1)])
def test_axes_that_are_not_neighbours_are_read_by_whole_accesses(columns, width):
    needs_compiler()
    x = np.zeros((64, 96, columns), np.float32)
    (kernel,) = kernels_of(lambda: ops.sum(x, axis=(0, 2)))
    assert ("load4(" in kernel.text or "load_first4(" in kernel.text) == (width == 4)
    _, said = assembled(kernel)
    assert said is None or registers(said)[1] == 0


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [np.float16, BFLOAT16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(131_072, 7), (1_000_003, 7), (200_001, 2),
                                   (150_000, 15), (131_073, 3)])
@pytest.mark.parametrize("least", [0, 1 << 60])
def test_narrow_results(shape, dtype, least, monkeypatch):
    monkeypatch.setattr(folded, "LEAST", least)
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    x[77, 1] = np.inf
    for y in (x, x[1:]):
        there = nf.array(y, device="cuda")
        wide = y.astype(np.float64)
        np.testing.assert_array_equal(nf.to_numpy(ops.max(there, axis=0)), y.max(0))
        for place, of in ((ops.argmax, np.argmax), (ops.argmin, np.argmin)):
            np.testing.assert_array_equal(nf.to_numpy(place(there, axis=0)),
                                          of(wide, axis=0))
        got = nf.to_numpy(ops.sum(there, axis=0, dtype=np.float64))
        np.testing.assert_allclose(got, wide.sum(0), rtol=1e-9, atol=1e-9)
        found = {nf.to_numpy(ops.mean(there, axis=0)).tobytes() for _ in range(4)}
        assert len(found) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(64, 51, 4096), (7, 33, 1000), (7, 33, 1001),
                                   (5, 1, 8), (2, 3, 100_003)])
@pytest.mark.parametrize("dtype", [BFLOAT16, np.float32, np.float64])
def test_axes_that_are_not_neighbours(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for key in (np.s_[:], np.s_[:, :, 1:], np.s_[::-1, ::2]):
        y, there = x[key], nf.array(x, device="cuda")[key]
        got = nf.to_numpy(ops.sum(there, axis=(0, 2), dtype=np.float64))
        np.testing.assert_allclose(got, y.astype("f8").sum((0, 2)), rtol=1e-9,
                                   atol=1e-9)
        np.testing.assert_array_equal(nf.to_numpy(ops.max(there, axis=(0, 2))),
                                      y.max((0, 2)))
