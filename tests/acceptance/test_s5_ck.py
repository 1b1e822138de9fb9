"""Composable Kernel's example 29: batched GEMM, bias, elementwise, permuted store.

Each test is named for the line of the acceptance list that it holds.  Integers are
small, so that products and sums are exact in every floating dtype.
"""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import nbfused as nf
from nbfused.arrays import describe
from nbfused.examples import batched_gemm

# G0 G1 M0 M1 N0 N1 K
SIZES = (1, 2, 4, 6, 3, 8, 16)


def integers(seed, shape, dtype="float32"):
    return np.random.default_rng(seed).integers(-5, 5, shape).astype(dtype)


def problem(sizes=SIZES, dtype="float32"):
    """A[G,H,m,i,k], B[G,H,n,j,k], D[G,H,n,j] of the example."""
    g, h, m, i, n, j, k = sizes
    return (integers(1, (g, h, m, i, k), dtype), integers(2, (g, h, n, j, k), dtype),
            integers(3, (g, h, n, j), dtype))


def permuted(a, b, d):
    """E[G0,G1,M0,N0,M1,N1]."""
    wide = [x.astype(np.float64) for x in (a, b, d)]
    return np.einsum("GHmik,GHnjk->GHmnij", *wide[:2]) + wide[2][:, :, None, :, None, :]


def placed(arrays, device):
    return [nf.array(x, device=device) for x in arrays]


SUBSCRIPTS = "GHmik,GHnjk->GHminj"
STORE = (0, 1, 2, 4, 3, 5)


def test_k01_one_launch_for_the_whole_batch(device):
    a, b = integers(1, (7, 9, 12)), integers(2, (7, 12, 10))
    x, y = placed((a, b), device)
    for op in (nf.ops.batched_matmul, nf.ops.matmul):
        with nf.trace_launches() as launches:
            found = op(x, y)
        assert [launch.kind for launch in launches] == ["Contract"]
        np.testing.assert_array_equal(nf.to_numpy(found), a @ b)


def test_k02_bias_with_zero_strides(device):
    a, b, d = problem()
    x, y, z = placed((a, b, d), device)
    ones = nf.ops.reshape(z, (1, 2, 1, 1, 3, 8))
    flat = nf.ops.broadcast_to(ones, (1, 2, 4, 6, 3, 8))
    assert describe(flat).strides[2:4] == (0, 0)
    for bias in (flat, ones):
        found = nf.ops.contract(SUBSCRIPTS, x, y, bias=bias)
        np.testing.assert_array_equal(nf.to_numpy(found),
                                      permuted(a, b, d).transpose(STORE))


@pytest.mark.parametrize("shape", [(), (10,), (9, 1), (7, 1, 1), (7, 9, 10)], ids=str)
def test_k02_bias_of_any_shape_that_broadcasts(shape, device):
    a, b, d = integers(1, (7, 9, 12)), integers(2, (7, 12, 10)), integers(3, shape)
    x, y, bias = placed((a, b, d), device)
    np.testing.assert_array_equal(
        nf.to_numpy(nf.ops.batched_matmul(x, y, bias=bias)), a @ b + d)


def test_k03_epilogue_with_further_tensors(device):
    a, b = integers(1, (3, 9, 12)), integers(2, (3, 12, 10))
    d, e = integers(3, (10,)), integers(4, (3, 9, 10))
    x, y, dd, ee = placed((a, b, d, e), device)
    with nf.trace_launches() as launches:
        found = nf.ops.batched_matmul(
            x, y, epilogue=lambda acc, d, e: (acc + d) * e, extras=(dd, ee))
    assert len(launches) == 1
    np.testing.assert_array_equal(nf.to_numpy(found), (a @ b + d) * e)


def test_k03_a_contraction_by_decorator(device):
    @nf.contraction("gmk,gkn->gmn")
    def biased_product(acc, d, e, scale=2.0):
        return (acc + d) * e * scale

    a, b = integers(1, (3, 9, 12)), integers(2, (3, 12, 10))
    d, e = integers(3, (10,)), integers(4, (3, 9, 1))
    x, y, dd, ee = placed((a, b, d, e), device)
    np.testing.assert_array_equal(nf.to_numpy(biased_product(x, y, dd, ee)),
                                  (a @ b + d) * e * 2)
    np.testing.assert_array_equal(nf.to_numpy(biased_product(x, y, dd, ee, scale=4)),
                                  (a @ b + d) * e * 4)


def test_k04_permuted_store(device):
    a, b, d = problem()
    x, y, z = placed((a, b, d), device)
    bias = nf.ops.reshape(z, (1, 2, 1, 1, 3, 8))
    found = nf.ops.contract(SUBSCRIPTS, x, y, bias=bias, out_axes=STORE)
    assert tuple(found.shape) == (1, 2, 4, 3, 6, 8)
    np.testing.assert_array_equal(nf.to_numpy(found), permuted(a, b, d))


