"""Rows of raw arrays: how the work is shared, by what accesses, and the numbers."""

from __future__ import annotations

import re
from math import prod

import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.autograd.tape import apply
from nbfused.cuda.map import row_gathers
from nbfused.cuda.map.row_gathers import pieces_of
from nbfused.cuda.runtime import ahead
from nbfused.scalar.language.names import load
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Map
from tests.cuda.recorded import (
    assembled,
    names_of,
    needs_compiler,
    recording,
    registers,
)


def scaled(table, index, i, factor, by):
    return load(table, i, index % by) * factor + index // by


#: Loads of rows, and what is left of the function.
SCALED = Map(parse(scaled), ("raw", "index", "element", "element", "scalar"))


def of_scaled(table, factor, count, by):
    i = np.broadcast_to(np.zeros((count, 1), np.int64), factor.shape)
    return lambda: apply(SCALED, [table, i, factor, by])


def shares(call):
    """Width, accesses of a lane, those that all have, lanes, rows."""
    (name,) = names_of(call)
    assert "_map_gathers_" in name
    return tuple(map(int, name.split("_")[-5:]))


def table(rows, columns, dtype=np.float32, gap=0, shift=0):
    own = np.zeros(rows*(columns + gap) + shift, dtype)[shift:]
    return own.reshape(rows, columns + gap)[:, :columns]


@pytest.mark.parametrize(("given", "width"), [
    (table(5, 64), 4), (table(5, 66), 2), (table(5, 65), 1),
    (table(5, 64, "f2"), 8), (table(5, 60, "f2"), 4), (table(5, 64, "f8"), 2),
    (table(5, 64, "i1"), 8), (table(5, 64, gap=2), 2), (table(5, 64, gap=3), 1),
    (table(5, 64, shift=1), 1), (table(5, 64, shift=2), 2),
    (np.broadcast_to(table(1, 64), (5, 64)), 4)])
def test_accesses_are_as_wide_as_memory_allows(given, width):
    needs_compiler()
    assert shares(lambda: ops.take(given, np.zeros(7, np.int64)))[0] == width


@pytest.mark.parametrize("columns", [2, 3, 5, 8, 9, 17, 33, 59, 64, 147, 294, 439, 1000,
                                     1026, 4096, 30_001, 1_009_924])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_lanes_cover_a_row_with_little_left(columns, dtype):
    needs_compiler()
    given = table(3, columns, dtype)
    width, each, sure, lanes, rows = shares(
        lambda: ops.take(given, np.zeros(4, np.int64)))
    accesses = columns//width
    assert accesses*width == columns
    pieces, length, longer = pieces_of(accesses, lanes*each)
    assert pieces*length + longer == accesses
    assert longer < pieces
    assert sure*lanes <= length
    assert each*lanes >= length + (longer > 0)
    assert sure >= each - 1
    assert pieces == 1 or lanes == row_gathers.LANES
    few = columns*given.itemsize < 2*row_gathers.SECTOR
    assert each*lanes <= length*1.5 or few
    assert rows*each*width*given.itemsize <= max(row_gathers.FLIGHT,
                                                 each*width*given.itemsize)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("columns", [8, 64, 294, 439, 4096])
def test_a_row_is_moved_as_it_is(columns, dtype):
    """No element is converted or numbered: few instructions for an access."""
    needs_compiler()
    with recording() as kernels:
        ops.take(table(50, columns, dtype), np.zeros(70, np.int64))
    (kernel,) = kernels.values()
    code, said = assembled(kernel)
    assert not re.search(r"cvt\.(rn\.)?f(16|32)\.f(16|32)", code)
    width, each, _, _, rows = map(int, kernel.name.split("_")[-5:])
    fast = len(re.findall(r"^ *store", kernel.text, re.MULTILINE))
    assert fast == each*rows
    size = min(16, width*np.dtype(dtype).itemsize)
    if size == 16:
        assert len(re.findall(r"ld\.global\.v\d", code)) == each*rows
    if said is not None:
        used, spilled = registers(said)
        assert (used <= 64, spilled) == (True, 0)


