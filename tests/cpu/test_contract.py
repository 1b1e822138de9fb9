"""Contractions against NumPy on small integers, which every dtype holds exactly."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest

from nbfused import ops
from nbfused.config import config
from nbfused.cpu.contract.matrices import panels
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract
from nbfused.specs.vjp.functions import identity
from tests.cpu.skeletons import code, launch, run_contract, steps
from tests.variants import sampled, sampled_together

RNG = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)


def relu_of_sum(acc, bias):
    return max(acc + bias, 0.0)


def two_results(acc, d, c):
    return (acc + d)*c, acc


PLAIN = Contract("mk,kn->mn", identity())
BIAS = Contract("mk,kn->mn", parse(relu_of_sum), ("element",))
TWO = Contract("mk,kn->mn", parse(two_results), ("element", "scalar"))
RELU_FIRST = Contract("mk,kn->mn", identity(), (),
                      (parse(lambda x: max(x, 0.0)), parse(lambda x: x*0.5)))
SIZES = [(1, 1, 1), (3, 4, 5), (4, 0, 5), (17, 33, 7), (300, 20, 1100), (1, 50, 3),
         (50, 3, 1)]
LAYOUTS = {
    "c": lambda x: x,
    "transposed": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "strided": lambda x: np.repeat(np.repeat(x, 2, -1), 3, -2)[..., ::-3, ::2],
    "sliced": lambda x: np.concatenate([x, x + 1], -1)[..., :x.shape[-1]],
}


def integers(shape, dtype=np.float32):
    return RNG.integers(-4, 5, shape).astype(dtype)


def exact(a, b):
    return np.matmul(a.astype(np.int64), b.astype(np.int64))


@pytest.mark.parametrize("dtype", sampled(
    ["f2", BF16, "f4", "f8", "i1", "i4", "u8", "c8", "c16"],
    "f2", "f4", "f8", "i1", "u8", "c8"), ids=str)
@pytest.mark.parametrize("sizes", SIZES[:5], ids=str)
def test_dtypes(dtype, sizes):
    m, k, n = sizes
    a, b = integers((m, k)), integers((k, n))
    if np.dtype(dtype).kind == "u":
        a, b = abs(a), abs(b)
    a, b = a.astype(dtype), b.astype(dtype)
    got = run_contract(PLAIN, a, b)
    expected = a.real.astype(int) @ b.real.astype(int) if np.dtype(dtype).kind == "c" \
        else exact(a, b)
    assert got.dtype == np.dtype(dtype)
    assert np.array_equal(got, expected.astype(got.dtype))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(("left", "right"), sampled_together(
    [(a, b) for a in LAYOUTS for b in LAYOUTS],
    *zip(LAYOUTS, reversed(LAYOUTS), strict=True)))
def test_layouts_and_epilogues(sizes, left, right):
    m, k, n = sizes
    a, b = LAYOUTS[left](integers((m, k))), LAYOUTS[right](integers((k, n)))
    bias, expected = integers((n,)), exact(a, b)
    assert np.array_equal(run_contract(PLAIN, a, b), expected)
    got = run_contract(BIAS, a, b, bias)
    assert np.array_equal(got, np.maximum(expected + bias, 0))
    both = run_contract(TWO, a, b, bias, 0.5)
    assert np.array_equal(both[0], (expected + bias)*0.5)
    assert np.array_equal(both[1], expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_prologues(layout):
    a, b = LAYOUTS[layout](integers((30, 20))), LAYOUTS[layout](integers((20, 40)))
    expected = exact(np.maximum(a, 0), b)*0.5
    assert np.array_equal(run_contract(RELU_FIRST, a, b), expected)


@pytest.mark.parametrize("dtype", ["f2", "f4"])
@pytest.mark.parametrize(("left", "right"), [
    ((3,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 1)), ((1, 3), (2, 1)), ((5,), ())],
    ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches(dtype, left, right, layout):
    a = LAYOUTS[layout](integers((*left, 6, 7), dtype))
    b = LAYOUTS[layout](integers((*right, 7, 5), dtype))
    expected = exact(a, b)
    assert np.array_equal(run_contract(PLAIN, a, b), expected)
    bias = integers(expected.shape[-3:], dtype)
    got = run_contract(BIAS, a, b, bias)
    assert np.array_equal(got, np.maximum(expected + bias, 0))


@pytest.mark.parametrize("spec", [PLAIN, BIAS])
@pytest.mark.parametrize("layout", [
    lambda s: np.zeros(s[::-1], np.float32).T, lambda s: np.zeros((s[0], 3*s[1]),
                                                                  np.float32)[:, ::3],
    lambda s: np.zeros((2*s[0], s[1]), np.float32)[::-2]])
def test_strided_outputs(spec, layout):
    a, b, bias = integers((70, 20)), integers((20, 30)), integers((30,))
    out = layout((70, 30))
    extras = (bias,) if spec is BIAS else ()
    run_contract(spec, a, b, *extras, out=[out])
    expected = exact(a, b)
    assert np.array_equal(out, np.maximum(expected + bias, 0) if extras else expected)
    if out.base is not None and out.base.size > out.size:
        assert np.count_nonzero(out.base) == np.count_nonzero(out)


def test_several_dimensions_in_each_group():
    """``abij,acjk -> abkic``-like: two m, two n, two k dimensions, none merges."""
    a = integers((2, 3, 4, 5, 6))  # g, m0, k0, m1, k1
    b = integers((2, 6, 7, 4, 2))  # g, k1, n0, k0, n1
    d = integers((7, 1))
    out = np.zeros((2, 3, 7, 5, 2), np.float32)  # g, m0, n0, m1, n1
    sa, sb, sd, so = steps(a), steps(b), steps(d), steps(out)
    strides = [
        (sa[0], sa[1], sa[3], 0, 0, sa[2], sa[4]),
        (sb[0], 0, 0, sb[2], sb[4], sb[3], sb[1]),
        (0, 0, 0, sd[0], 0, 0, 0),
        (so[0], so[1], so[3], so[2], so[4], 0, 0)]
    codes = [code(strides[0][2]) + code(strides[0][6]),
             code(strides[1][6]) + code(strides[1][4]),
             *(code(s[2]) + code(s[4]) for s in strides[2:])]
    launch(BIAS, (a, b, d), (out,), (1, 2, 2, 2), (2, 3, 5, 7, 2, 4, 6), strides, codes)
    product = np.einsum("gmkij,gjnkl->gmnil", a, b)
    assert np.array_equal(out, np.maximum(product + d[:, None, :], 0))


@pytest.mark.parametrize("number", [2.0, np.float32(2), np.float64(2), np.int32(2),
                                    np.array(2, np.float32)], ids=repr)
@pytest.mark.parametrize("sizes", [(3, 4, 5), (300, 20, 300)], ids=str)
def test_a_number_as_extra_has_a_dtype_perhaps(sizes, number):
    m, k, n = sizes
    a, b, d = integers((m, k), "f4"), integers((k, n), "f4"), integers((m, n), "f4")
    for extras, want in (((d, number), (a @ b + d)*2), ((number, d), (a @ b + 2)*d)):
        got = ops.matmul(a, b, epilogue=two_results, extras=extras)
        np.testing.assert_array_equal(got[0], want)
        np.testing.assert_array_equal(got[1], a @ b)


def test_panels_cover_everything_once():
    for extents, columns in (((5,), 3), ((1000,), 2000), ((3, 700), 1500), ((), 4),
                             ((40, 50, 6), 900), ((7, 0), 5), ((4,), 10_000_000)):
        seen = np.zeros(extents, int)
        for ranges in panels(extents, columns):
            seen[tuple(slice(s, s + c) for s, c in ranges)] += 1
        assert np.all(seen == 1)


def test_panels_of_a_large_product_equal_the_whole():
    a, b = integers((1700, 64)), integers((64, 1400))
    bias = integers((1400,))
    expected = np.maximum(exact(a, b) + bias, 0)
    for threads in (1, 2):
        with config.override(num_threads=threads):
            assert np.array_equal(run_contract(BIAS, a, b, bias), expected)
            half = [x.astype(np.float16) for x in (a, b, bias)]
            assert np.array_equal(run_contract(BIAS, *half, dtypes=[np.dtype("f4")]),
                                  expected)


def test_calls_from_many_threads():
    a, b = integers((200, 50), "f2"), integers((50, 300), "f2")
    bias = integers(300, "f2")
    expected = np.maximum(exact(a, b) + bias, 0)
    wrong = []

    def work():
        for _ in range(10):
            if not np.array_equal(run_contract(BIAS, a, b, bias), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("dtype", sampled(["f4", "f8", "i4", "c8"], "f4", "i4"))
@pytest.mark.parametrize(("left", "right"), [
    ((3, 900), (900, 5)), ((3000, 2), (2, 3)), ((4, 30, 20), (20, 25)),
    ((4, 30, 20), (4, 20, 25)), ((900,), (900, 3))], ids=str)
def test_blas_again_on_other_arrays(dtype, left, right):
    """What is bound once is called with other memory, some of it read-only."""
    for bias in (None, integers(right[-1:], dtype)):
        for layout in (np.ascontiguousarray, np.asfortranarray):
            for _ in range(3):
                a = layout(integers(left, dtype))
                b = layout(integers(right, dtype))
                a.flags.writeable = b.flags.writeable = False
                expected = np.matmul(a, b) if bias is None else np.matmul(a, b) + bias
                got = ops.matmul(a, b, bias=bias)
                assert got.dtype == expected.dtype
                assert np.array_equal(got, expected)
                room = np.full((*expected.shape[:-1], 2*right[-1]), 7, dtype)
                out = room[..., ::2]
                assert ops.matmul(a, b, bias=bias, out=out) is out
                assert np.array_equal(out, expected)
                assert np.all(room[..., 1::2] == 7)


def test_nothing_to_add_up():
    for _ in range(2):
        assert np.array_equal(ops.matmul(np.ones((3, 0)), np.ones((0, 4)), bias=2.0),
                              np.full((3, 4), 2.0))
        assert ops.matmul(np.ones((0, 3)), np.ones((3, 4))).shape == (0, 4)
