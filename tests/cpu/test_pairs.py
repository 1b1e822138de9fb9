"""Products of bfloat16 by the processor's instructions for pairs, against float64.

Sums of small integers are exact in float32, and up to 256 in bfloat16.
"""

from __future__ import annotations

import threading
from itertools import product

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.config import config
from nbfused.cpu.contract import launcher
from nbfused.cpu.contract.gemm import Factors
from nbfused.cpu.contract.pairs import columns
from nbfused.cpu.contract.pairs.choice import is_better_packed
from nbfused.cpu.runtime import objects
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract
from tests.cpu.skeletons import run_contract
from tests.variants import sampled, sampled_together

RNG = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)
SIZES = [(1, 1, 1), (13, 1, 33), (12, 2, 32), (11, 17, 31), (100, 64, 70), (1, 301, 40),
         (25, 1101, 33), (40, 33, 1), (7, 4, 100), (300, 129, 257), (60, 4099, 49),
         (18, 31, 500), (5, 300, 7)]
LAYOUTS = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "any": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::-2, ::3][::-1],
    "backwards": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
}
PLAIN = Contract("mk,kn->mn", parse(lambda acc: acc))
WIDE = Contract("mk,kn->mn", parse(lambda acc, x: acc + x), ("element",))
BIAS = Contract("mk,kn->mn", parse(lambda acc, b: max(acc + b, 0.0)), ("element",))
SCALED = Contract("...mk,...kn->...mn", parse(lambda acc, s: acc*s), ("scalar",))

pytestmark = pytest.mark.skipif(
    not objects.has_bfloat16_products(),
    reason="the processor has no instructions for products of bfloat16 (avx512_bf16)")


@pytest.fixture(params=["packed", "narrow"])
def way(request, monkeypatch):
    """Each kind of kernels, whatever the sizes; BLAS makes none."""
    def refuse(*args):
        raise AssertionError("by BLAS")

    monkeypatch.setattr(launcher, "is_better_packed",
                        lambda *given: request.param == "packed")
    monkeypatch.setattr(launcher, "multiply_by_blas", refuse)
    monkeypatch.setattr(launcher._Product, "_by_panels", refuse)
    return request.param


@pytest.fixture
def made(monkeypatch):
    """The dtypes of factors that are packed, and ways of those that are not."""
    seen = []

    def watched(name, own):
        def bind(f, *more):
            found = own(f, *more)
            if found is not None:
                seen.append((name, f.dtype))
            return found

        return bind

    for name in ("bind_product", "bind_batch", "bind_columns"):
        monkeypatch.setattr(launcher, name, watched(name, getattr(launcher, name)))
    own = launcher.bind_direct
    monkeypatch.setattr(launcher, "bind_direct", lambda f, dtypes, way, *more: (
        seen.append((way.form, way.paired)), own(f, dtypes, way, *more))[1])
    return seen


def integers(*shape, most=1):
    return RNG.integers(-most, most + 1, shape)


def numbers(*shape):
    return RNG.standard_normal(shape).astype(BF16)


def check(got, a, b, wanted):
    """Half a unit of bfloat16, and float32 rounded once for each term."""
    a, b = a.astype("f8"), b.astype("f8")
    scale = np.abs(a) @ np.abs(b)
    far = 2.0**-8*np.abs(wanted) + 2.0**-23*(a.shape[-1] + 2)*(scale + 1)
    assert got.shape == wanted.shape
    assert np.all(np.abs(got.astype("f8") - wanted) <= far)


def check_bits(a, b, monkeypatch):
    """The same, whatever the number of threads and the size of blocks."""
    found = []
    for threads, block in ((1, 1 << 20), (2, 1 << 18), (5, 1 << 14), (3, 1)):
        monkeypatch.setattr("nbfused.cpu.contract.gemm._BLOCK_BYTES", block)
        with config.override(num_threads=threads):
            found.append(run_contract(PLAIN, a, b, dtypes=[np.float32]))
    assert all(np.array_equal(found[0], other) for other in found)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("left", "right"), sampled_together(
    product(LAYOUTS, LAYOUTS), *zip(LAYOUTS, reversed(LAYOUTS), strict=True),
    ("rows", "rows"), ("columns", "columns")))
