"""Products in blocks against NumPy on small integers, which floats hold exactly."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.config import config
from nbfused.cpu.gemm import blocked_product, suits
from nbfused.cpu.tile import tile_of
from nbfused.scalar.parse import parse
from nbfused.specs import Contract
from tests.cpu.skeletons import run_contract

RNG = np.random.default_rng(0)
SIZES = [(1, 1, 1), (13, 1, 33), (12, 16, 32), (11, 17, 31), (100, 64, 70),
         (25, 1100, 33), (60, 2100, 64), (300, 129, 257)]
LAYOUTS = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "any": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::-2, ::3][::-1],
    "backwards": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
}


def integers(shape, dtype):
    return RNG.integers(-4, 5, shape).astype(dtype)


def product(a, b):
    """Every element is handed on once; what is not stays NaN."""
    out = np.full((a.shape[0], b.shape[1]), np.nan, a.dtype)

    def finish(products, at, shape):
        place = tuple(slice(i, i + n) for i, n in zip(at, shape, strict=True))
        assert np.all(np.isnan(out[place]))
        out[place] = products[:shape[0], :shape[1]]

    blocked_product(a, b, finish)
    return out


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_ragged_sizes_and_layouts(dtype, sizes, left, right):
    m, k, n = sizes
    a = LAYOUTS[left](integers((m, k), dtype))
    b = LAYOUTS[right](integers((k, n), dtype))
    assert np.array_equal(product(a, b), a @ b)


def test_columns_in_several_parts(monkeypatch):
    monkeypatch.setattr("nbfused.cpu.gemm._PACKED_BYTES", 1 << 16)
    monkeypatch.setattr("nbfused.cpu.gemm._BLOCK_BYTES", 1 << 15)
    a, b = integers((150, 200), "f4"), integers((200, 500), "f4")
    assert np.array_equal(product(a, b), a @ b)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bits_do_not_depend_on_threads_and_blocks(dtype, monkeypatch):
    a = RNG.standard_normal((200, 3000)).astype(dtype)
    b = RNG.standard_normal((3000, 150)).astype(dtype)
    found = []
    for threads, block in ((1, 1 << 20), (2, 1 << 18), (5, 1 << 14)):
        monkeypatch.setattr("nbfused.cpu.gemm._BLOCK_BYTES", block)
        with config.override(num_threads=threads):
            found.append(product(a, b))
    assert all(np.array_equal(found[0], f) for f in found)
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    scale = abs(a).astype(np.longdouble) @ abs(b)
    assert np.all(abs(found[0] - exact) <= 20*np.finfo(dtype).eps*scale)


def test_not_a_number_stays_where_it_is():
    a, b = integers((50, 60), "f4"), integers((60, 70), "f4")
    a[3, 5], b[7, 64] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        got, expected = product(a, b), a @ b
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    finite = np.isfinite(expected)
    assert np.array_equal(got[finite], expected[finite])


def test_which_products_suit():
    single, half = np.dtype("f4"), np.dtype("f2")
    assert suits(single, 1024, 1024, 1024)
    assert not suits(half, 1024, 1024, 1024)
    assert not suits(single, 1 << 20, 1 << 20, 4)
    assert not suits(single, 1, 1 << 12, 1 << 12)
    assert not suits(single, 64, 64, 1 << 20)


def test_a_tile_fits_the_registers():
    for itemsize in (4, 8):
        tile = tile_of(itemsize)
        registers = 32 if tile.rows == 12 else 16
        assert tile.rows * 2 + 3 <= registers


BIAS = Contract("mk,kn->mn", parse(lambda acc, b: max(acc + b, 0.0)), ("element",))


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_large_contractions(transposed, dtype):
    """Batched, with an epilogue, into rows and into columns of a larger array."""
    a, b = integers((2, 111, 130), dtype), integers((130, 95), dtype)
    bias = integers(95, dtype)
    room = np.full((2, 120, 120), 7, dtype)
    out = room.swapaxes(1, 2)[:, :111, :95] if transposed else room[:, :111, :95]
    run_contract(BIAS, a, b, bias, out=[out])
    expected = np.maximum(np.matmul(a.astype("f8"), b.astype("f8")) + bias, 0)
    assert np.array_equal(out, expected.astype(dtype))
    assert np.count_nonzero(room == 7) >= room.size - out.size
