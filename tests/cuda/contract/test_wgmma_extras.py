"""Extras that TMA brings to the products on Hopper's tensor cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.backend import Call, Signature
from nbfused.cuda.contract.text import ContractText
from nbfused.cuda.contract.wgmma.kernel import WgmmaText
from nbfused.cuda.contract.wgmma.launch import WgmmaLauncher
from nbfused.cuda.contract.wgmma.plan import plans
from nbfused.cuda.contract.wgmma.tiling import SHARED, TILINGS
from nbfused.scalar.parse.functions import parse, parse_definition
from nbfused.specs import Contract
from tests.cuda.contract.products import integers, placed
from tests.cuda.contract.test_wgmma import taken, tiling  # noqa: F401  # fixtures
from tests.cuda.recorded import NoDevice, assembled, needs_compiler, registers


def added(total, s):
    return total + s


def both(total, s, t):
    return total*s + t


def masked(total, s):
    return total if s != 0 else -1.0


def three(total, s):
    return total + s, total*2.0, total - s


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("shape", [(3, 300, 72, 264), (1, 64, 200, 8),
                                   (150, 70, 64, 72)],
                         ids=str)
def test_every_tiling_takes_elements(shape, dtype, tiling, taken, hopper):  # noqa: F811
    """Ragged, several tiles a block, more parts than places for them."""
    b, m, k, n = shape
    x, y, s = (integers(i, *t) for i, t in enumerate(((b, m, k), (b, k, n), (b, m, n))))
    got = ops.batched_matmul(placed(x, "float16"), placed(y, "float16"),
                             epilogue=added, extras=(placed(s, dtype),))
    np.testing.assert_array_equal(nf.to_numpy(got), (x @ y + s).astype(got.dtype))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("dtypes", [("float16", "float16"), ("float16", "float32"),
                                    ("float32", "float16"), ("float32", "float32")],
                         ids=str)
def test_two_at_once(dtypes, tiling, taken, hopper):  # noqa: F811
    x, y = integers(0, 4, 200, 64), integers(1, 4, 64, 136)
    s, t = integers(2, 4, 200, 136), integers(3, 1, 200, 136)
    got = ops.batched_matmul(
        placed(x, "float16"), placed(y, "float16"), epilogue=both,
        extras=(placed(s, dtypes[0]), placed(t, dtypes[1])), permute=(1, 0, 2))
    want = np.transpose(x @ y * s + t, (1, 0, 2))
    np.testing.assert_array_equal(nf.to_numpy(got), want.astype(got.dtype))
    assert len(taken) == 1


@pytest.mark.cuda
def test_a_part_of_an_array_with_nan_around(tiling, taken, hopper):  # noqa: F811
    """What lies beyond an extra in memory is not read as part of it."""
    whole = np.full((400, 320), np.nan)
    whole[:300, :264] = integers(0, 300, 264)
    x, y = integers(1, 300, 72), integers(2, 72, 264)
    got = ops.batched_matmul(placed(x, bfloat16)[None], placed(y, bfloat16)[None],
                             epilogue=added,
                             extras=(placed(whole, bfloat16)[:300, :264],))
    np.testing.assert_array_equal(nf.to_numpy(got)[0],
                                  (x @ y + whole[:300, :264]).astype(bfloat16))
    assert len(taken) == 1


@pytest.mark.cuda
@pytest.mark.parametrize("at", [(slice(1, None), slice(None)),  # rows reach, not here
                                (slice(None, None, -1), slice(None)),
                                (slice(None), slice(1, 201))], ids=str)
def test_those_out_of_reach_come_otherwise(at, taken, hopper):  # noqa: F811
    s = integers(0, 137, 232)
    part = s[at][:136, :200]
    x, y = integers(1, 136, 64), integers(2, 64, 200)
    got = ops.batched_matmul(placed(x, "float16")[None], placed(y, "float16")[None],
                             epilogue=added,
                             extras=(placed(s, "float16")[at][:136, :200],))
    np.testing.assert_array_equal(nf.to_numpy(got)[0], (x @ y + part).astype("float16"))
    assert len(taken) == 1


# --- without a device


def product_text(epilogue=added, *dtypes):
    """Of a batched product stored with the rows first; its extras and result alike."""
    x = np.dtype("float16")
    extras = tuple(map(np.dtype, dtypes or ("float16",)))
    spec = Contract("bmk,bkn->mbn", parse(epilogue), ("element",)*len(extras))
    result = max(extras, key=lambda d: d.itemsize)
    signature = Signature((x, x, *extras), (result,), (1, 1, 1, 1),
                          ("s1", "s1", *("s1",)*len(extras), "s1"))
    return ContractText(spec.name, spec.typed(signature.inputs, signature.outputs),
                        signature)


def call(*extras, shape=(4, 512, 512, 256), pointers=None):
    """Of packed factors, and extras with these strides."""
    b, m, n, k = shape
    strides = ((m*k, k, 0, 1), (k*n, 0, 1, n), *extras, (n, b*n, 1, 0))
    return Call(shape, pointers or (0,)*len(strides), strides)


def test_how_elements_come():
    """By TMA where addresses and strides allow it."""
    def loads(strides, **where):
        found = plans(product_text(), call(strides, **where), 132)
        assert len({(p.loads, p.batch, p.boxes) for p in found}) == 1
        return found[0].loads + found[0].batch[3:] + (found[0].boxes,)

    whole = 512*512
    assert loads((whole, 512, 1, 0)) == ("box", (0,), 1)
    assert loads((0, 512, 1, 0)) == ("box", (), 1)  # the same for the whole batch
    assert loads((0, 0, 1, 0)) == ("pair", (), 0)
    assert loads((whole, 514, 1, 0)) == ("pair", (0,), 0)
    assert loads((whole, -512, 1, 0)) == ("pair", (0,), 0)
    assert loads((-whole, 512, 1, 0)) == ("pair", (0,), 0)
    assert loads((whole, 512, 1, 0), pointers=(0, 0, 8, 0)) == ("pair", (0,), 0)
    assert loads((whole, 1, 512, 0)) == ("each", (0,), 0)


def test_no_more_than_shared_memory_has_room_for():
    strides = (512*512, 512, 1, 0)
    for dtypes, boxes in ((("float16", "float16"), 2), (("float32", "float16"), 2),
                          (("float16", "float32"), 1)):
        found = plans(product_text(both, *dtypes), call(strides, strides), 132)
        assert {p.tiling for p in found} == set(TILINGS)
        assert all(p.boxes <= boxes and p.loads.count("box") for p in found
                   if p.tiling.turns)
        assert all(p.shared <= SHARED and p.stages >= 2 for p in found)


def test_long_products_have_stages_in_the_room_of_boxes():
    strides = (512*512, 512, 1, 0)
    short, long = (plans(product_text(both, "float16", "float16"), call(
        strides, strides, shape=(4, 512, 512, k)), 132) for k in (64, 8192))
    stages = [{p.tiling: p.stages for p in found} for found in (short, long)]
    assert all(stages[1][t] >= stages[0][t] for t in TILINGS)
    assert any(stages[1][t] > stages[0][t] for t in TILINGS)
    assert min(stages[1].values()) >= 3


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["bool", "uint8"])
@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("shape", [(3, 300, 72, 264), (2, 70, 64, 200)], ids=str)
def test_masks_come_by_pairs_of_bytes(shape, start, dtype, tiling, taken,  # noqa: F811
                                      hopper):
    """And one by one where their rows begin at odd addresses."""
    b, m, k, n = shape
    x, y = integers(0, b, m, k), integers(1, b, k, n)
    whole = np.random.default_rng(2).integers(0, 2, (m, n + 2)).astype(dtype)
    mask = nf.array(whole, device="cuda:0")[:, start:start + n]
    got = ops.batched_matmul(placed(x, "float16"), placed(y, "float16"),
                             epilogue=masked, extras=(mask,))
    want = np.where(whole[:, start:start + n] != 0, x @ y, -1.0)
    np.testing.assert_array_equal(nf.to_numpy(got), want.astype(got.dtype))
    assert len(taken) == 1


@pytest.mark.parametrize("outputs", range(1, 11))
@pytest.mark.parametrize("extras", range(3))
def test_outputs_leave_room_for_two_stages(outputs, extras):
    """With one, a stage would never be told to be free: the kernel would not end."""
    results = ", ".join(f"total*{k}.0" for k in range(1, outputs + 1))
    names = ["total", *"st"[:extras]]
    f16, f32 = np.dtype("float16"), np.dtype("float32")
    spec = Contract("bmk,bkn->mbn", parse_definition(
        f"def several({', '.join(names)}): return {results},"), ("element",)*extras)
    signature = Signature((f16, f16, *(f32,)*extras), (f32,)*outputs, (1, 1, 1, 1),
                          ("s1",)*(2 + extras + outputs))
    text = ContractText(spec.name, spec.typed(signature.inputs, signature.outputs),
                        signature)
    made = call(*((512*512, 512, 1, 0),)*extras, shape=(4, 512, 512, 256))
    made = replace(made, strides=made.strides[:-1] + (made.strides[-1],)*outputs,
                   pointers=(0,)*(2 + extras + outputs))
    found = plans(text, made, 132)
    assert found
    assert WgmmaLauncher(text).takes(made, NoDevice((9, 0)))
    assert all(p.stages >= 2 and p.shared <= SHARED for p in found)


def test_more_outputs_than_there_is_room_for():
    f16, f32 = np.dtype("float16"), np.dtype("float32")
    results = ", ".join(f"t*{k}.0" for k in range(1, 12))
    spec = Contract("mk,kn->mn", parse_definition(f"def many(t): return {results}"))
    signature = Signature((f16, f16), (f32,)*11, (0, 1, 1, 1), ("s1",)*13)
    text = ContractText(spec.name, spec.typed(signature.inputs, signature.outputs),
                        signature)
    made = Call((512, 512, 512), (0,)*13, ((512, 0, 1), (0, 512, 1),
                                           *((512, 1, 0),)*11))
    assert not WgmmaLauncher(text).takes(made, NoDevice((9, 0)))


@pytest.mark.cuda
@pytest.mark.parametrize(("size", "dtype"), [(264, "float16"), (264, "float32"),
                                             (2048, "float32")])
def test_several_outputs(size, dtype, taken, hopper):  # noqa: F811
    x, y, s = (integers(k, size, size) for k in range(3))
    got = ops.batched_matmul(placed(x, "float16")[None], placed(y, "float16")[None],
                             epilogue=three, extras=(placed(s, dtype),))
    for a, want in zip(got, three(x @ y, s), strict=True):
        np.testing.assert_array_equal(nf.to_numpy(a)[0], want.astype(a.dtype))
    assert len(taken) == 1


@pytest.mark.parametrize("chosen", [
    TILINGS[1], *(pytest.param(t, marks=pytest.mark.variants)
                  for t in TILINGS if t != TILINGS[1])], ids=str)
@pytest.mark.parametrize("dtype", [
    "float16", pytest.param("float32", marks=pytest.mark.variants)])
def test_the_text_compiles_without_spills(chosen, dtype):
    strides = (512*512, 512, 1, 0)
    (plan,) = (p for p in plans(product_text(added, dtype), call(strides), 132)
               if p.tiling == chosen)
    kernel = WgmmaText(product_text(added, dtype), plan).kernel()
    needs_compiler()
    code, said = assembled(kernel, (9, 0))
    assert ("ldmatrix.sync.aligned.m8n8.x4" in code) == (dtype == "float16")
    assert code.count(".b8 " + kernel.name + "_param_") == 4
    if said is not None:
        used, spilled = registers(said)
        assert spilled == 0
        assert used <= 65536//chosen.threads
