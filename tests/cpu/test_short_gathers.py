"""Gathers of rows of few elements, and their derivatives, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.cpu import map as maps
from nbfused.errors import InplaceModificationError
from tests.variants import sampled

RNG = np.random.default_rng(4)
#: Rows of a table in a plan, by the axis.
FUSED = {0: nf.fuse(lambda x, i: np.take(x, i, axis=0)*2 + x[0, 0]),
         1: nf.fuse(lambda x, i: np.take(x, i, axis=1)*2 + x[0, 0])}
DTYPES = sampled(["float32", "float64", "int8", "float16", "bfloat16"], "float32")


def table_of(rows, columns, dtype, transposed=False):
    made = RNG.normal(scale=40, size=(columns, rows) if transposed else (rows, columns))
    return made.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 8, 9, 17])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [5, 3001])
def test_rows_are_those_of_numpy(columns, dtype, count):
    x = table_of(700, columns, dtype)
    rows = RNG.integers(-700, 700, count)
    for table in (x, x[::3], np.asfortranarray(x), x[::-1, ::-1],
                  np.repeat(x, 2, 1)[:, ::2], np.broadcast_to(x[:, :1], x.shape)):
        places = rows % len(table)
        np.testing.assert_array_equal(nf.ops.take(table, places), table[places])


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 7, 8, 9, 17])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["rows", "columns", "axis 1"])
def test_derivatives_add_up_where_indices_repeat(columns, dtype, layout):
    x = table_of(300, columns, dtype)
    x = np.asfortranarray(x) if layout == "columns" else x
    x = x.reshape(3, 100, columns) if layout == "axis 1" else x
    axis = int(layout == "axis 1")
    rows = RNG.integers(0, x.shape[axis], 2003)
    g = RNG.integers(-8, 9, np.take(x, rows, axis).shape).astype(x.dtype)
    v = nf.Variable(x, requires_grad=True)
    nf.ops.take(v, rows, axis).backward(g)
    expected = np.moveaxis(np.zeros(x.shape), axis, 0)
    np.add.at(expected, rows, np.moveaxis(g.astype(float), axis, 0))
    np.testing.assert_array_equal(
        nf.to_numpy(v.grad), np.moveaxis(expected, 0, axis).astype(x.dtype))


def test_short_rows_are_written_out(monkeypatch):
    texts = []
    build = maps.build
    monkeypatch.setattr(maps, "build", lambda text: texts.append(text) or build(text))
    x = nf.Variable(np.ones((50, 3), np.complex64), requires_grad=True)
    nf.ops.take(x, np.arange(900) % 50).backward(np.ones((900, 3), np.complex64))
    gathers = [t for t in texts if "gather" in t]
    assert len(gathers) == 2
    assert all("n1 == 3" in text for text in gathers)


@pytest.mark.parametrize("columns", [1, 3, 8, 64, 1000])
@pytest.mark.parametrize("axis", [0, 1])
def test_rows_in_a_plan_are_found_once(columns, axis, monkeypatch):
    """Its divisors are literals."""
    texts = []
    build = maps.build
    monkeypatch.setattr(maps, "build", lambda text: texts.append(text) or build(text))
    x = RNG.normal(size=(3, 50, columns))
    for count in (1, 7, 300):
        rows = RNG.integers(0, x.shape[axis], count)
        np.testing.assert_allclose(FUSED[axis](x, rows),
                                   np.take(x, rows, axis)*2 + x[0, 0])
    if columns > 1:
        assert any("def point_between" in text for text in texts)


@pytest.mark.parametrize("threads", [1, 3])
def test_many_rows_of_a_table_in_columns(threads):
    """Pieces of several threads, and an index beyond the table's end."""
    x, rows = table_of(5000, 3, "float32", transposed=True).T, RNG.integers(
        -5000, 5000, 60_001)
    with config.override(num_threads=threads):
        np.testing.assert_array_equal(nf.ops.take(x, rows, axis=0), x[rows])
    with pytest.raises(IndexError):
        nf.ops.take(x, np.append(rows, 5000), axis=0)