def test_sizes_and_layouts(way, sizes, left, right):
    """In poisoned memory, with rows and columns around that stay as they are."""
    m, k, n = sizes
    a, b = integers(m, k), integers(k, n)
    room = np.full((m + 2, n + 3), 7, BF16)
    out = room[1:1 + m, 2:2 + n]
    out[:] = np.nan
    run_contract(PLAIN, LAYOUTS[left](a.astype(BF16)), LAYOUTS[right](b.astype(BF16)),
                 out=[out])
    assert np.array_equal(out, (a @ b).astype(BF16))
    assert np.count_nonzero(room == 7) >= room.size - out.size
    assert np.all(room[[0, -1]] == 7)
    assert np.all(room[:, [0, 1, -1]] == 7)


@pytest.mark.parametrize("sizes", sampled(SIZES, *SIZES[3:11]), ids=str)
def test_numbers_are_as_exact_as_float32_sums(way, sizes):
    m, k, n = sizes
    a, b, x = numbers(m, k), numbers(k, n), RNG.standard_normal((m, n)).astype("f4")
    exact = a.astype("f8") @ b.astype("f8")
    check(run_contract(PLAIN, a, b), a, b, exact)
    got = run_contract(WIDE, a, b, x, dtypes=[np.float32])
    scale = np.abs(a.astype("f8")) @ np.abs(b.astype("f8")) + np.abs(x)
    assert got.dtype == np.float32
    assert np.all(np.abs(got - (exact + x)) <= 2.0**-23*(k + 2)*scale)


@pytest.mark.parametrize("turned", [*product((False, True), repeat=2)], ids=str)
def test_what_lies_beside_a_factor_is_not_read(way, turned):
    """An odd number of terms is filled up with zeros, which infinities would spoil."""
    for m, k, n in ((12, 33, 32), (13, 7, 35), (5, 301, 6), (30, 1, 50)):
        a, b = integers(m, k), integers(k, n)
        lie = []
        for x, transposed in zip((a, b), turned, strict=True):
            x = x.T if transposed else x
            room = np.full((x.shape[0] + 1, x.shape[1] + 1), np.nan, BF16)
            room[:-1, :-1] = x
            lie.append(room[:-1, :-1].T if transposed else room[:-1, :-1])
        assert np.array_equal(run_contract(PLAIN, *lie), (a @ b).astype(BF16))


def test_not_a_number_stays_where_it_is(way):
    for m, k, n in ((50, 60, 70), (5, 61, 300), (300, 40, 6)):
        a, b = integers(m, k, most=3).astype(BF16), integers(k, n, most=3).astype(BF16)
        a[3, 5], b[7, n - 2] = np.nan, np.inf
        with np.errstate(invalid="ignore"):
            expected = a.astype("f8") @ b.astype("f8")
        got = run_contract(PLAIN, a, b)
        assert np.array_equal(np.isnan(got), np.isnan(expected))
        known = ~np.isnan(expected)
        assert np.array_equal(got[known], expected[known].astype(BF16))


@pytest.mark.parametrize("extents", [(200, 3000, 150), (3, 9000, 500), (700, 801, 5)],
                         ids=str)
def test_the_number_of_threads_changes_no_bit(way, extents, monkeypatch):
    m, k, n = extents
    a, b = numbers(m, k), numbers(k, n)
    check_bits(a, b, monkeypatch)


def test_columns_in_several_parts(monkeypatch):
    monkeypatch.setattr(launcher, "is_better_packed", lambda *given: True)
    monkeypatch.setattr("nbfused.cpu.contract.gemm._PACKED_BYTES", 1 << 16)
    a, b = integers(150, 203), integers(203, 500)
    got = run_contract(PLAIN, a.astype(BF16), b.astype(BF16))
    assert np.array_equal(got, (a @ b).astype(BF16))


@pytest.fixture
def wide(monkeypatch, made):
    """Products that threads share are cut into columns, whatever their sizes."""
    monkeypatch.setattr(launcher, "is_better_packed", lambda *given: True)
    monkeypatch.setattr(columns, "_WIDE", 0)
    monkeypatch.setattr(columns, "runs_alone", lambda *given: False)
    return made


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_wide_products(wide, sizes):
    m, k, n = sizes
    with config.override(num_threads=3):
        for lie in product(LAYOUTS.values(), repeat=2):
            a, b, x = integers(m, k), integers(k, n), integers(m, n, most=9)
            left, right = lie[0](a.astype(BF16)), lie[1](b.astype(BF16))
            room = np.full((m + 2, n + 3), 7, BF16)
            run_contract(PLAIN, left, right, out=[room[1:-1, 2:-1]])
            assert np.array_equal(room[1:-1, 2:-1], (a @ b).astype(BF16))
            assert np.all(room[[0, -1]] == 7)
            assert np.all(room[:, [0, 1, -1]] == 7)
            for out in (np.empty((m, n), "f4"), np.empty((n, m), "f4").T):
                run_contract(WIDE, left, right, x.astype("f4"), out=[out])
                assert np.array_equal(out, a @ b + x)
            run_contract(BIAS, left, right, x[0].astype(BF16), out=[room[1:-1, 2:-1]])
            assert np.array_equal(room[1:-1, 2:-1],
                                  np.maximum(a @ b + x[0], 0).astype(BF16))
    assert {name for name, _ in wide} == {"bind_columns"}


