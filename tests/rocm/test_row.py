"""Rows on ROCm against NumPy in float64: columns around groups of lanes and blocks."""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.backend import Call, Signature
from nbfused.rocm import row
from nbfused.scalar.parse.functions import parse
from nbfused.specs import COMBINES, Out, Row, Stage
from tests.cpu import skeletons
from tests.cpu.skeletons import run_row
from tests.cpu.test_row import FULL, SOFTMAX, full, softmax
from tests.rocm.assembly import assembly, spilled
from tests.rocm.emulated import WAYS
from tests.rocm.skeletons import OnDevice

RNG = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype("f4")
COLUMNS = [1, 3, 4, 31, 32, 33, 60, 64, 65, 128, 255, 256, 257, 512, 1000, 1024, 1025]


@pytest.fixture(autouse=True)
def _on_rocm(monkeypatch):
    monkeypatch.setattr(skeletons, "CPU", OnDevice())


@pytest.fixture(params=WAYS, ids=str)
def way(request, monkeypatch):
    """The size of a wave, and who runs first."""
    wave, schedule = request.param
    monkeypatch.setenv("NBFUSED_EMULATION_WAVE", str(wave))
    monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)


def normal(shape, dtype="f4"):
    return RNG.standard_normal(shape).astype(dtype)


def check_softmax(x, eps=3e-7):
    assert np.abs(run_row(SOFTMAX, x) - softmax(x)).max() <= eps


def full_inputs(shape, dtype="f4"):
    columns = shape[-1:]
    return (normal(shape, dtype), normal(columns, dtype), normal(columns, dtype),
            normal(shape[:-1], dtype), 1e-3)


def check_full(inputs, eps=3e-6):
    got, expected = run_row(FULL, *inputs), full(*inputs)
    for g, e in zip(got, expected, strict=True):
        size = 1 + np.abs(e).max() + inputs[0].size**0.5
        assert np.abs(g - e).max() <= eps*size


# --- sizes, in every way to run


@pytest.mark.usefixtures("way")
def test_softmax_of_every_number_of_columns():
    for columns in COLUMNS:
        check_softmax(normal((1 if columns > 500 else 37, columns)))


@pytest.mark.usefixtures("way")
def test_long_rows_kept_in_shared_memory_and_not():
    for columns in (2048, 4100, 8192, 8196, 9001):
        check_softmax(normal((3, columns)))


@pytest.mark.usefixtures("way")
def test_every_kind_of_input_and_output():
    for shape in ((3, 5), (1, 300), (40, 64), (7, 65), (5, 6, 33), (2, 3, 4, 17),
                  (900, 100), (3, 1100), (5, 2048), (2, 9000)):
        check_full(full_inputs(shape))


def test_every_way_gives_the_same_bits(monkeypatch):
    cases = [full_inputs((500, 40)), full_inputs((10, 3000))]
    results = []
    for wave, schedule in WAYS:
        monkeypatch.setenv("NBFUSED_EMULATION_WAVE", str(wave))
        monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)
        results.append([y.tobytes() for inputs in cases
                        for y in run_row(FULL, *inputs)])
    assert all(other == results[0] for other in results)


# --- dtypes and layouts


@pytest.mark.parametrize(("dtype", "eps"), [("f8", 1e-15), ("f2", 1e-3), (BF16, 8e-3)])
def test_dtypes(dtype, eps):
    for shape in ((40, 64), (7, 65), (3, 1200)):
        got = run_row(SOFTMAX, normal(shape, dtype))
        assert got.dtype == dtype
        check_softmax(normal(shape, dtype), eps)
    if dtype == "f8":
        check_full(full_inputs((30, 72), dtype), 1e-14)


@pytest.mark.parametrize("layout", [
    np.asfortranarray, lambda x: x[:, ::-1], lambda x: np.repeat(x, 2, 1)[:, ::2],
    lambda x: np.repeat(x, 3, 0)[::-3], lambda x: x[:, 1:], lambda x: x[:, :61],
    lambda x: np.broadcast_to(x[:1], (20, 88)),
    lambda x: np.broadcast_to(x[:, :1], (30, 88))])
def test_layouts(layout):
    x = layout(normal((30, 88)))
    check_softmax(x)
    check_full((x, *full_inputs(x.shape)[1:]))


def test_integers_and_indices():
    spec = Row("place", ("x",), ("element",),
               (Stage(("top", "at"), parse(lambda x: x), COMBINES["argmax"],
                      parse(lambda value, index: (value, index))),),
               (Out("element", parse(lambda x, at, index: index == at)),
                Out("row", parse(lambda top, size: top*size))))
    x = RNG.integers(-99, 99, (50, 70)).astype("i4")
    one, top = run_row(spec, x)
    assert np.array_equal(one, np.arange(70) == x.argmax(1)[:, None])
    assert np.array_equal(top, x.max(1)*70)


def test_a_variance_by_a_state_of_three_parts():
    combine = COMBINES["welford"]
    spec = Row("standardized", ("x",), ("element",),
               (Stage(("mu", "var"), parse(lambda x: x), combine, combine.finish),),
               (Out("element", parse(lambda x, mu, var: (x - mu)/var)),))
    for columns in (40, 999, 4096):
        x = 1000 + normal((6, columns), "f8")
        expected = (x - x.mean(1, keepdims=True))/x.var(1, keepdims=True)
        assert np.allclose(run_row(spec, x), expected, rtol=1e-9, atol=1e-9)


