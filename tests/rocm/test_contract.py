"""Contractions on ROCm against NumPy, on small integers, which every dtype holds."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.rocm import contract
from nbfused.rocm.text.contract import LARGE, SMALL
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract
from nbfused.specs.vjp.functions import identity
from tests.cpu import skeletons
from tests.cpu.skeletons import code, launch, run_contract, steps
from tests.rocm.assembly import assembly, spilled
from tests.rocm.products import (
    BF16,
    BIAS,
    HALVED,
    LAYOUTS,
    PLAIN,
    RNG,
    TWO,
    exact,
    integers,
    kernel,
)
from tests.rocm.skeletons import OnDevice

EXTENTS = (1, 7, 16, 17, 33, 64, 65, 130)


@pytest.fixture(autouse=True)
def _on_rocm(monkeypatch):
    monkeypatch.setattr(skeletons, "CPU", OnDevice())


@pytest.fixture(params=[SMALL, LARGE], ids=["small", "large"])
def tile(request, monkeypatch):
    monkeypatch.setattr(contract.ContractLauncher, "tile", lambda *_: request.param)
    return request.param


# --- extents, layouts, groups of loops


@pytest.mark.rocm
def test_every_extent_around_the_tiles(tile):
    for m, n in itertools.product(EXTENTS, EXTENTS):
        k = EXTENTS[(EXTENTS.index(m) + EXTENTS.index(n)) % len(EXTENTS)]
        a, b, bias = integers((m, k)), integers((k, n)), integers((n,))
        expected = np.maximum(exact(a, b) + bias, 0)
        assert np.array_equal(run_contract(BIAS, a, b, bias), expected), (m, n, k)


@pytest.mark.rocm
@pytest.mark.parametrize("k", [0, *EXTENTS])
def test_every_extent_that_is_summed(k, tile):
    a, b = integers((33, k)), integers((k, 65))
    assert np.array_equal(run_contract(PLAIN, a, b), exact(a, b))


@pytest.mark.rocm
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_layouts_and_epilogues(left, right):
    for m, k, n in ((3, 4, 5), (65, 33, 70), (0, 3, 4), (4, 3, 0)):
        a, b = LAYOUTS[left](integers((m, k))), LAYOUTS[right](integers((k, n)))
        d, expected = integers((m, 1)), exact(a, b)
        assert np.array_equal(run_contract(PLAIN, a, b), expected)
        both = run_contract(TWO, a, b, d, 0.5)
        assert np.array_equal(both[0], (expected + d)*0.5)
        assert np.array_equal(both[1], expected)


@pytest.mark.rocm
@pytest.mark.parametrize("layout", LAYOUTS)
def test_prologues_do_not_see_what_is_outside(layout, tile):
    a, b = LAYOUTS[layout](integers((30, 21))), LAYOUTS[layout](integers((21, 40)))
    assert np.array_equal(run_contract(HALVED, a, b), exact(np.maximum(a, 0), b)*0.5)
    more = Contract("mk,kn->mn", identity(), (), (parse(lambda x: x + 1.0), None))
    assert np.array_equal(run_contract(more, a, b), exact(a + 1, b))


@pytest.mark.rocm
@pytest.mark.parametrize(("left", "right"), [
    ((3,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 1)), ((1, 3), (2, 1)), ((5,), ())],
    ids=str)
def test_batches_broadcast(left, right, monkeypatch):
    monkeypatch.setattr(contract, "MOST_ACROSS", 4)  # blocks along y, some without work
    a, b = integers((*left, 6, 7)), integers((*right, 7, 5))
    expected = exact(a, b)
    bias = integers(expected.shape[-3:])
    got = run_contract(BIAS, a, b, bias)
    assert np.array_equal(got, np.maximum(expected + bias, 0))


@pytest.mark.rocm
@pytest.mark.parametrize("layout", [
    lambda s: np.zeros(s[::-1], np.float32).T,
    lambda s: np.zeros((s[0], 3*s[1]), np.float32)[:, ::3],
    lambda s: np.zeros((2*s[0], s[1]), np.float32)[::-2]])
def test_strided_outputs(layout):
    a, b = integers((70, 20)), integers((20, 30))
    out = layout((70, 30))
    run_contract(PLAIN, a, b, out=[out])
    assert np.array_equal(out, exact(a, b))
    if out.base.size > out.size:
        assert np.count_nonzero(out.base) == np.count_nonzero(out)


@pytest.mark.rocm
def test_several_dimensions_in_each_group(tile):
    """``gmkij,gjnkl->gmnil``: two m, two n, two k dimensions, none merges."""
    a, b, d = integers((2, 3, 4, 5, 6)), integers((2, 6, 7, 4, 2)), integers((7, 1))
    out = np.zeros((2, 3, 7, 5, 2), np.float32)  # g, m0, n0, m1, n1
    sa, sb, sd, so = steps(a), steps(b), steps(d), steps(out)
    strides = [  # g, m0, m1, n0, n1, k0, k1
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


@pytest.mark.rocm
def test_a_permuted_store():
    """Composable Kernel's example 29, scaled down."""
    a, b, d = integers((1, 2, 4, 5, 33)), integers((1, 2, 3, 8, 33)), integers((3, 8))
    x, y, bias = (nf.array(z, device="rocm:0") for z in (a, b, d[None, None]))
    found = nf.ops.contract("GHmik,GHnjk->GHminj", x, y,
                            bias=nf.ops.reshape(bias, (1, 1, 1, 1, 3, 8)),
                            out_axes=(0, 1, 2, 4, 3, 5))
    expected = np.einsum("GHmik,GHnjk->GHmnij", a, b) + d[None, None, None, :, None]
    assert np.array_equal(nf.to_numpy(found), expected)