def test_wide_products_are_the_same_bits(wide, monkeypatch):
    """As those of one thread, which are cut into rows."""
    a, b = numbers(60, 3001), numbers(3001, 700)
    check_bits(a, b, monkeypatch)
    assert {name for name, _ in wide} == {"bind_columns", "bind_product"}


@pytest.mark.parametrize("sizes", [(70, 81, 90), (4, 300, 65), (65, 300, 4)], ids=str)
def test_epilogues_and_where_results_lie(way, sizes):
    m, k, n = sizes
    a, b, bias = integers(m, k), integers(k, n), integers(n, most=9)
    x, y, z = (v.astype(BF16) for v in (a, b, bias))
    wanted = np.maximum(a @ b + bias, 0).astype(BF16)
    for out in (np.empty((m, n), BF16), np.empty((n, m), BF16).T,
                np.empty((m, 2*n), BF16)[:, ::2], np.empty((m, n + 3), BF16)[:, 3:]):
        run_contract(BIAS, x, y, z, out=[out])
        assert np.array_equal(out, wanted)


@pytest.mark.parametrize("sizes", [(71, 81, 90), (4, 301, 65), (65, 301, 4)], ids=str)
def test_layers(sizes):
    """The same call again, on other memory, by more and by fewer threads."""
    m, k, n = sizes
    for threads in (1, 2, 3, 1):
        a, b, bias = integers(m, k), integers(k, n), integers(n, most=9)
        x, y, z = (v.astype(BF16) for v in (a, b, bias))
        wanted = np.maximum(a @ b + bias, 0).astype(BF16)
        with config.override(num_threads=threads):
            assert np.array_equal(ops.linear(x, y, z, "relu"), wanted)
            out = np.empty((n, m), BF16).T
            assert ops.matmul(x, y, bias=z, epilogue="relu", out=out) is out
            assert np.array_equal(out, wanted)


@pytest.mark.parametrize("sizes", [(33, 21, 40), (5, 9, 7), (1, 64, 30), (30, 64, 1)],
                         ids=str)
def test_batches(way, sizes, made):
    """With factors that are repeated, transposed, and batches that do not merge."""
    m, k, n = sizes
    full = integers(3, 4, m, k), integers(3, 4, k, n)
    for a in (full[0], full[0][:1], full[0][:, 1:2], full[0][0, 0],
              full[0].transpose(1, 0, 2, 3)[:3, :, ::-1]):
        for b in (full[1], full[1][0], full[1][:, :1],
                  np.ascontiguousarray(full[1].swapaxes(2, 3)).swapaxes(2, 3)):
            if a.shape[:1] == (3,) and a.shape[1:2] == (3,):
                b = b[..., :3, :, :] if b.ndim > 2 and b.shape[-3] > 1 else b
            wanted = np.matmul(a, b)*2
            room = np.full((*wanted.shape[:-2], wanted.shape[-1] + 1,
                            wanted.shape[-2] + 2), 7, BF16)
            for out in (room[..., :-1, 1:-1].swapaxes(-1, -2), None):
                got = run_contract(SCALED, a.astype(BF16), b.astype(BF16), 2.0,
                                   dtypes=[BF16], out=None if out is None else [out])
                assert np.array_equal(got, wanted.astype(BF16))
            assert np.count_nonzero(room == 7) >= room.size - wanted.size
    assert any(name == "bind_batch" for name, _ in made)


def test_large_products_of_a_batch_are_shared(made):
    a, b = integers(2, 300, 200), integers(2, 200, 310)
    got = ops.matmul(a.astype(BF16), b.astype(BF16))
    assert np.array_equal(got, np.matmul(a, b).astype(BF16))
    assert not made or made[0] in (("bind_product", BF16), ("bind_columns", BF16))


