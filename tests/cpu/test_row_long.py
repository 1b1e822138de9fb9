"""Few long rows, whose chunks threads share, and rows held in temporary memory."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.cpu import row as rows
from nbfused.cpu.long_rows import launcher
from nbfused.cpu.long_rows.schedule import Schedule
from nbfused.cpu.runtime.native import native_of, shared_of
from nbfused.scalar.language.names import exp
from nbfused.scalar.parse.functions import parse
from nbfused.specs import COMBINES, Out, Row, Stage
from nbfused.specs.vjp.functions import identity
from tests.cpu.skeletons import run_row
from tests.variants import sampled

RNG = np.random.default_rng(21)
MAX, SUM = COMBINES["max"], COMBINES["sum"]
#: A whole number of chunks, one more, one less, several rows, several axes of rows.
SHAPES = [(1, 65_536), (1, 65_537), (2, 40_959), (7, 33_000), (2, 3, 33_001)]
EPS = {2: 1e-2, 4: 2e-6, 8: 1e-13}


def kind_of(name):
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def normal(shape, dtype="float64"):
    return RNG.standard_normal(shape).astype(kind_of(dtype))


def wide(x):
    return np.asarray(x).astype(np.float64)


def layouts(shape, dtype):
    """The same numbers dense, with gaps, backwards, and side by side."""
    x = normal(shape, dtype)
    gaps = np.zeros((*shape[:-1], 2*shape[-1]), x.dtype)
    gaps[..., ::2] = x
    thirds = np.zeros((*shape[:-1], 3*shape[-1]), x.dtype)
    thirds[..., ::-3] = x
    return x, gaps[..., ::2], thirds[..., ::-3], np.asfortranarray(x)


def softmax(x):
    """By powers of two, about the mean of each row."""
    x = wide(x)
    powers = np.exp2((x - x.mean(-1, keepdims=True))*np.log2(np.e))
    return powers/powers.sum(-1, keepdims=True)


def softmax_gradient(x, g):
    y = softmax(x)
    return y*(wide(g) - np.einsum("...i,...i->...", y, wide(g))[..., None])


def normed(x):
    """Each row less its mean, over its standard deviation, and that."""
    x = wide(x)
    spread = np.sqrt(np.einsum("...i,...i->...", x, x)/x.shape[-1]
                     - x.mean(-1)**2 + 1e-5)[..., None]
    return (x - x.mean(-1, keepdims=True))/spread, spread


def near(found, expected, like, scale=1.0):
    eps = EPS[like.dtype.itemsize]*scale
    np.testing.assert_allclose(wide(found), expected, rtol=eps,
                               atol=eps*np.abs(expected).max())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", sampled(
    ["float32", "float64", "float16", "bfloat16"], "float32", "bfloat16"))
def test_softmax_both_ways(shape, dtype):
    for x in layouts(shape, dtype):
        v, g = nf.Variable(x, requires_grad=True), normal(shape, dtype)
        y = nf.ops.softmax(v)
        y.backward(g)
        near(y.data, softmax(x), x)
        near(v.grad, softmax_gradient(x, g), x, 4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layer_norm_both_ways(shape, dtype):
    w, b, g = normal(shape[-1:], dtype), normal(shape[-1:], dtype), normal(shape, dtype)
    over = tuple(range(len(shape) - 1))
    for x in layouts(shape, dtype):
        given = [nf.Variable(a, requires_grad=True) for a in (x, w, b)]
        y = nf.ops.layer_norm(*given)
        y.backward(g)
        n, spread = normed(x)
        near(y.data, n*wide(w) + wide(b), x, 4)
        gw = wide(g)*wide(w)
        near(given[0].grad, (gw - gw.mean(-1, keepdims=True)
                             - n*(gw*n).mean(-1, keepdims=True))/spread, x, 4)
        near(given[1].grad, (wide(g)*n).sum(over), x, 4)
        near(given[2].grad, wide(g).sum(over), x, 4)


def test_along_the_first_axis():
    x = normal((70_001, 3), "float32")
    near(nf.ops.softmax(x, axis=0), softmax(x.T).T, x)


@pytest.mark.parametrize("label", [0, 8191, 8192, 65_536])
def test_cross_entropy_picks_a_column_of_any_chunk(label):
    x = normal((2, 65_537))
    labels = np.array([label, 5])
    v = nf.Variable(x, requires_grad=True)
    loss = nf.ops.cross_entropy(v, labels)
    y = softmax(x)[np.arange(2), labels]
    np.testing.assert_allclose(loss.data, -np.log(y).mean(), rtol=1e-12)
    loss.backward()
    near(v.grad, (softmax(x) - (np.arange(65_537) == labels[:, None]))/2, x)


def quotient(x, m, s):
    return exp(x - m)/s


EVERYTHING = Row(
    "everything", ("x", "w", "offset", "scale"), ("element", "column", "row", "scalar"),
    (Stage(("m",), parse(lambda x: x), MAX, MAX.finish, True),
     Stage(("s",), parse(lambda x, m: exp(x - m)), SUM, identity()),
     Stage(("t",), parse(lambda x, w, index: x*w*(index + 1)), SUM,
           parse(lambda s0, size, m: s0/size + m))),
    (Out("element", parse(lambda x, m, s, scale: exp(x - m)/s*scale)),
     Out("row", parse(lambda t, offset: t - offset)),
     Out("column", parse(lambda x, t, index: x*t + index)),
     Out("scalar", parse(lambda x, w, t: x*w + t))))


@pytest.mark.parametrize("shape", [(1, 65_537), (5, 40_001), (9, 6_001)])
def test_every_kind_of_input_and_output(shape):
    """A late result of a stage that is folded early, places, sums over rows."""
    x, w, offset = normal(shape), normal(shape[1:]), normal(shape[:1])
    element, row, column, scalar = run_row(EVERYTHING, x, w, offset, 3.0)
    at = np.arange(shape[1])
    t = ((x*w) @ (at + 1.0))/shape[1] + x.max(-1)
    near(element, 3*softmax(x), x)
    near(row, t - offset, x, 10)
    near(column, t @ x + len(x)*at, x, 10)
    near(scalar, np.vdot(x, np.broadcast_to(w, shape)) + t.sum()*shape[1], x, 10)


def test_stages_are_folded_as_soon_as_what_they_read_is_known():
    typed = EVERYTHING.typed((*[np.dtype("f8")]*3, np.dtype("f8")))
    schedule = Schedule(typed)
    assert schedule.folded == [0, 1, 0]
    assert schedule.known == [0, 1, 0]
    assert schedule.last == 2
    late = Row("late", ("x",), ("element",), (
        *EVERYTHING.stages[:2],
        Stage(("t",), parse(lambda x: x), SUM, parse(lambda s0, s: s0/s)),
        Stage(("u",), parse(lambda x, t: x*t), SUM, identity())),
        (Out("element", parse(lambda x, u: x*u)),))
    schedule = Schedule(late.typed((np.dtype("f8"),)))
    assert (schedule.folded, schedule.known) == ([0, 1, 0, 2], [0, 1, 1, 2])
    x = normal((1, 70_001))
    t = x.sum()/np.exp(x - x.max()).sum()
    near(run_row(late, x), x*t*x.sum(), x, 10)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_not_finite_is_as_in_short_rows(number, dtype):
    x = normal((1, 65_600), dtype)
    x[0, 30_000] = number
    with np.errstate(invalid="ignore"):
        e = np.exp(wide(x) - wide(x).max())
        expected = e/e.sum()
    near_or_nan = np.isnan(wide(nf.ops.softmax(x))) == np.isnan(expected)
    assert near_or_nan.all()
    only = np.full((1, 65_600), -np.inf, x.dtype)
    assert np.isnan(wide(nf.ops.softmax(only))).all()


@pytest.mark.parametrize("shape", [(1, 200_003), (3, 70_001), (40, 9_001)])
def test_the_number_of_threads_changes_no_bit(shape):
    x, w = normal(shape, "float32")[..., ::-1], normal(shape[1:], "float32")
    found = []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            found.append(run_row(EVERYTHING, x, w, w[:shape[0]], 2.0))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert np.array_equal(a, b)


def test_rows_that_are_too_long_to_be_held_are_read_again(monkeypatch):
    monkeypatch.setattr(launcher, "_HELD", 0)
    monkeypatch.setattr(rows, "_HELD", 0)
    for shape in ((3, 40_000), (16, 6_000)):
        for x in layouts(shape, "bfloat16"):
            near(nf.ops.softmax(x), softmax(x), x)


@pytest.mark.parametrize("shape", [(8, 5_000), (200, 4_097), (8, 140_001)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_held_in_temporary_memory(monkeypatch, shape, dtype):
    """More rows than units that hold one, too."""
    held = []
    holding = rows.RowLauncher._holding
    monkeypatch.setattr(rows.RowLauncher, "_holding", lambda self, *of: (
        held.append(of), holding(self, *of))[1])
    for x in layouts(shape, dtype)[1:3]:
        @nf.row
        def own(x):
            @nf.stage("max")
            def top(x):
                return x

            @nf.stage("sum")
            def total(x, top):
                return exp(x - top)

            return exp(x - top)/total

        near(own(x), softmax(x), x)
    assert held


def test_such_a_step_of_a_plan_is_machine_code(monkeypatch):
    starts = []
    bind = launcher.LongRows.bind
    monkeypatch.setattr(launcher.LongRows, "bind", lambda self, *of: (
        starts.append(bind(self, *of)), starts[-1])[1])
    x = normal((2, 70_007))
    fused = nf.fuse(lambda x: nf.ops.softmax(2*x, axis=1) - x[:, :1])
    for _ in range(4):
        near(fused(x), softmax(2*x) - x[:, :1], x)
    assert any(starts)
    assert all(native_of(s) or shared_of(s) for s in starts if s is not None)