# --- dtypes


@pytest.mark.rocm
@pytest.mark.parametrize(
    "dtype", ["f2", BF16, "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u8", "c8", "c16"],
    ids=str)
def test_dtypes(dtype):
    a, b = integers((17, 35)), integers((35, 66))
    if np.dtype(dtype).kind == "u":
        a, b = abs(a), abs(b)
    a, b = a.astype(dtype), b.astype(dtype)
    if np.dtype(dtype).kind == "c":
        a, b = a + 1j*a[::-1], b - 1j*b[:, ::-1]
        expected = np.einsum("mk,kn->mn", a.astype("c16"), b.astype("c16"))
    else:
        expected = exact(a, b)
    got = run_contract(PLAIN, a, b)
    assert got.dtype == np.dtype(dtype)
    assert np.array_equal(got, expected.astype(got.dtype))


@pytest.mark.rocm
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "u4", "i8", "u8"])
def test_integers_wrap_around(dtype):
    limits = np.iinfo(dtype)
    a, b = (RNG.integers(limits.min, limits.max, s, dtype, endpoint=True)
            for s in ((9, 21), (21, 13)))
    assert np.array_equal(run_contract(PLAIN, a, b), a @ b)


@pytest.mark.rocm
def test_bools_are_stored_as_0_and_1():
    a, b = RNG.random((9, 21)) < 0.2, RNG.random((21, 70)) < 0.2
    got = run_contract(PLAIN, a, b)
    assert np.array_equal(got, a @ b)
    assert set(got.view(np.uint8).ravel()) == {0, 1}


@pytest.mark.rocm
def test_factors_of_two_dtypes_and_another_result():
    a, b = integers((9, 21), BF16), integers((21, 70), np.float64)
    assert np.array_equal(run_contract(PLAIN, a, b, dtypes=[np.dtype("f4")]),
                          exact(a, b))


@pytest.mark.rocm
def test_not_a_number_and_infinity_reach_their_rows_and_columns_only():
    a, b = integers((70, 20)), integers((20, 30))
    a[3, 4], a[66, 0] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        expected = a.astype(float) @ b
    assert np.array_equal(run_contract(PLAIN, a, b), expected, equal_nan=True)


@pytest.mark.rocm
@pytest.mark.parametrize("dtype", ["f2", BF16, "f4", "f8"], ids=str)
def test_rounding(dtype):
    a, b = (RNG.standard_normal(s).astype(dtype) for s in ((65, 300), (300, 40)))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    eps = {"float64": 1e-15}.get(np.dtype(dtype).name, 1e-6)
    stored = float(ml_dtypes.finfo(dtype).eps)
    got = run_contract(PLAIN, a, b).astype(np.float64)
    assert np.all(abs(got - expected) <= 20*eps*size + stored*abs(expected))


# --- other waves and schedules, other compilers


@pytest.mark.rocm
@pytest.mark.parametrize("wave", ["32", "64"])
@pytest.mark.parametrize("schedule", ["first", "last"])
def test_waves_that_run_ahead(wave, schedule, tile, monkeypatch):
    monkeypatch.setenv("NBFUSED_EMULATION_WAVE", wave)
    monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)
    a, b, bias = integers((130, 70)), integers((70, 140)), integers((140,))
    expected = np.maximum(exact(a, b) + bias, 0)
    assert np.array_equal(run_contract(BIAS, a, b, bias), expected)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_registers_suffice(arch, tmp_path):
    kernels = [kernel(TWO, "f4", SMALL), kernel(BIAS, "f4", LARGE),
               kernel(HALVED, BF16, LARGE), kernel(TWO, "f4", LARGE, (2, 2, 2, 2)),
               kernel(PLAIN, "f8", SMALL), kernel(TWO, "c16", SMALL),
               kernel(PLAIN, "i1", SMALL), kernel(PLAIN, "?", SMALL, codes="1s")]
    text = assembly(tmp_path, kernels, arch)
    assert spilled(text) == {}