def test_threads_change_no_bit_of_a_batch():
    a, b = numbers(9, 50, 333), numbers(9, 333, 60)
    found = []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            found.append(run_contract(SCALED, a, b, 1.0, dtypes=[np.float32]))
    assert all(np.array_equal(found[0], other) for other in found)
    check(found[0].astype(BF16), a, b, a.astype("f8") @ b.astype("f8"))


def test_products_of_several_threads_at_once():
    """Each has memory of its own; units wait for who packs."""
    shapes = [((150, 170), (170, 190)), ((40, 300), (300, 900)),
              ((9, 40, 50), (9, 50, 60)), ((5, 400), (400, 300))]
    factors = [(a.astype(BF16), b.astype(BF16), np.matmul(a, b).astype(BF16))
               for a, b in ((integers(*s), integers(*t)) for s, t in shapes)]
    wrong = []

    def work():
        for _ in range(20):
            wrong.extend(a.shape for a, b, expected in factors
                         if not np.array_equal(ops.matmul(a, b), expected))

    with config.override(num_threads=3):
        threads = [threading.Thread(target=work) for _ in range(5)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert not wrong


@pytest.mark.parametrize("sizes", [(40, 77, 50), (3, 200, 90), (129, 5, 300)], ids=str)
def test_both_ways(sizes):
    m, k, n = sizes
    a, b, c, g = numbers(m, k), numbers(k, n), numbers(n), numbers(m, n)
    x, y, z = (nf.Variable(v, requires_grad=True) for v in (a, b, c))
    ops.linear(x, y, z).backward(g)
    check(np.asarray(x.grad), g, b.T, g.astype("f8") @ b.T.astype("f8"))
    check(np.asarray(y.grad), a.T, g, a.T.astype("f8") @ g.astype("f8"))
    check(np.asarray(z.grad), np.ones((1, m)), g, g.astype("f8").sum(0))


def test_plans():
    """Again on other arrays; small ones are sequences of machine code."""
    @nf.fuse
    def network(x, w, bias, v):
        return ops.linear(ops.linear(x, w, bias, "relu"), v)

    for m, k, n in ((6, 33, 9), (90, 101, 130), (2, 700, 300)):
        for _ in range(3):
            x, w, v = integers(m, k), integers(k, n), integers(n, 4)
            bias = integers(n, most=5)
            hidden = np.maximum(x @ w + bias, 0)
            given = [y.astype(BF16) for y in (x, w, bias, v)]
            got = network(*given)
            hidden = hidden.astype(BF16).astype("f8")
            check(got, hidden, v, hidden @ v)


def test_kernels_of_pairs_are_taken(made):
    for m, k, n in ((300, 400, 200), (4, 300, 200), (200, 300, 4)):
        run_contract(PLAIN, numbers(m, k), numbers(k, n))
    assert made[0] in (("bind_product", BF16), ("bind_columns", BF16))
    assert [paired for _, paired in made[1:]] == [True, True]


def test_which_factors_are_packed():
    def packed(m, n, k, *strides):
        return is_better_packed(Factors(np.dtype("f4"), m, n, k, *strides), False)

    assert packed(1000, 1000, 1000, 1000, 1, 1, 1000)
    assert packed(1000, 1000, 5, 5, 1, 1, 1000)
    assert not packed(4, 1000, 1000, 1000, 1, 1, 1000)
    assert not packed(1000, 4, 1000, 1000, 1, 1000, 1)
    assert not packed(100, 100, 1 << 20, 1 << 20, 1, 1, 100)


@pytest.mark.parametrize(("count", "m", "k", "n"), [
    (3, 26, 25, 102), (4, 2, 1, 4), (2, 265, 90, 35), (5, 108, 377, 1)])
def test_sums_over_two_loops_that_are_not_one(count, m, k, n):
    """A factor that is copied is of float32: there are no pairs to multiply."""
    a = integers(k, m, count).astype(BF16).transpose(2, 1, 0)  # the batch innermost
    w, cotangent = integers(k, n).astype(BF16), integers(count, m, n).astype(BF16)
    shared = nf.Variable(w, requires_grad=True)
    nf.ops.matmul(a, shared).backward(cotangent)
    wanted = np.einsum("bmk,bmn->kn", a.astype("f8"), cotangent.astype("f8"))
    assert np.array_equal(shared.grad.astype("f8"), wanted.astype(BF16).astype("f8"))
