"""Maps by rows: which calls take them, and how gradients that are equal are copied."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import nbfused as nf
from nbfused import ops
from nbfused.cuda.map.rows import EACH, LANES, shared_by
from tests.cuda.recorded import (
    assembled,
    names_of,
    needs_compiler,
    recording,
    registers,
)


@pytest.mark.parametrize("columns", [1, 3, 7, 8, 9, 37, 59, 439, 1000, 1_009_924])
def test_lanes_and_elements_cover_a_row_with_little_left(columns):
    each, lanes = shared_by(columns)
    assert lanes & (lanes - 1) == 0
    assert each <= EACH
    assert lanes <= LANES
    pieces = -(-columns//(each*lanes))
    assert pieces == 1 or lanes == LANES
    assert each*lanes < 2*columns + EACH or pieces > 1


@pytest.mark.parametrize(("shape", "count"), [((1196, 439), 779), ((230, 59), 431),
                                              ((11, 10_099), 3)])
def test_a_gather_is_by_rows(shape, count):
    needs_compiler()
    (name,) = names_of(lambda: ops.take(np.zeros(shape, np.float32),
                                     np.zeros(count, np.int64)))
    assert name.startswith("gather_rows_map_gathers")


def test_rows_that_begin_anywhere_are_by_rows_and_others_by_accesses():
    needs_compiler()
    x, y = np.zeros((11, 46, 1072), np.float32), np.zeros((11, 1, 1071), np.float32)
    assert names_of(lambda: ops.multiply(x[..., 1:], y, out=x[..., 1:])) == [
        "multiply_map_rows_8_128"]
    even = slice(0, 1068)
    (name,) = names_of(lambda: ops.multiply(np.ascontiguousarray(x[..., even]),
                                         np.ascontiguousarray(y[..., even])))
    assert name == "multiply_map_vector_near"


def test_places_within_31_bits_are_found_by_short_divisions():
    needs_compiler()
    x, y = np.zeros((96, 27), np.float32), np.zeros((96, 1), np.float32)
    assert names_of(lambda: ops.multiply(x, y)) == ["multiply_map_near"]
    x, y = np.zeros((11, 46, 71), np.float32), np.zeros((11, 1, 71), np.float32)
    assert names_of(lambda: ops.multiply(x, y)) == ["multiply_map_near"]
    far = as_strided(np.zeros(40, np.float32), (3, 27), (1 << 33, 4))
    assert names_of(lambda: ops.multiply(far, y[0, :, :27])) == ["multiply_map_general"]
    x, y = np.zeros((96, 64), np.float32), np.zeros((96, 1), np.float32)
    assert names_of(lambda: ops.multiply(x, y)) == ["multiply_map_vector_near"]
    far = as_strided(x, (3, 64), (1 << 33, 4))
    assert names_of(lambda: ops.multiply(far, x[:3])) == ["multiply_map_vector"]
    assert names_of(lambda: ops.multiply(x, x)) == ["multiply_map_vector"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize(("shape", "beside"), [
    ((4, 6, 64), 0), ((4, 6, 37), 0), ((4, 6000, 37), 1)])
def test_kernels_for_near_elements_divide_by_no_variable(dtype, shape, beside):
    """Inverses are arguments; and loops over what is left are as short as written."""
    needs_compiler()
    batch, rows, columns = shape
    x, y = np.zeros((batch, rows, 1), dtype), np.zeros((batch, 1, columns), dtype)
    made = np.zeros((batch, rows, columns + beside), dtype)[..., :columns]
    with recording() as kernels:
        ops.multiply(x, y, out=made)
    (kernel,) = kernels.values()
    assert "near" in kernel.name
    code, said = assembled(kernel)
    assert not re.search(r"\b(div|rem)\.[su]", code)
    written = len(re.findall(r"store\d|p2\[", kernel.text))
    assert len(re.findall(r"st\.global", code)) == written
    if said is not None:
        used, spilled = registers(said)
        assert (used <= 40, spilled) == (True, 0)


def test_a_short_quotient_is_corrected_at_most_once():
    rng = np.random.default_rng(0)
    for by in [1, 2, 3, 27, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1,
               *map(int, rng.integers(1, 1 << 32, 40))]:
        for a in [0, by - 1, by, by + 1, (1 << 32) - 1, (1 << 32)//by*by - 1,
                  *map(int, rng.integers(0, 1 << 32, 40))]:
            if 0 <= a < 1 << 32:
                inverse = ((1 << 32) - 1)//by
                assert a//by - (a*inverse >> 32) in (0, 1)


def test_gradients_that_are_one_array_are_copied_in_one_launch():
    needs_compiler()
    x, y = (nf.Variable(np.zeros((5, 2156), np.float32), requires_grad=True)
            for _ in range(2))
    g = np.zeros((5, 2156), np.float32)
    assert names_of(lambda: ops.add(x, y).backward(g)) == [
        "add_map_vector", "copies_map_vector"]


def test_they_are_arrays_of_their_own():
    variables = [nf.Variable(np.zeros((5, 7)), requires_grad=True) for _ in range(3)]
    g = np.arange(35.0).reshape(5, 7)
    ops.add(ops.add(*variables[:2]), variables[2]).backward(g)
    for k, v in enumerate(variables):
        np.testing.assert_array_equal(v.grad, np.arange(35.0).reshape(5, 7))
        v.grad[...] = k
    assert [v.grad[0, 0] for v in variables] == [0, 1, 2]
    assert g[0, 1] == 1