def test_those_that_lie_otherwise_are_by_elements():
    needs_compiler()
    at = np.zeros(7, np.int64)
    for own in (table(5, 64)[:, ::-1], table(5, 128)[:, ::2],
                np.broadcast_to(table(5, 1), (5, 64))):
        (name,) = names_of(lambda own=own: ops.take(own, at))
        assert name.startswith("gather_rows_map_rows")


def test_an_index_that_varies_along_rows_is_no_row_of_a_table():
    needs_compiler()
    (name,) = names_of(lambda: ops.take_along_axis(
        table(5, 64), np.zeros((7, 64), np.int64), axis=0))
    assert "_map_gathers_" not in name


def test_other_operands_have_a_say_in_the_width():
    needs_compiler()
    whole, shifted = table(9, 64), table(9, 64, shift=1)
    assert shares(of_scaled(table(5, 64), whole, 9, 64))[0] == 4
    assert shares(of_scaled(table(5, 64), shifted, 9, 64))[0] == 1
    strided = table(9, 128)[:, ::2]
    assert shares(of_scaled(table(5, 64), strided, 9, 64))[0] == 4


def test_rows_of_a_plan_whose_divisors_are_literals(monkeypatch):
    needs_compiler()
    monkeypatch.setattr(ahead, "compile_ahead", lambda calls: None)
    scaled_rows = nf.fuse(lambda t, i, x: ops.take(t, i, axis=0)*2 + x)
    at = np.zeros(7, np.int64)
    assert shares(lambda: scaled_rows(table(5, 64), at, table(7, 64)))[0] == 4
    assert shares(lambda: scaled_rows(table(5, 66), at, table(7, 66)))[0] == 2


def test_divisions_by_literals_stay_where_no_row_is_loaded():
    needs_compiler()
    striped = Map(parse(lambda index, x: x if index % 64 < 32 else 0),
                  ("index", "element"))
    (name,) = names_of(lambda: apply(striped, [table(9, 64)]))
    assert "vector" in name


@nf.fuse
def twice(t, i):
    return ops.take(t, i, axis=1)*2


@pytest.mark.cuda
@pytest.mark.parametrize("seed", range(40))
def test_random_tables(seed):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    dtype = rng.choice(["float16", "float32", "float64", "int8"])
    before, rows, after = (int(rng.choice(n)) for n in (
        [1, 1, 2, 5], [1, 3, 50], [2, 3, 8, 9, 33, 64, 100, 513, 2048, 5003]))
    gap, shift = rng.integers(0, 3, 2)
    step = int(rng.choice([1, 1, 1, 2]))
    stored = rng.integers(-9, 9, before*rows*(step*after + gap) + shift).astype(dtype)
    at = rng.integers(-rows, rows, rng.choice([1, 2, 7, 300]))
    shape = before, rows, step*after + gap
    repeated = rng.random() < 0.2

    def view(stored):
        x = stored[shift:].reshape(*shape)[:, :, :step*after:step]
        return x[:, :1] if repeated else x

    x, t = view(stored), view(torch.from_numpy(stored).cuda())
    if repeated:
        x, t = np.broadcast_to(x, (before, rows, after)), t.expand(-1, rows, -1)
    given = torch.from_numpy(at).cuda()
    np.testing.assert_array_equal(ops.take(t, given, axis=1).cpu(), x[:, at])
    if before == 1:
        np.testing.assert_array_equal(ops.take(t[0], given).cpu(), x[0, at])
    np.testing.assert_array_equal(twice(t, given).cpu(), x[:, at]*2)


@pytest.mark.cuda
@pytest.mark.parametrize("columns", [36, 64, 131])
def test_a_function_of_rows(columns):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(columns)
    count, shape = 50, (50, columns)
    flat, factor = np.arange(prod(shape)).reshape(shape), rng.normal(size=shape)
    i = np.broadcast_to(rng.integers(0, 5, (count, 1)), shape)
    for by in (columns, 2*columns, count*columns, 5, 10_000):
        own = rng.normal(size=(5, max(by, columns)))
        given = [torch.from_numpy(a).cuda() for a in (own, i[:, :1].copy(), factor)]
        (found,) = apply(SCALED, [given[0], given[1].expand(shape), given[2], by])
        np.testing.assert_allclose(found.cpu(), own[i, flat % by]*factor + flat//by,
                                   rtol=1e-14, atol=1e-15)
