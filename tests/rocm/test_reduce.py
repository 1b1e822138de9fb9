"""Reductions on ROCm against NumPy in float64: sizes around groups, blocks, chunks."""

from __future__ import annotations

import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest

from nbfused.backend import Call, Signature
from nbfused.rocm import reduce
from nbfused.scalar.parse.functions import parse, parse_definition
from nbfused.specs import COMBINES, Combine, Reduce
from nbfused.specs.combine import sum_combine
from nbfused.specs.vjp.functions import identity
from tests.cpu import skeletons
from tests.cpu.skeletons import run_reduce
from tests.rocm.assembly import assembly, spilled
from tests.rocm.emulated import WAYS
from tests.rocm.skeletons import OnDevice

RNG = np.random.default_rng(0)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype("f4")
LENGTHS = [0, 1, 2, 5, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2047,
           2049, 8191, 8192, 8193]


@pytest.fixture(autouse=True)
def _on_rocm(monkeypatch):
    monkeypatch.setattr(skeletons, "CPU", OnDevice())


@pytest.fixture(params=WAYS, ids=str)
def way(request, monkeypatch):
    """The size of a wave, and who runs first."""
    wave, schedule = request.param
    monkeypatch.setenv("NBFUSED_EMULATION_WAVE", str(wave))
    monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)


@cache
def reduction(name):
    combine = COMBINES[name]
    return Reduce(identity(), ("element",), combine, combine.finish)


def normal(shape, dtype=F32):
    x = RNG.standard_normal(shape)
    return (x + 1j*RNG.standard_normal(shape)
            if np.dtype(dtype).kind == "c" else x).astype(dtype)


def check_sum(x, axes, eps=3e-7, **kwargs):
    got = np.asarray(run_reduce(reduction("sum"), x, axes=axes, **kwargs))
    x64 = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    error = np.abs(got - x64.sum(axes))
    assert np.all(error <= eps*(1e-30 + np.abs(x64).sum(axes)))


# --- sizes, in every way to run


@pytest.mark.usefixtures("way")
def test_sums_of_every_length():
    for size in LENGTHS:
        check_sum(normal(size), (0,))
        check_sum(normal((3, size)), (1,))
        check_sum(normal((70, size)), (1,))


@pytest.mark.usefixtures("way")
def test_sums_across():
    for shape in [(1, 17), (5, 16), (0, 20), (70, 31), (70, 32), (70, 33), (9, 128),
                  (9, 132), (300, 16), (2000, 20), (7, 3000), (3001, 129)]:
        check_sum(normal(shape), (0,))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["nanmax", "nanmin", "nanmean"])
def test_states_without_nan_in_chunks(name):
    for shape, axes in (((3, 70), (1,)), ((2, 20_001), (1,)), ((3000, 40), (0,))):
        x = RNG.integers(0, 50, shape).astype(np.float64)
        x[RNG.random(shape) < 0.3] = np.nan
        got = run_reduce(reduction(name), x, axes=axes)
        assert np.allclose(got, getattr(np, name)(x, axes), rtol=1e-13)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", ["welford", "argmin", "logsumexp"])
def test_states_of_several_parts_in_chunks(name):
    """Along and across, in one kernel and in two."""
    for shape, axes in (((3, 70), (1,)), ((2, 20_001), (1,)), ((70, 33), (0,)),
                        ((3000, 40), (0,))):
        x = RNG.integers(0, 50, shape).astype(np.float64)
        got = run_reduce(reduction(name), x, axes=axes)
        if name == "argmin":
            assert np.array_equal(got, x.argmin(axes[0]))
        elif name == "welford":
            assert np.allclose(got[0], x.mean(axes), rtol=1e-12)
            assert np.allclose(got[1], x.var(axes), rtol=1e-12)
        else:
            assert np.allclose(got, np.log(np.exp(x).sum(axes)), rtol=1e-13)


def test_every_way_gives_the_same_bits(monkeypatch):
    results = []
    cases = [(normal(70_001), (0,)), (normal((3000, 300)), (0,)),
             (normal((40, 70, 50)), (0, 2))]
    for wave, schedule in WAYS:
        monkeypatch.setenv("NBFUSED_EMULATION_WAVE", str(wave))
        monkeypatch.setenv("NBFUSED_EMULATION_SCHEDULE", schedule)
        results.append([np.asarray(run_reduce(reduction("sum"), x, axes=axes)).tobytes()
                        for x, axes in cases])
    assert all(other == results[0] for other in results)


# --- layouts