def test_k04_store_into_a_strided_view(device):
    a, b, d = problem()
    x, y, z = placed((a, b, d), device)
    whole = nf.zeros((1, 2, 4, 3, 6, 8), "float32", device=device)
    view = nf.ops.transpose(whole, STORE)
    found = nf.ops.contract(SUBSCRIPTS, x, y, bias=nf.ops.reshape(
        z, (1, 2, 1, 1, 3, 8)), out=view)
    assert found is view
    np.testing.assert_array_equal(nf.to_numpy(whole), permuted(a, b, d))


def test_k04_batched_matmul_permutes(device):
    a, b, d = integers(1, (3, 9, 12)), integers(2, (3, 12, 10)), integers(3, (10,))
    x, y, bias = placed((a, b, d), device)
    for axes in ((1, 0, 2), (2, 1, 0), (0, 2, 1)):
        found = nf.ops.batched_matmul(x, y, bias=bias, permute=axes)
        np.testing.assert_array_equal(nf.to_numpy(found), (a @ b + d).transpose(axes))


def test_k05_no_temporary(device, monkeypatch):
    """The only array made is the result; none where it is given."""
    x, y, bias = placed((integers(1, (3, 9, 12)), integers(2, (3, 12, 10)),
                         integers(3, (10,))), device)
    library = type(describe(x).library)
    made = []
    original = library.maker

    def maker(self, shape, *rest):
        make = original(self, shape, *rest)
        return lambda: (made.append(shape), make())[1]

    monkeypatch.setattr(library, "maker", maker)

    def fused(out=None):
        return nf.ops.batched_matmul(x, y, bias=bias, epilogue="relu",
                                     permute=(1, 0, 2), out=out)

    with nf.trace_launches() as launches:
        out = fused()
        assert made == [(9, 3, 10)]
        fused(out)
    assert made == [(9, 3, 10)]
    assert [launch.kind for launch in launches] == ["Contract"] * 2


@pytest.mark.parametrize("sizes", [(1, 2, 4, 256, 16, 128, 64), SIZES,
                                   (2, 1, 1, 5, 7, 1, 3)], ids=str)
def test_k06_several_labels_of_each_role(sizes, device):
    a, b, d = problem(sizes)
    x, y, z = placed((a, b, d), device)
    g, h, _, _, n, j, _ = sizes
    found = nf.ops.contract(SUBSCRIPTS, x, y, out_axes=STORE,
                            bias=nf.ops.reshape(z, (g, h, 1, 1, n, j)))
    np.testing.assert_array_equal(nf.to_numpy(found), permuted(a, b, d))


def test_k06_two_summed_labels(device):
    a, b = integers(1, (3, 4, 5, 6)), integers(2, (6, 7, 4))
    x, y = placed((a, b), device)
    found = nf.ops.contract("gkml,lnk->gmn", x, y)
    np.testing.assert_array_equal(nf.to_numpy(found),
                                  np.einsum("gkml,lnk->gmn", a, b))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_k07_narrow_floats_are_accumulated_in_float32(dtype, device):
    """Sums up to 2048 are exact in float16 only if no partial sum was rounded."""
    a, b, d = problem((1, 2, 4, 16, 3, 8, 64))
    if dtype == "bfloat16":  # 8 bits: keep the result below 256
        b = np.sign(b)
        a, d = np.sign(a), np.sign(d)
    x, y, z = (nf.array(v, dtype, device=device) for v in (a, b, d))
    found = nf.to_numpy(nf.ops.contract(SUBSCRIPTS, x, y, out_axes=STORE,
                                        bias=nf.ops.reshape(z, (1, 2, 1, 1, 3, 8))))
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(found.astype(float), permuted(a, b, d))


def test_k08_prologues(device):
    a, b = integers(1, (9, 12)), integers(2, (12, 10))
    x, y = placed((a, b), device)
    relu, scaled = np.maximum(a, 0), 2 * b + 1
    cases = [({"prologue_a": nf.ops.relu}, relu @ b),
             ({"prologue_b": lambda v: 2.0 * v + 1.0}, a @ scaled),
             ({"prologue_a": "relu", "prologue_b": lambda v: 2.0 * v + 1.0},
              relu @ scaled)]
    for given, expected in cases:
        with nf.trace_launches() as launches:
            found = nf.ops.contract("mk,kn->mn", x, y, **given)
        assert len(launches) == 1
        np.testing.assert_array_equal(nf.to_numpy(found), expected)


def test_k08_prologues_have_derivatives(device):
    rng = np.random.default_rng(5)
    nf.testing.gradcheck(
        lambda a, b: nf.ops.contract("mk,kn->mn", a, b, prologue_a=nf.ops.swish,
                                     prologue_b=nf.ops.tanh, epilogue="sigmoid"),
        [rng.normal(size=(3, 4)), rng.normal(size=(4, 2))],
        place=lambda v: nf.array(v, device=device))