def test_a_result_is_stored_where_it_is_wanted(monkeypatch):
    x, rows = table_of(60, 3, "float32"), RNG.integers(0, 60, (4, 25))
    launched = []
    monkeypatch.setattr(nf.ops.gathers, "cast", lambda name: launched.append)
    for columns in (x, x[:, 0].copy()):
        for axis in range(columns.ndim):
            places = rows % columns.shape[axis]
            out = np.zeros_like(np.take(columns, places, axis))
            for _ in range(2):
                out[...] = 0
                assert nf.ops.take(columns, places, axis, out=out) is out
                np.testing.assert_array_equal(out, np.take(columns, places, axis))
    assert not launched


@pytest.mark.parametrize("place", ["x", "reversed", "strided", "wider"])
def test_a_result_may_lie_anywhere(place):
    x = table_of(60, 3, "float32")
    rows = np.arange(60)[::-1].copy()
    expected = x[rows]
    room = np.zeros((60, 6), np.float32)
    out = {"x": x, "reversed": x[::-1], "strided": room[:, ::2],
           "wider": np.zeros((60, 3))}[place]
    assert nf.ops.take(x, rows, out=out) is out
    np.testing.assert_array_equal(out, expected)


def added(rows, places, g):
    expected = np.zeros((rows, g.shape[1]))
    np.add.at(expected, places, g.astype(float))
    return expected


def test_recorded_gathers_are_repeated_by_machine_code(monkeypatch):
    x = nf.Variable(table_of(37, 3, "float64"), requires_grad=True)
    fresh = [RNG.integers(-37, 37, 23) for _ in range(4)]
    for k, places in enumerate(fresh):
        if k == 2:  # twice is enough to learn, and Python looks no more
            monkeypatch.setattr(nf.ops.gathers, "check_range", None)
        g = RNG.normal(size=(23, 3))
        x.grad = None
        out = nf.ops.take(x, places)
        np.testing.assert_array_equal(out.data, x.data[places])
        (out*g).sum().backward()
        np.testing.assert_allclose(x.grad, added(37, places, g), rtol=1e-13, atol=1e-13)


def test_recorded_gathers_still_look_at_what_they_are_given():
    x = nf.Variable(table_of(41, 3, "float64"), requires_grad=True)
    places = RNG.integers(0, 41, 19)
    for _ in range(3):
        nf.ops.take(x, places)
    with pytest.raises(IndexError, match="41"):
        nf.ops.take(x, np.where(places == places[0], 41, places))
    for given in (np.repeat(places, 2)[::2], places.astype(np.int32), places[:7],
                  places.reshape(19, 1)[:, 0], np.zeros(0, int)):
        x.grad = None
        out = nf.ops.take(x, given)
        g = RNG.normal(size=out.shape)
        out.backward(g)
        np.testing.assert_allclose(x.grad, added(41, given, g), rtol=1e-13)
    with nf.no_grad():
        assert not nf.ops.take(x, places).requires_grad
    plain = nf.Variable(x.data)
    assert not nf.ops.take(plain, places).requires_grad
    out = nf.ops.take(x, places)
    nf.ops.add(places, 1, out=places)
    with pytest.raises(InplaceModificationError):  # what was saved is watched as before
        out.backward(np.ones((19, 3)))


def test_recorded_gathers_have_second_derivatives():
    x, places = table_of(11, 3, "float64")/40, RNG.integers(0, 11, 13)
    for _ in range(2):
        nf.testing.gradcheck(lambda x: nf.ops.take(x, places)**3, [x], order=2)


@pytest.mark.parametrize("columns", [2, 3, 8, 11])
def test_rows_of_a_table_that_no_near_cache_holds(columns):
    x = RNG.normal(size=(300_000, columns)).astype(np.float32)
    rows = RNG.integers(-300_000, 300_000, 70_001)
    np.testing.assert_array_equal(nf.ops.take(x, rows), x[rows])
    np.testing.assert_array_equal(nf.ops.take(x[::2], rows // 2), x[::2][rows // 2])