@pytest.mark.parametrize(("shape", "axes"), [
    ((3, 4, 5), (0, 1, 2)), ((3, 4, 50), (0, 1)), ((6, 40, 7), (1,)),
    ((6, 40, 70), (0, 2)), ((3, 30, 4, 20), (1, 3)), ((4, 2, 1, 200), (0, 1)),
], ids=str)
@pytest.mark.parametrize("layout", ["c", "fortran", "strided"])
def test_sums_over_axes(shape, axes, layout):
    x = normal(shape)
    if layout == "fortran":
        x = np.asfortranarray(x)
    elif layout == "strided":
        x = np.repeat(x, 2, -1)[..., ::-2]
    check_sum(x, axes)


def test_elements_that_are_not_aligned():
    x = normal(5000)
    for start in range(4):
        check_sum(x[start:], (0,))
        check_sum(x[start:start + 4992].reshape(52, 96), (0,))
        check_sum(x[start:start + 4992].reshape(52, 96)[:, :95], (1,))


def test_repeated_elements_are_counted():
    check_sum(np.broadcast_to(np.float32(1), 100_000), (0,))
    check_sum(np.broadcast_to(normal((90, 1)), (90, 40)), (0,))
    check_sum(np.broadcast_to(normal((1, 40)), (90, 40)), (0,))


def test_a_strided_output():
    x, room = normal((70, 50)), np.full((70, 3), 7, F32)
    run_reduce(reduction("sum"), x, axes=(1,), out=[room[:, 1]])
    assert np.allclose(room[:, 1], x.sum(1), atol=1e-5)
    assert np.all(room[:, ::2] == 7)


# --- dtypes and combines


@pytest.mark.parametrize(
    "dtype", ["f2", "f8", "i1", "u1", "i4", "u8", "?", "c8", "c16"])
def test_accumulators(dtype):
    for shape, axes in (((20_001,), (0,)), ((40, 304), (0,)), ((40, 304), (1,))):
        x = (normal(shape)*5).astype(dtype) if dtype[0] != "c" else normal(shape, dtype)
        if x.dtype.kind in "biu":
            got = run_reduce(reduction("sum"), x, axes=axes)
            assert np.array_equal(got, x.sum(axes))
            assert got.dtype == x.sum(axes).dtype
        else:
            check_sum(x, axes, {"f2": 1e-3, "c8": 3e-7}.get(dtype, 3e-15))


def test_bfloat16():
    x = normal((20, 3000)).astype(BF16)
    check_sum(x, (1,), 5e-3, dtypes=[BF16])
    check_sum(x, (1,), 1e-6, dtypes=[F32])
    check_sum(x, (0,), 1e-6, dtypes=[F32])


@pytest.mark.parametrize("name", ["max", "min", "prod", "any", "all"])
def test_combines(name):
    for shape, axes in (((1,), (0,)), ((30_000,), (0,)), ((9, 100), (1,)),
                        ((100, 90), (0,))):
        x = 1 + normal(shape, "f8")*1e-3
        if name in ("any", "all"):
            x = RNG.random(shape) < 0.5
        got = run_reduce(reduction(name), x, axes=axes)
        assert np.allclose(got, getattr(np, name)(x, axis=axes), rtol=1e-12)


def test_nan_wins_and_the_first_of_equals():
    x = RNG.integers(0, 9, (7, 300)).astype(F32)
    for axis in (0, 1):
        got = run_reduce(reduction("argmax"), x, axes=(axis,))
        assert np.array_equal(got, x.argmax(axis))
    x[1, 77] = np.nan
    for name in ("max", "argmin"):
        got = run_reduce(reduction(name), x, axes=(1,))
        assert np.array_equal(got, getattr(np, name)(x, axis=1), equal_nan=True)


def test_nothing_to_reduce_gives_the_identity():
    for shape, axes in (((4, 0), (1,)), ((0, 40), (0,))):
        assert np.all(run_reduce(reduction("sum"), normal(shape), axes=axes) == 0)
        assert np.all(run_reduce(reduction("prod"), normal(shape), axes=axes) == 1)


# --- what else a reduction may have


def test_index_counts_within_the_reduced_axes():
    spec = Reduce(parse(lambda x, index: x*index), ("element", "index"),
                  COMBINES["sum"], identity())
    x = normal((3, 4, 50, 6), "f8")
    for axes in ((1, 3), (0, 1), (2,), (0, 1, 2, 3)):
        moved = np.moveaxis(x, axes, range(-len(axes), 0))
        flat = moved.reshape(*moved.shape[:4 - len(axes)], -1)
        expected = (flat*np.arange(flat.shape[-1])).sum(-1)
        assert np.allclose(run_reduce(spec, x, axes=axes), expected, rtol=1e-12)


def squares(x, y, c):
    return (x - y)*(x - y)*c


def mean(s0, c, size):
    return s0/size, s0*c


