"""Products by cp.async and mma.sync or multiply-adds: exact on integers, every way."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.backend import Call
from nbfused.cuda.contract import mma_launch
from nbfused.cuda.contract import pack as contract_pack
from nbfused.cuda.contract.f32.launch import F32Launcher
from nbfused.cuda.contract.general.kernel import GeneralText
from nbfused.cuda.contract.general.tile import LARGE, SMALL
from nbfused.cuda.contract.launcher import ContractLauncher
from nbfused.cuda.contract.mma import MmaText
from nbfused.cuda.contract.mma_launch import SHAPES, MmaLauncher
from nbfused.cuda.contract.pack import PackLauncher
from nbfused.cuda.contract.plan import Factor, Plan
from nbfused.cuda.contract.tf32 import Tf32Text
from nbfused.cuda.contract.tf32_launch import Tf32Launcher
from nbfused.cuda.contract.wgmma.launch import WgmmaLauncher
from nbfused.cuda.isa.engines import ENGINES
from nbfused.cuda.runtime.notes import NOTES
from nbfused.errors import KernelTypeError
from tests.cuda.contract.products import (
    integers,
    layer,
    no_other_ways,
    placed,
    prepared_anew,
    whole_sums,
)
from tests.cuda.recorded import (
    NoDevice,
    assembled,
    needs_compiler,
    recording,
    registers,
)
from tests.variants import sampled, sampled_together

DTYPES = ["float32", "float16", bfloat16, "float64"]
EXTENTS = [(128, 256, 64), (130, 264, 72), (2, 8, 8), (77, 1000, 200), (1000, 72, 1032)]


@pytest.fixture
def taken(monkeypatch):
    """The plans of the calls that came this way; wgmma is kept from taking them."""
    from nbfused.cuda.runtime.driver import device

    if device(0).arch < (8, 0):
        pytest.skip("no cp.async before sm_80")
    plans = []
    run = MmaLauncher.__call__

    def noted(self, call, where):
        if NOTES.get() is None:  # it is not bound only
            plans.append(self._plan(call, where))
        run(self, call, where)

    monkeypatch.setattr(MmaLauncher, "__call__", noted)
    monkeypatch.setattr(MmaLauncher, "_found", MmaLauncher._choose)  # nothing is kept
    for other in (WgmmaLauncher, F32Launcher):
        monkeypatch.setattr(other, "takes", lambda self, *call: False)
    prepared_anew(monkeypatch)
    whole_sums(monkeypatch)
    no_other_ways(monkeypatch)
    return plans


def forced(monkeypatch, engine, shape):
    if engine in ("f64", "f64h"):
        monkeypatch.setattr(mma_launch, "LATER", {"f64": ENGINES[engine]})
    monkeypatch.setitem(SHAPES, engine, (shape,))
    monkeypatch.setattr(Tf32Launcher, "takes", lambda self, *call: False)


EVERY = [pytest.param(name, k, id=f"{name}{k}") for name, shapes in SHAPES.items()
         for k in range(len(shapes))]


#: Compute capabilities that the others do without.
FIRST = {"f64h": (9, 0)}


def dtype_of(engine):
    return {"f16": "float16", "bf16": bfloat16, "f64": "float64",
            "f64h": "float64"}.get(engine, "float32")


@pytest.mark.cuda
@pytest.mark.parametrize(("engine", "which"), EVERY)
def test_every_shape_of_tile(engine, which, taken, monkeypatch, request):
    if engine in FIRST:
        request.getfixturevalue("hopper")
    forced(monkeypatch, engine, SHAPES[engine][which])
    dtype = dtype_of(engine)
    precision = "tf32" if engine == "tf32" else None
    for m, n, k in EXTENTS:
        a, b, c = integers(0, m, k), integers(1, k, n), integers(2, n)
        got = ops.linear(placed(a, dtype), placed(b, dtype), placed(c, dtype),
                         activation=ops.relu, precision=precision)
        want = np.maximum(a @ b + c, 0).astype(dtype)
        np.testing.assert_array_equal(nf.to_numpy(got), want)
    assert [p.engine.name for p in taken] == [engine]*len(EXTENTS)


@pytest.mark.cuda
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_tf32_by_wgmma(left, right, taken, hopper, monkeypatch):
    others = []
    run = Tf32Launcher.__call__
    monkeypatch.setattr(Tf32Launcher, "__call__",
                        lambda self, *call: others.append(call) or run(self, *call))
    for m, n, k in (*EXTENTS, (300, 36, 28)):
        a, b, c = integers(0, m, k), integers(1, k, n), integers(2, n)
        x = placed(a.T if left else a, "f4")
        y = placed(b.T if right else b, "f4")
        got = ops.linear(ops.transpose(x) if left else x,
                         ops.transpose(y) if right else y, placed(c, "f4"),
                         activation=ops.relu, precision="tf32")
        np.testing.assert_array_equal(nf.to_numpy(got), np.maximum(a @ b + c, 0))
    if left and not right:  # no factor has k as its inner dimension
        assert (len(taken), len(others)) == (6, 0)
    else:  # rows of 130 or 2 elements are no whole accesses; those of 77 are packed
        assert len(others) == (4 if left else 6)


@pytest.mark.cuda
def test_tf32_batches(taken, hopper):
    a, b = integers(0, 2, 3, 130, 64), integers(1, 1, 3, 64, 72)
    got = ops.batched_matmul(placed(a, "f4"), placed(b, "f4"), precision="tf32",
                             permute=(1, 0, 3, 2))
    np.testing.assert_array_equal(nf.to_numpy(got),
                                  np.transpose(a @ b, (1, 0, 3, 2)).astype("f4"))
    assert not taken


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_transposed_operands(dtype, left, right, taken):
    for m, n, k in ((200, 328, 136), (66, 34, 50)):
        a, b = integers(0, m, k), integers(1, k, n)
        x = placed(a.T if left else a, dtype)
        y = placed(b.T if right else b, dtype)
        got = ops.matmul(ops.transpose(x) if left else x,
                         ops.transpose(y) if right else y)
        np.testing.assert_array_equal(nf.to_numpy(got), (a @ b).astype(dtype))
    assert len(taken) == 2


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_any_extents_and_strides(dtype, taken):
    for m, n, k in ((33, 65, 17), (1, 257, 3), (129, 1, 31), (130, 131, 133)):
        a, b = integers(0, m, 2*k), integers(1, 3*k, n)
        x, y = placed(a, dtype)[:, ::2], placed(b, dtype)[::-3]
        np.testing.assert_array_equal(nf.to_numpy(ops.matmul(x, y)),
                                      (a[:, ::2] @ b[::-3]).astype(dtype))
    assert taken


@pytest.mark.cuda
@pytest.mark.parametrize("shapes", [
    ((3, 130, 64), (3, 64, 136)), ((3, 130, 64), (64, 136)),
    ((2, 3, 70, 64), (2, 3, 64, 72)), ((2, 1, 70, 64), (1, 3, 64, 72))], ids=str)
def test_batches(shapes, taken):
    a, b = (integers(k, *s) for k, s in enumerate(shapes))
    for dtype in ("float32", "float16"):
        got = ops.matmul(placed(a, dtype), placed(b, dtype))
        np.testing.assert_array_equal(nf.to_numpy(got), (a @ b).astype(dtype))
    assert len(taken) == 2


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_permuted_store_with_extras(dtype, taken):
    a, b, c, s = (integers(k, *t) for k, t in enumerate(
        ((4, 200, 64), (4, 64, 136), (136,), (4, 200, 136))))
    got = ops.batched_matmul(*(placed(x, dtype) for x in (a, b, c)),
                             epilogue=lambda acc, s: acc*s, extras=(placed(s, dtype),),
                             permute=(1, 0, 2))
    want = np.transpose((np.einsum("bmk,bkn->bmn", a, b) + c)*s, (1, 0, 2))
    np.testing.assert_array_equal(nf.to_numpy(got), want.astype(dtype))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_nan_outside_an_operand_does_no_harm(dtype, taken):
    whole = np.full((256, 256), np.nan)
    whole[:40, :72] = integers(0, 40, 72)
    b = integers(1, 72, 80)
    got = ops.matmul(placed(whole, dtype)[:40, :72], placed(b, dtype))
    np.testing.assert_array_equal(nf.to_numpy(got), (whole[:40, :72] @ b).astype(dtype))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("by_wgmma", [False, True])
def test_tf32_rounds_to_nearest(by_wgmma, taken, monkeypatch):
    if not by_wgmma:
        forced(monkeypatch, "tf32", SHAPES["tf32"][0])
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((256, 512), (512, 256)))
    for x in (a, b):  # ties may go either way
        x.view(np.uint32)[:] |= 1
    got = nf.to_numpy(ops.matmul(placed(a, "f4"), placed(b, "f4"), precision="tf32"))
    rounded = [_tf32(x).astype(np.float64) for x in (a, b)]
    scale = np.abs(rounded[0]) @ np.abs(rounded[1])
    assert (np.abs(got - rounded[0] @ rounded[1]) <= 2e-6*scale).all()
    assert np.abs(got - a.astype("f8") @ b).max() > 1e-4  # it is not float32


def _tf32(x):
    bits = x.view(np.uint32).astype(np.uint64) + 0x1000
    return (bits & 0xFFFFE000).astype(np.uint32).view(np.float32)


@pytest.mark.cuda
def test_gradients_in_tf32(taken):
    a, b, g = integers(0, 264, 136), integers(1, 136, 200), integers(2, 264, 200)
    x, w = (nf.Variable(placed(v, "f4"), requires_grad=True) for v in (a, b))
    ops.matmul(x, w, precision="tf32").backward(placed(g, "f4"))
    np.testing.assert_array_equal(nf.to_numpy(x.grad), (g @ b.T).astype("f4"))
    np.testing.assert_array_equal(nf.to_numpy(w.grad), (a.T @ g).astype("f4"))
    assert all(p.engine.name == "tf32" for p in taken)


def doubled(x):
    return x + x


@pytest.fixture
def packed(monkeypatch):
    """The layouts of packed factors, which all are that may be."""
    found = []
    run = PackLauncher.__call__

    def noted(self, call, where, multiply):
        if NOTES.get() is None:  # it is not bound only
            found.append(self.layouts(call))
        run(self, call, where, multiply)

    monkeypatch.setattr(PackLauncher, "__call__", noted)
    monkeypatch.setattr(contract_pack, "LEAST", 1)
    monkeypatch.setattr(ContractLauncher, "_sooner", lambda self, *call: None)
    prepared_anew(monkeypatch)
    whole_sums(monkeypatch)
    no_other_ways(monkeypatch)
    return found


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", bfloat16, "float32"], ids=str)
@pytest.mark.parametrize("wgmma", [False, True])
def test_packed_factors(dtype, wgmma, packed, request):
    taken = [] if wgmma else request.getfixturevalue("taken")
    for m, n, k in ((129, 261, 71), (64, 130, 33), (3, 5, 1030)):
        a, b, c = integers(0, m, k), integers(1, n, k), integers(2, n)
        got = ops.contract("mk,nk->mn", placed(a, dtype), placed(b, dtype),
                           bias=placed(c, dtype), prologue_a=doubled, epilogue="relu")
        want = np.maximum(2*a @ b.T + c, 0).astype(dtype)
        np.testing.assert_array_equal(nf.to_numpy(got), want)
    assert len(packed) == 3
    assert wgmma or len(taken) == 3


@pytest.mark.cuda
def test_packed_batches(packed, taken):
    a, b = integers(0, 2, 3, 33, 35), integers(1, 1, 3, 35, 37)
    got = ops.matmul(placed(a, "f2")[:, ::-1], placed(b, "f2"))
    np.testing.assert_array_equal(nf.to_numpy(got), (a[:, ::-1] @ b).astype("f2"))
    assert [set(layouts) for layouts in packed] == [{0, 1}]
    assert len(taken) == 1


@pytest.mark.cuda
def test_what_has_no_copies_goes_elsewhere(taken):
    a, b = integers(0, 33, 65), integers(1, 65, 41)
    for dtype in ("int32", "float16"):  # 65 float16 are no multiple of 4 bytes
        got = ops.matmul(placed(a, dtype), placed(b, dtype))
        np.testing.assert_array_equal(nf.to_numpy(got), (a @ b).astype(dtype))
    assert not taken


# --- without a device


@pytest.mark.parametrize(("m", "n", "names"), [
    (513, 515, "pack_0_1"), (513, 512, "pack_0"), (512, 515, "pack_1")])
def test_factors_are_packed_by_one_launch(m, n, names):
    """Those that TMA cannot read: here the rows of A, of B, or of both."""
    k = 519 if m % 8 else 520
    x, w = np.zeros((m, k), "float16"), np.zeros((k, n), "float16")
    with recording() as found:
        ops.matmul(x, w)
    first, product = (kernel.name for kernel in found.values())
    assert first.endswith(names)
    assert "x" in product


def test_precision_is_none_or_tf32():
    x = np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(ops.matmul(x, x, precision="tf32"), x)
    with pytest.raises(KernelTypeError, match=r"None or 'tf32', got 'half'"):
        ops.matmul(x, x, precision="half")


INSTRUCTIONS = {
    "fma": "fma.rn.f32", "f64": "mma.sync.aligned.m8n8k4.row.col.f64",
    "f64h": "mma.sync.aligned.m16n8k8.row.col.f64",
    "tf32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32",
    "f16": "mma.sync.aligned.m16n8k16.row.col.f32.f16",
    "bf16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16"}


#: One engine for each kind of loads of fragments.
TYPICAL = [("f16", 0), ("tf32", 0), ("f64", 0)]
LADDER = [pytest.param(*shape.values, arch, id=f"{shape.id}-sm_{arch[0]}{arch[1]}",
                       marks=[] if shape.values in TYPICAL and arch == first
                       else pytest.mark.variants)
          for shape in EVERY for first in [FIRST.get(shape.values[0], (8, 0))]
          for arch in ((8, 0), (9, 0), (10, 0), (12, 0))
          if arch == first or (arch > first and shape.values[1] == 0)]


@pytest.mark.parametrize(("engine", "which", "arch"), LADDER)
def test_the_ladder_compiles_without_spills(engine, which, arch):
    needs_compiler()
    text = layer(dtype_of(engine))
    shape, wide = SHAPES[engine][which], 16//ENGINES[engine].item
    along = Factor(True, 1 if engine == "fma" else wide)
    plan = Plan(ENGINES[engine], shape.units, shape.warps, shape.depth, shape.stages,
                shape.blocks, (along, Factor(False, wide)), vector=True).fitted()
    code, said = assembled(MmaText(text, plan).kernel(), arch)
    assert INSTRUCTIONS[engine] in code
    assert "cp.async.cg.shared.global" in code
    assert engine in ("f64", "f64h", "tf32", "fma") or "ldmatrix" in code
    if said is not None:
        used, spilled = registers(said)
        assert spilled == 0, f"{used} registers"


@pytest.mark.parametrize(("engine", "left", "right"), sampled_together([
    ("tf32a", True, True), ("tf32a", False, True), ("tf32b", True, False)],
    ("tf32a", True, True)))
def test_tf32_compiles_for_hopper(engine, left, right):
    needs_compiler()
    text = layer("float32", "tf32")
    extents = ((1, 1), (8, 1)) if engine == "tf32a" else ((4, 1), (1, 8))
    factors = Factor(left, 4), Factor(right, 4)
    plan = Plan(ENGINES[engine], *extents, 32, 4, 1, factors, vector=True)
    code, said = assembled(Tf32Text(text, plan, ((), ())).kernel(), (9, 0))
    assert code.count("wgmma.mma_async") == 4
    if said is not None:
        assert registers(said)[1] == 0
        assert "serialized" not in said


@pytest.mark.parametrize("tile", sampled([LARGE, SMALL], SMALL), ids=str)
def test_the_general_kernel_compiles_for_sm_75(tile):
    needs_compiler()
    code, said = assembled(GeneralText(layer("float32"), tile).kernel(), (7, 5))
    assert not re.search(r"cp\.async|mma\.sync|ldmatrix", code)
    if said is not None:
        assert registers(said)[1] == 0


def test_which_calls_are_taken():
    def takes(dtype, arch=(8, 0), shape=(64, 40, 24), pointers=(0, 0, 0, 0),
              left=(24, 0, 1), right=(0, 1, 40)):
        call = Call(shape, pointers, (left, right, (0, 1, 0), (40, 1, 0)))
        return MmaLauncher(layer(dtype)).takes(call, NoDevice(arch))

    for dtype in DTYPES:
        assert takes(dtype)
        assert not takes(dtype, arch=(7, 5))
        assert not takes(dtype, shape=(64, 40, 0))
    assert takes("float32", left=(25, 0, 1))
    assert takes("float32", left=(-48, 0, 2), pointers=(4, 0, 0, 0))
    assert takes("float16", left=(26, 0, 1))
    assert not takes("float16", left=(25, 0, 1))
    assert not takes("int32")
