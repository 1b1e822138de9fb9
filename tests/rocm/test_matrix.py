"""Matrix instructions of AMD GPUs: who holds what, and the kernels around them.

No such instruction has been run here.  The layouts are tested against a model that is
written from the architectures' documents, in the other direction; the kernels run in
the emulation on such a model, and hipcc shows that they use the instructions.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

from nbfused.backend import Signature
from nbfused.config import config
from nbfused.rocm import contract
from nbfused.rocm.build.kernel import HIP
from nbfused.rocm.text.contract import LARGE, SMALL, ContractText
from nbfused.scalar.parse.functions import parse
from nbfused.specs import Contract
from nbfused.specs.vjp.functions import identity
from tests.cpu import skeletons
from tests.cpu.skeletons import run_contract
from tests.rocm.assembly import assembly, spilled
from tests.rocm.products import (
    BF16,
    BIAS,
    LAYOUTS,
    PLAIN,
    RNG,
    TWO,
    exact,
    integers,
    kernel,
)
from tests.rocm.skeletons import OnDevice

LANES = ("Mfma", "Wmma11", "Wmma12")

#: lanes.h for the host: what each lane holds, by the number of the layout.
TABLES = """
#include "lanes.h"
template <class L> void fill(int *sizes, int *outer, int *first, int *row) {
  sizes[0] = L::wave; sizes[1] = L::count; sizes[2] = L::sums;
  for (int lane = 0; lane < L::wave; ++lane) {
    outer[lane] = L::outer(lane);
    first[lane] = L::first(lane);
    for (int v = 0; v < L::sums; ++v) row[lane * L::sums + v] = L::row(lane, v);
  }
}
extern "C" void tables(int which, int *sizes, int *outer, int *first, int *row) {
  using namespace nbf;
  (which == 0 ? fill<Mfma> : which == 1 ? fill<Wmma11> : fill<Wmma12>)(
      sizes, outer, first, row);
}
"""


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """For each layout ``(wave, count, sums), outer, first, row``."""
    compiler = shutil.which("g++") or pytest.skip("no g++ in PATH")
    folder = tmp_path_factory.mktemp("lanes")
    (folder / "lanes.cpp").write_text(TABLES)
    subprocess.run([compiler, "-std=c++17", "-DNBF_EMULATION", f"-I{HIP}", "-shared",
                    "-fPIC", "-o", folder / "lanes.so", folder / "lanes.cpp"],
                   check=True)
    library = ctypes.CDLL(str(folder / "lanes.so"))
    found = {}
    for which, name in enumerate(LANES):
        arrays = [np.zeros(n, np.int32) for n in (3, 64, 64, 512)]
        library.tables(which, *(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))
        sizes, outer, first, row = arrays
        wave, count, sums = sizes.tolist()
        found[name] = ((wave, count, sums), outer[:wave], first[:wave],
                       row[:wave*sums].reshape(wave, sums))
    return found


def mfma(a, b):
    """v_mfma_f32_16x16x16_f16: registers ``[lane, 4]`` to sums ``[lane, 4]``.

    Element (i, k) of a is number ``k % 4`` of lane ``16*(k//4) + i``, of b alike; sum
    (i, j) is number ``i % 4`` of lane ``16*(i//4) + j``.
    """
    left = np.array([[a[16*(k//4) + i, k % 4] for k in range(16)] for i in range(16)])
    right = np.array([[b[16*(k//4) + j, k % 4] for j in range(16)] for k in range(16)])
    product, out = left @ right, np.full((64, 4), np.nan)
    for i, j in np.ndindex(16, 16):
        out[16*(i//4) + j, i % 4] = product[i, j]
    return out


def wmma11(a, b):
    """v_wmma_f32_16x16x16_f16 of gfx11: lanes 16 to 31 repeat the factors of 0 to 15.

    Sum (i, j) is number ``i // 2`` of lane ``16*(i % 2) + j``.
    """
    assert np.array_equal(a[:16], a[16:])
    assert np.array_equal(b[:16], b[16:])
    product, out = a[:16] @ b[:16].T, np.full((32, 8), np.nan)
    for i, j in np.ndindex(16, 16):
        out[16*(i % 2) + j, i//2] = product[i, j]
    return out


def wmma12(a, b):
    """The same of gfx12: lanes 16 to 31 have the upper half of k, and of the rows."""
    left, right = (np.concatenate([x[:16], x[16:]], axis=1) for x in (a, b))
    product = left @ right.T
    return np.concatenate([product[:8].T, product[8:].T])


@pytest.mark.parametrize(("name", "instruction"), list(zip(
    LANES, (mfma, wmma11, wmma12), strict=True)))
def test_lanes_feed_and_drain_a_product(name, instruction, tables):
    (_, count, _), outer, first, row = tables[name]
    a, b = (RNG.integers(-9, 9, s).astype(float) for s in ((16, 16), (16, 16)))
    along = first[:, None] + np.arange(count)
    sums = instruction(a[outer[:, None], along], b[along, outer[:, None]])
    found = np.full((16, 16), np.nan)
    found[row, outer[:, None]] = sums
    assert np.array_equal(found, a @ b)


def mfma8(a, b):
    """v_mfma_f32_16x16x8_bf16: as `mfma`, with two elements of k a lane."""
    left, right = (x.reshape(4, 16, 2).swapaxes(0, 1).reshape(16, 8) for x in (a, b))
    return (left @ right.T).reshape(4, 4, 16).transpose(0, 2, 1).reshape(64, 4)


def test_bfloat16_of_gfx908_is_two_instructions(tables):
    """One takes the lower half of what a lane holds, one the upper: all of k."""
    _, outer, first, row = tables["Mfma"]
    a, b = (RNG.integers(-9, 9, s).astype(float) for s in ((16, 16), (16, 16)))
    along = first[:, None] + np.arange(4)
    left, right = a[outer[:, None], along], b[along, outer[:, None]]
    sums = mfma8(left[:, :2], right[:, :2]) + mfma8(left[:, 2:], right[:, 2:])
    found = np.full((16, 16), np.nan)
    found[row, outer[:, None]] = sums
    assert np.array_equal(found, a @ b)


# --- the kernels around them


@pytest.fixture(params=LANES)
def lanes(request, monkeypatch):
    """Kernels with matrix instructions of one layout, as the emulation models them."""
    text = ContractText.kernel

    def with_lanes(self, tile, *, matrix=False):
        made = text(self, tile, matrix=matrix)
        assert matrix == ("nbf::matrix<" in made.text)
        changed = made.text.replace("nbf::matrix<", "nbf::matrix_on<").replace(
            ">>(w)", f">, nbf::{request.param}>(w)")
        return type(made)(made.name, made.skeleton, changed, made.parameters,
                          made.threads)

    monkeypatch.setattr(ContractText, "kernel", with_lanes)
    monkeypatch.setattr(skeletons, "CPU", OnDevice())
    if config.rocm_emulate != "1":
        pytest.skip("a model of the instructions is in the emulation only")
    with config.override(rocm_matrix=True):
        yield request.param


@pytest.fixture(params=[SMALL, LARGE], ids=["small", "large"])
def tile(request, monkeypatch):
    monkeypatch.setattr(contract.ContractLauncher, "tile", lambda *_: request.param)
    return request.param


@pytest.mark.rocm
@pytest.mark.parametrize("dtype", ["f2", BF16], ids=str)
def test_products(dtype, lanes, tile):
    for m, k, n in ((1, 1, 1), (16, 16, 16), (17, 33, 7), (65, 40, 130), (5, 0, 3)):
        a, b = integers((m, k), dtype), integers((k, n), dtype)
        bias, expected = integers((n,), dtype), exact(a, b)
        found = run_contract(BIAS, a, b, bias, dtypes=[np.dtype("f4")])
        assert np.array_equal(found, np.maximum(expected + bias.astype(int), 0))


@pytest.mark.rocm
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_layouts_and_batches(left, right, lanes):
    a = LAYOUTS[left](integers((2, 1, 20, 33), "f2"))
    b = LAYOUTS[right](integers((3, 33, 70), "f2"))
    d, expected = integers((20, 1), "f2"), exact(a, b)
    both = run_contract(TWO, a, b, d, 0.5)
    assert np.array_equal(both[0], (expected + d)*0.5)
    assert np.array_equal(both[1], expected)


@pytest.mark.rocm
@pytest.mark.parametrize("wave", ["32", "64"])
@pytest.mark.parametrize("schedule", ["first", "last"])
def test_waves_that_run_ahead(wave, schedule, lanes, monkeypatch):
    monkeypatch.setenv("NBFUSED_EMULATION_WAVE", wave)
    monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)
    a, b = integers((70, 70), "f2"), integers((70, 80), "f2")
    assert np.array_equal(run_contract(PLAIN, a, b), exact(a, b))


def test_only_16_bit_floats_as_they_are_stored():
    def halves(left, right, spec=PLAIN):
        inputs = (np.dtype(left), np.dtype(right))
        outputs = spec.result_types(inputs)
        signature = Signature(inputs, outputs, (0, 1, 1, 1), ("s1", "s1", "s1"))
        return ContractText("", spec.typed(inputs, outputs), signature).halves

    prologue = Contract("mk,kn->mn", identity(), (), (parse(lambda x: x*0.5), None))
    assert halves("f2", "f2")
    assert halves(BF16, BF16)
    assert not halves("f2", BF16)
    assert not halves("f4", "f4")
    assert not halves("f2", "f2", prologue)


# --- what hipcc makes of them


def both_dtypes(*cases):
    return [kernel(spec, dtype, tile, matrix=True)
            for spec, tile in cases for dtype in ("f2", BF16)]


@pytest.mark.parametrize(("arch", "instructions"), [
    ("gfx908", ("v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x8bf16")),
    ("gfx90a", ("v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16bf16_1k")),
    ("gfx1030", ())])
def test_instructions_are_used_where_they_exist(arch, instructions, tmp_path):
    text = assembly(tmp_path, both_dtypes((PLAIN, SMALL), (TWO, LARGE)), arch)
    assert set(re.findall(r"v_[mfw]+ma_\w+", text)) == set(instructions)
    assert spilled(text) == {}


@pytest.mark.parametrize(("arch", "kind"), [
    ("gfx942", "mfma"), ("gfx950", "mfma"), ("gfx1100", "wmma"), ("gfx1151", "wmma"),
    ("gfx1201", "wmma")])
def test_instructions_of_newer_devices(arch, kind, tmp_path):
    text = assembly(tmp_path, both_dtypes((PLAIN, SMALL)), arch)
    assert set(re.findall(r"v_[mfw]+ma_\w+", text)) == {
        f"v_{kind}_f32_16x16x16_f16", f"v_{kind}_f32_16x16x16_bf16"}