def test_k09_the_original_command(device):
    done = subprocess.run(
        [sys.executable, "-m", "nbfused.examples.batched_gemm", "1", "2", "1",
         "--device", device], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    sizes, verdict, timing = done.stdout.splitlines()
    assert "K=64" in sizes
    assert verdict == "PASS"
    assert re.fullmatch(r"[\d.]+ ms, [\d.]+ TFLOP/s, [\d.]+ GB/s .*", timing)


def test_k09_flags(device, capsys):
    small = batched_gemm.Problem((1, 2), (3, 4), (2, 5), 8)
    for init in "012":
        assert batched_gemm.main(["1", init, "0", "--device", device], small) == 0
        assert capsys.readouterr().out.splitlines()[1:] == ["PASS"]
    assert batched_gemm.main(["0", "0", "0", "--device", device], small) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_k09_verification_can_fail(device, capsys, monkeypatch):
    fused = batched_gemm.fused
    monkeypatch.setattr(batched_gemm, "fused",
                        lambda a, b, d: fused(a, b, nf.ops.negative(d)))
    small = batched_gemm.Problem((1, 2), (3, 4), (2, 5), 8)
    assert batched_gemm.main(["1", "1", "0", "--device", device], small) == 1
    assert "FAIL" in capsys.readouterr().out


def test_k10_reference_on_the_host(device):
    a, b, d = integers(1, (3, 9, 12)), integers(2, (3, 12, 10)), integers(3, (10,))
    x, y, bias = placed((a, b, d), device)
    for op in (nf.ops.batched_matmul, nf.ops.matmul, nf.ops.linear):
        args, given = ((x, y), (a, b)) if op is not nf.ops.linear else \
            ((x, y[0]), (a, b[0]))
        found = nf.to_numpy(op(*args, bias=bias))
        np.testing.assert_array_equal(found, op.reference(*given, bias=d))


@pytest.mark.parametrize("shapes", [((3, 5, 0), (3, 0, 4)), ((0, 5, 6), (0, 6, 4)),
                                    ((1, 1, 1), (1, 1, 1)), ((2, 31, 63), (2, 63, 33))],
                         ids=str)
def test_k11_every_size_runs(shapes, device):
    a, b = integers(1, shapes[0]), integers(2, shapes[1])
    x, y = placed((a, b), device)
    bias = integers(3, shapes[1][-1:])
    found = nf.ops.batched_matmul(x, y, bias=nf.array(bias, device=device))
    np.testing.assert_array_equal(nf.to_numpy(found), a @ b + bias)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_k11_unaligned_operands_run(dtype, device):
    """Rows start at odd elements, so that no wide access fits."""
    a, b, d = (integers(k, (3, 18, 18), dtype) for k in (1, 2, 3))
    x, y, z = placed((a, b, d), device)
    window = (slice(None), slice(1, 18), slice(1, 18))
    out = nf.zeros((3, 18, 18), dtype, device=device)
    found = nf.ops.batched_matmul(x[window], y[window], bias=z[window],
                                  out=out[window])
    np.testing.assert_array_equal(
        nf.to_numpy(found), a[window] @ b[window] + d[window])
    edges = nf.to_numpy(out)
    assert not edges[:, 0].any()
    assert not edges[:, :, 0].any()


def test_k11_integers_run(device):
    a, b = integers(1, (9, 12), "int32"), integers(2, (12, 10), "int8")
    found = nf.to_numpy(nf.ops.matmul(*placed((a, b), device)))
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, a @ b)


def feed_forward(x, w1, w2, bias, gate):
    """Linear, ReLU, linear with bias, times elements, stored permuted."""
    hidden = nf.ops.linear(x, w1, activation="relu")
    return nf.ops.contract("gmk,kn->gmn", hidden, w2, bias=bias, extras=(gate,),
                           epilogue=lambda acc, e: acc * e, out_axes=(1, 0, 2))


def feed_forward_arguments():
    shapes = ((2, 3, 4), (4, 5), (5, 3), (3,), (2, 3, 3))
    return [np.random.default_rng(k).normal(size=s) for k, s in enumerate(shapes)]


def test_k13_feed_forward_layer(device):
    arrays = x, w1, w2, bias, gate = feed_forward_arguments()
    expected = (np.maximum(x @ w1, 0) @ w2 + bias) * gate
    with nf.trace_launches() as launches:
        found = feed_forward(*placed(arrays, device))
    assert [launch.kind for launch in launches] == ["Contract"] * 2
    np.testing.assert_allclose(nf.to_numpy(found), expected.transpose(1, 0, 2),
                               rtol=1e-12, atol=1e-12)


def test_k13_feed_forward_layer_has_a_gradient():
    nf.testing.gradcheck(feed_forward, feed_forward_arguments())


def test_k14_flops_and_bytes(device, capsys):
    small = batched_gemm.Problem((1, 2), (3, 4), (2, 5), 8)
    assert small.flops == 2 * 2 * 12 * 10 * 8
    assert small.bytes(2) == 2 * (2 * 12 * 8 + 2 * 10 * 8 + 2 * 10 + 2 * 12 * 10)
    batched_gemm.main(["0", "1", "1", "--device", device], small)
    assert capsys.readouterr().out.endswith("(3.84e+03 flops, 1.22e+03 bytes)\n")