# --- sums over rows


@pytest.mark.parametrize("dtype", ["i1", "f2", "f8", "c8"])
@pytest.mark.parametrize("columns", [8, 70, 1001, 8200])
def test_only_sums_over_rows(dtype, columns):
    """Eight int8 in one access are 64 bytes of sums."""
    spec = Row("sums", ("x",), ("element",), (),
               (Out("column", parse(lambda x: x)), Out("scalar", parse(lambda x: x))))
    x = RNG.integers(-1, 2, (300, columns)).astype(dtype)
    column, scalar = run_row(spec, x)
    wide = x.astype({"i": "i8", "f": "f8", "c": "c16"}[x.dtype.kind])
    assert np.array_equal(column, wide.sum(0).astype(dtype))
    assert scalar == wide.sum().astype(dtype)


@pytest.mark.usefixtures("way")
def test_sums_by_column_alone():
    spec = Row("sums", ("x",), ("element",), (), (Out("column", parse(lambda x: x)),))
    for columns in (8, 70, 520, 1030):
        x = RNG.integers(-9, 9, (90, columns)).astype(np.float32)
        assert np.array_equal(run_row(spec, x), x.sum(0))


def test_no_columns_and_no_rows():
    x, w = np.zeros((4, 0), np.float32), np.zeros(0, np.float32)
    spec = replace(FULL, outs=FULL.outs[:3])
    element, means, column = run_row(spec, x, w, w, normal(4), 1.0)
    assert element.shape == (4, 0)
    assert column.shape == (0,)
    assert np.all(np.isnan(means))  # the mean of nothing
    v = nf.Variable(nf.array(normal(5), device="rocm"), requires_grad=True)
    x = nf.array(np.zeros((0, 5), np.float32), device="rocm")
    nf.ops.rms_norm(x, v).backward(x)
    assert np.array_equal(nf.to_numpy(v.grad), np.zeros(5))


@pytest.mark.usefixtures("way")
def test_blocks_loop_where_a_launch_has_no_more(monkeypatch):
    monkeypatch.setattr(row, "MOST_BLOCKS", 2)
    check_softmax(normal((500, 7)))
    check_softmax(normal((30, 1200)))


# --- which kernel


def planned(spec, shape, pointer=0, dtype="f4", columns=None):
    """The plan of contiguous arrays, the inputs at `pointer`."""
    dtypes = tuple(np.dtype(dtype) if k != "scalar" else np.dtype("f8")
                   for k in spec.kinds)
    results = spec.result_types(dtypes)
    kinds = [*(k for k in spec.kinds if k != "scalar"), *(o.kind for o in spec.outs)]
    strides = {"element": (columns or shape[1], 1), "row": (1, 0), "column": (0, 1),
               "scalar": (0, 0)}
    codes = tuple("1" if k in ("element", "column") else "0" for k in kinds)
    launcher = row.RowLauncher(spec.name, spec.typed(dtypes), Signature(
        dtypes, results, (1, 1), codes))
    call = Call(shape, (pointer,)*len(kinds), tuple(strides[k] for k in kinds))
    return launcher, launcher.plan(call)


def test_neighbours_are_taken_together_where_they_are_aligned():
    assert planned(SOFTMAX, (9, 512))[1].width == 4
    assert planned(SOFTMAX, (9, 512), dtype="f2")[1].width == 8
    assert planned(SOFTMAX, (9, 512), pointer=8)[1].width == 0
    assert planned(SOFTMAX, (9, 511))[1].width == 0
    assert planned(SOFTMAX, (9, 512), columns=513)[1].width == 0


def test_rows_fit_into_shared_memory():
    for spec in (SOFTMAX, FULL):
        for columns in (8, 256, 512, 2048, 4096, 8192, 8200, 100_000):
            for dtype in ("f2", "f4", "f8"):
                launcher, plan = planned(spec, (9, columns), dtype=dtype)
                assert plan.groups*launcher.text.row_bytes(columns, plan) <= row.SHARED
    plans = [planned(SOFTMAX, (9, columns))[1] for columns in (8192, 8196)]
    assert [plan.cached for plan in plans] == [True, False]
    plans = [planned(FULL, (9, columns))[1] for columns in (4096, 8192, 8196)]
    assert [(plan.cached, plan.sums) for plan in plans] == [
        (True, "shared"), (False, "shared"), (False, "global")]


# --- machine code


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_machine_code(arch, tmp_path):
    """No spills, 16 bytes at a time in both memories, and it is known which one."""
    kernels = []
    for spec, columns in ((SOFTMAX, 64), (SOFTMAX, 4096), (FULL, 512), (FULL, 513),
                          (FULL, 100_000)):
        launcher, plan = planned(spec, (99, columns))
        kernels.append(launcher.text.kernel(plan))
    text = assembly(tmp_path, kernels, arch)
    assert not spilled(text)
    for instruction in ("global_load_dwordx4", "global_store_dwordx4", "ds_read_b128",
                        "ds_write_b128"):
        assert instruction in text
    assert not re.search("flat_(load|store)|scratch_load", text)
