"""Products in blocks against NumPy on small integers, which floats hold exactly."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

from nbfused import ops
from nbfused.config import config
from nbfused.cpu.contract.gemm import blocks_of, is_suitable
from nbfused.cpu.contract.launcher import _Product
from nbfused.cpu.contract.tile import tile_of
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract
from tests.cpu.skeletons import run_contract
from tests.variants import sampled, sampled_together

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


PLAIN = Contract("mk,kn->mn", parse(lambda acc: acc))


@pytest.fixture(autouse=True)
def blocks_only(monkeypatch):
    """Whatever the sizes, nothing is left to BLAS, or multiplied as it lies."""
    def refuse(self, call):
        raise AssertionError("not by blocks")

    monkeypatch.setattr("nbfused.cpu.contract.launcher.is_suitable", lambda *args: True)
    monkeypatch.setattr("nbfused.cpu.contract.launcher.is_narrow", lambda *args: False)
    monkeypatch.setattr("nbfused.cpu.contract.launcher._BATCHED", 0)
    monkeypatch.setattr(_Product, "_by_panels", refuse)
    monkeypatch.setattr(_Product, "_by_blas", refuse)


def product(a, b):
    """In poisoned memory, with rows and columns around it that stay as they are."""
    m, n = a.shape[0], b.shape[1]
    room = np.full((m + 2, n + 3), np.nan, a.dtype)
    run_contract(PLAIN, a, b, out=[room[1:1 + m, 2:2 + n]])
    assert np.all(np.isnan(room[[0, -1]]))
    assert np.all(np.isnan(room[:, [0, 1, -1]]))
    return room[1:1 + m, 2:2 + n]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("left", "right"), sampled_together(
    [(a, b) for a in LAYOUTS for b in LAYOUTS],
    *zip(LAYOUTS, reversed(LAYOUTS), strict=True)))
def test_ragged_sizes_and_layouts(dtype, sizes, left, right):
    m, k, n = sizes
    a = LAYOUTS[left](integers((m, k), dtype))
    b = LAYOUTS[right](integers((k, n), dtype))
    assert np.array_equal(product(a, b), a @ b)


def test_columns_in_several_parts(monkeypatch):
    monkeypatch.setattr("nbfused.cpu.contract.gemm._PACKED_BYTES", 1 << 16)
    monkeypatch.setattr("nbfused.cpu.contract.gemm._BLOCK_BYTES", 1 << 15)
    a, b = integers((150, 200), "f4"), integers((200, 500), "f4")
    assert np.array_equal(product(a, b), a @ b)


@pytest.mark.parametrize("dtype", sampled(["f4", "f8"], "f4"))
def test_bits_do_not_depend_on_threads_and_blocks(dtype, monkeypatch):
    a = RNG.standard_normal((200, 3000)).astype(dtype)
    b = RNG.standard_normal((3000, 150)).astype(dtype)
    found = []
    for threads, block in ((1, 1 << 20), (2, 1 << 18), (5, 1 << 14), (3, 1)):
        monkeypatch.setattr("nbfused.cpu.contract.gemm._BLOCK_BYTES", block)
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
    assert is_suitable(single, 1024, 1024, 1024, False)
    assert not is_suitable(half, 1024, 1024, 1024, False)
    assert not is_suitable(single, 1 << 20, 1 << 20, 4, False)
    assert not is_suitable(single, 16, 16, 16, False)
    assert is_suitable(single, 16, 16, 16, True)  # BLAS packs it as well
    assert not is_suitable(single, 4, 4, 4000, False)
    assert not is_suitable(single, 1, 100, 0, False)
    assert not is_suitable(single, 1, 1 << 12, 1 << 12, False)
    assert not is_suitable(single, 64, 64, 1 << 20, False)


def test_strided_factors_are_packed_by_the_kernel(monkeypatch):
    """BLAS would need a copy of them, by a launch of its own."""
    blas = "nbfused.cpu.contract.launcher.multiply_by_blas"
    monkeypatch.setattr(blas, lambda *args: pytest.fail("BLAS"))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, s).astype("f4") for s in ((67, 88), (44, 394)))
    for x in (a[:, ::2], a[::-1, 43::-1]):
        for y in (b[:, ::2], b[:, 1::2], b[::-1, 196::-1]):
            assert np.array_equal(ops.matmul(x, y), x @ y)


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


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("repeated", [False, True])
def test_batches_and_numbers(dtype, repeated):
    """Of factors that are packed first, one that is the same for a whole batch once."""
    a = integers((3, 4, 70, 50), dtype)
    b = integers((50, 60) if repeated else (3, 4, 50, 60), dtype)
    room = np.full((3, 4, 71, 61), np.nan, dtype)
    run_contract(SCALED, a, b, 2.0, out=[room[..., :70, :60]])
    expected = np.matmul(a.astype("f8"), b.astype("f8"))*2
    assert np.array_equal(room[..., :70, :60], expected.astype(dtype))
    assert np.all(np.isnan(room[..., 70, :]))
    assert np.all(np.isnan(room[..., 60]))


SCALED = Contract("...mk,...kn->...mn", parse(lambda acc, s: acc*s), ("scalar",))


@pytest.mark.parametrize(("dtype", "edge"), [("f4", 24), ("f4", 150), ("f8", 150)])
def test_bound_calls_take_other_arrays_and_read_only_ones(dtype, edge):
    """The same call again, on other memory, by more and by fewer threads."""
    for threads in (1, 2, 5, 1, 2):
        a, b, c = (integers(s, dtype) for s in ((edge, edge), (edge, edge), (edge,)))
        for x in (a, b, c):
            x.flags.writeable = False
        expected = np.maximum(a @ b + c, 0)
        with config.override(num_threads=threads):
            for _ in range(3):
                y = np.full((edge, edge), np.nan, dtype)
                assert ops.linear(a, b, c, "relu", out=y) is y
                assert np.array_equal(y, expected)
                assert np.array_equal(ops.linear(a, b, c, "relu"), expected)


def test_zeros_keep_their_sign_and_nothing_else_is_lost():
    a = np.array([[-1.0, 0.0], [0.0, -0.0]], np.float32)
    b = np.array([[0.0, np.nan], [5.0, 1.0]], np.float32)
    got = ops.matmul(a, b, epilogue="negative")
    expected = -(a @ b)
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.array_equal(np.signbit(got[:, 0]), np.signbit(expected[:, 0]))


def test_products_of_several_threads_at_once():
    """Each has memory of its own; blocks wait for who packs."""
    a, b = integers((150, 170), "f4"), integers((170, 190), "f4")
    factors = [(a*k, np.matmul(a*k, b)) for k in range(6)]
    wrong = []

    def work(left, expected):
        for _ in range(30):
            if not np.array_equal(ops.matmul(left, b), expected):
                wrong.append(1)

    with config.override(num_threads=3):
        threads = [threading.Thread(target=work, args=f) for f in factors]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


def test_an_epilogue_of_many_arrays_is_left_to_blas(monkeypatch):
    seen = []
    monkeypatch.setattr(_Product, "_by_panels", lambda self, call: None)
    monkeypatch.setattr(_Product, "_by_blas", lambda self, call: seen.append(call))
    monkeypatch.setattr("nbfused.cpu.contract.gemm.WORDS", 4)
    a = integers((60, 60), "f4")
    run_contract(PLAIN, a, a)
    assert len(seen) == 1


_FIRST = """
import threading
import numpy as np
from nbfused import ops
x, together, made = np.ones((1000, 1000), "float32"), threading.Barrier(4), []

def run():
    together.wait()
    made.extend([ops.matmul(x, x)[0, 0] for _ in range(3)])

threads = [threading.Thread(target=run) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert made == [1000.0]*12, made
"""


def test_the_first_product_of_several_threads_at_once():
    """Each had kernels of its own, and those of one were forgotten while it ran."""
    done = subprocess.run([sys.executable, "-c", _FIRST], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("panels", "size", "threads"), [
    (1, 100, 2), (3, 100, 2), (11, 100, 2), (100, 1 << 19, 2), (100, 1 << 30, 3)])
def test_blocks_are_for_all_threads_and_fit_the_cache(panels, size, threads):
    found = blocks_of(panels, size, threads)
    assert 1 <= found <= panels
    assert found == panels or (found % threads == 0 and found >= 2*threads)
    assert found == panels or -(-panels // found)*size <= 1 << 20
