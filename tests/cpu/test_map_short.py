"""Maps with short rows: the same as NumPy's, in every way that rows lie.

Oracle: NumPy.
"""

from __future__ import annotations

import logging

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.config import config
from tests.variants import sampled

RNG = np.random.default_rng(3)

#: Rows of so many, and elements of each.
ROWS = 1500


def numbers(shape, dtype="f8"):
    return (9*RNG.normal(size=shape)).astype(dtype)


#: How an operand lies beside rows of `row`: an array that broadcasts to (ROWS, row).
LAYOUTS = {
    "one row": lambda row: numbers((row,)),
    "one for a row": lambda row: numbers((ROWS, 1)),
    "one": lambda row: numbers((1, 1)),
    "the same": lambda row: numbers((ROWS, row)),
    "first columns": lambda row: numbers((ROWS, row + 2))[:, :row],
    "every second": lambda row: numbers((ROWS, 2*row))[:, ::2],
    "transposed": lambda row: numbers((row, ROWS)).T,
    "reversed": lambda row: numbers((ROWS, row))[:, ::-1],
}


@pytest.fixture
def compiled(caplog):
    """The titles of kernels of short rows that have been compiled."""
    caplog.set_level(logging.INFO, "nbfused.compile")
    return lambda: [r.getMessage() for r in caplog.records
                    if " of rows of " in r.getMessage()]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("row", sampled(range(2, 9), 3))
def test_layouts(row, layout):
    x, y = numbers((ROWS, row)), LAYOUTS[layout](row)
    np.testing.assert_array_equal(ops.subtract(x, y), x - y)
    np.testing.assert_array_equal(ops.subtract(y, x), y - x)


@pytest.mark.parametrize("dtype", sampled(
    ["f8", "f2", ml_dtypes.bfloat16, "i1", "u2", "i8", "?", "c8", "c16"],
    "f4", "f2", "i1", "c8"), ids=str)
def test_dtypes(dtype):
    x, y, z = (numbers(s, dtype) for s in ((ROWS, 3), (3,), (ROWS, 1)))
    for other in (y, z):
        np.testing.assert_array_equal(ops.equal(x, other), x == other)
        np.testing.assert_array_equal(ops.multiply(x, other), x * other)


def test_dimensions_before_the_rows():
    x, y = numbers((7, 40, 3)), numbers((1, 40, 1))
    np.testing.assert_array_equal(ops.divide(x, y), x / y)
    x, y, z = numbers((3, 5, 40, 4)), numbers((3, 1, 40, 1)), numbers((5, 1, 4))
    f = nf.elementwise(lambda a, b, c: a*b - c)
    np.testing.assert_allclose(f(x, y, z), x*y - z, rtol=1e-15, atol=1e-12)


def test_results_may_be_inputs_and_columns():
    x, y = numbers((ROWS, 3)), numbers((3,))
    expected = x + y
    ops.add(x, y, out=x)
    np.testing.assert_array_equal(x, expected)
    wide = np.zeros((ROWS, 5))
    ops.add(x, y, out=wide[:, 1:4])
    np.testing.assert_array_equal(wide[:, 1:4], expected + y)
    assert not wide[:, ::4].any()


placed = nf.ElementwiseKernel("T x, T y", "T z", "z = (x > y ? x : -y) + 100*i",
                              "placed")


@nf.elementwise
def swished(x, y):
    return x / (1.0 + nf.exp(-x*y)), x - y


def test_places_branches_and_several_results():
    x, y = numbers((ROWS, 3)), numbers((ROWS, 1))
    expected = np.where(x > y, x, -y) + 100.0*np.arange(x.size).reshape(x.shape)
    np.testing.assert_allclose(placed(x, y), expected)
    for row in (5, 13):  # elementary functions: longer rows, too
        x, y = numbers((ROWS, row)), numbers((row,)) / 20  # no result is subnormal
        first, second = swished(x, y)
        np.testing.assert_allclose(first, x / (1 + np.exp(-x*y)), rtol=1e-13)
        np.testing.assert_array_equal(second, x - y)


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_of_threads(threads):
    x, y = numbers((60_001, 3), "f4"), numbers((3,), "f4")
    z = numbers((3, 20_011, 2), "f4")
    with config.override(num_threads=threads):
        np.testing.assert_array_equal(ops.multiply(x, y), x * y)
        np.testing.assert_array_equal(ops.add(z, z[:1, :, :1]), z + z[:1, :, :1])


def test_gradients():
    x, y = numbers((ROWS, 3)), numbers((3,))
    _, pull = nf.vjp(lambda x, y: ops.exp(ops.multiply(x, y) / 50), x, y)
    bar = numbers((ROWS, 3))
    gx, gy = pull(bar)
    scaled = bar * np.exp(x*y / 50) / 50
    np.testing.assert_allclose(gx, scaled * y, rtol=1e-12)
    np.testing.assert_allclose(gy, (scaled * x).sum(0), rtol=1e-10)


def test_which_calls_have_kernels_of_their_own(compiled, tmp_path):
    with config.override(cache_dir=str(tmp_path), cache_disable=False):
        _make_calls(compiled)


def _make_calls(compiled):
    f = nf.elementwise(lambda x, y: x*y + 0.40625)
    f(numbers((10, 3)), numbers((3,)))  # few elements
    f(numbers((ROWS, 9)), numbers((9,)))  # long rows
    f(numbers((ROWS, 3)), numbers((ROWS, 3)))  # no rows at all
    f(numbers((ROWS, 3)), numbers((ROWS, 6))[:, ::2])
    assert compiled() == []
    f(numbers((ROWS, 3)), numbers((3,)))
    f(numbers((2*ROWS, 3)), numbers((3,)))
    assert len(compiled()) == 1
    f(numbers((ROWS, 3)), numbers((3, ROWS)).T)  # in planes
    f(numbers((ROWS, 3)), numbers((3, 2*ROWS)).T[:ROWS])  # that lie farther apart
    assert len(compiled()) == 2


@pytest.mark.parametrize("dtype", sampled(
    ["f4", "f2", ml_dtypes.bfloat16, "i1", "?", "c8"], "f4", "f2"), ids=str)
@pytest.mark.parametrize("row", [2, 5, 8])
def test_planes(row, dtype):
    x, y = numbers((3, ROWS, row), dtype), numbers((3, row, ROWS + 7), dtype)
    given = y.swapaxes(1, 2)[:, 3:-4]
    for other in (given, given[:, :, ::-1]):
        np.testing.assert_array_equal(ops.multiply(x, other), x*other)
        np.testing.assert_array_equal(ops.equal(other, x), other == x)