@pytest.mark.parametrize(("dtype", "c"), [("f8", 0.5), ("c16", 0.5 - 2j)])
def test_scalars_size_and_several_inputs_and_outputs(dtype, c):
    spec = Reduce(parse(squares), ("element", "element", "scalar"), COMBINES["sum"],
                  parse(mean))
    x, y = normal((5, 6000), dtype), normal((6000,), dtype)
    for axes in ((0,), (1,)):
        first, second = run_reduce(spec, x, y, c, axes=axes)
        expected = ((x - y)**2*c).sum(axes)
        assert np.allclose(first, expected/x.shape[axes[0]], rtol=1e-12)
        assert np.allclose(second, expected*c, rtol=1e-12)


def test_a_combine_of_the_users_own():
    combine = Combine(
        "mean", parse(lambda x: (x, 1)),
        parse(lambda a, n, b, m: ((a*n + b*m)/max(n + m, 1), n + m)), ("0", "0"),
        parse(lambda a, n: a))
    spec = Reduce(identity(), ("element",), combine, combine.finish)
    x = normal((300, 40), "f8")
    for axes in ((0,), (1,), (0, 1)):
        assert np.allclose(run_reduce(spec, x, axes=axes), x.mean(axes), rtol=1e-11)


def test_a_state_that_fills_shared_memory():
    count = 40
    terms = ", ".join(f"x + {k}" for k in range(count))
    spec = Reduce(parse_definition(f"def f(x): return {terms}"), ("element",),
                  sum_combine(count), identity(count))
    x = RNG.integers(-5, 5, (2000, 40)).astype(np.float64)
    for axes in ((0,), (1,), (0, 1)):
        size = x.sum(axes).size
        got = run_reduce(spec, x, axes=axes)
        for k, part in enumerate(got):
            assert np.array_equal(part, x.sum(axes) + k*(x.size // size))


# --- which kernel


def planned(shape, strides, dtype="f4", pointer=0, name="sum", kept=1):
    """The plan for one input; the output is contiguous."""
    spec = reduction(name)
    dtypes = (np.dtype(dtype),)
    results = spec.result_types(dtypes)
    code = {1: "1", 0: "0"}.get(strides[-1], "s")
    launcher = reduce.ReduceLauncher(name, spec.typed(dtypes), Signature(
        dtypes, results, (kept, len(shape) - kept), (code, *"0"*len(results))))
    call = Call(shape, (pointer, 4096), (strides, (1,) + (0,)*(len(shape) - 1)))
    rows, columns = np.prod(shape[:kept]), np.prod(shape[kept:])
    return launcher, launcher.plan(call, int(rows), int(columns))


def test_neighbours_are_taken_together_where_they_are_aligned():
    assert planned((4, 512), (512, 1))[1].width == 4
    assert planned((4, 512), (512, 1), pointer=4)[1].width == 1
    assert planned((4, 512), (513, 1))[1].width == 1
    assert planned((4, 512), (512, 1), "f2")[1].width == 8
    assert planned((512, 40), (1, 512))[1].kind == "columns"
    assert planned((512, 40), (1, 512))[1].width == 4
    assert planned((510, 40), (1, 510))[1].width == 1


@pytest.mark.parametrize(("name", "dtypes"), [
    ("sum", "? i1 f2 f4 f8 c16"), ("prod", "i1 f8 c16"), ("argmax", "? i1 f2 f8"),
    ("welford", "f2 f4 f8")])
def test_columns_fit_into_shared_memory(name, dtypes):
    for dtype in dtypes.split():
        launcher, plan = planned((512, 40), (1, 512), dtype, name=name)
        assert plan.kind == "columns"
        assert plan.threads*plan.width*launcher.text.state_size <= reduce.SHARED


@pytest.mark.usefixtures("way")
def test_blocks_loop_where_a_launch_has_no_more(monkeypatch):
    monkeypatch.setattr(reduce, "MOST_BLOCKS", 2)
    for shape, axis in (((5000, 3), 1), ((90, 1000), 1), ((40, 3000), 0),
                        ((9, 9000), 1)):
        check_sum(normal(shape), (axis,))


# --- machine code


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_machine_code(arch, tmp_path):
    """No spills, 16 bytes at a time, and nothing in private memory."""
    kernels = []
    for name, shape, strides in (("sum", (4, 9000), (9000, 1)),
                                 ("welford", (4, 512), (512, 1)),
                                 ("argmax", (4, 9000), (9000, 2)),
                                 ("logsumexp", (512, 90), (1, 512)),
                                 ("sum", (512, 40), (1, 512))):
        launcher, plan = planned(shape, strides, name=name)
        kernels.append(launcher.text.kernel(plan))
    text = assembly(tmp_path, kernels, arch)
    assert not spilled(text)
    assert "load_dwordx4" in text
    assert not re.search("flat_(load|store)|scratch_load", text)
