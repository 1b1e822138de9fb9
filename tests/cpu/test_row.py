"""Rows against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused.backend import Signature
from nbfused.config import config
from nbfused.cpu.row_text import RowText
from nbfused.scalar.language.names import exp, sqrt
from nbfused.scalar.parse.functions import parse
from nbfused.specs import COMBINES, Out, Row, Stage
from nbfused.specs.vjp.functions import identity
from tests.cpu.skeletons import run_row
from tests.variants import sampled, sampled_together

RNG = np.random.default_rng(0)
SHAPES = [(1, 1), (3, 5), (1, 300), (40, 64), (7, 65), (5, 6, 33), (2, 3, 4, 17),
          (900, 100), (5, 0)]


def shifted(x, m):
    return exp(x - m)


def quotient(x, m, s):
    return exp(x - m)/s


MAX, SUM = COMBINES["max"], COMBINES["sum"]
SOFTMAX = Row("softmax", ("x",), ("element",),
              (Stage(("m",), parse(lambda x: x), MAX, MAX.finish, True),
               Stage(("s",), parse(shifted), SUM, identity())),
              (Out("element", parse(quotient)),))


def mean(s0, size):
    return s0/size


def squares(x, mu):
    return (x - mu)*(x - mu)


def scale(s0, size, eps):
    return 1.0/sqrt(s0/size + eps)


def normalized(x, mu, r, w, b):
    return (x - mu)*r*w + b


def row_value(mu, r, offset):
    return mu*r + offset


def column_sum(x, mu, index):
    return (x - mu)*index


def total(x, w):
    return x*w


FULL = Row("norm", ("x", "w", "b", "offset", "eps"),
           ("element", "column", "column", "row", "scalar"),
           (Stage(("mu",), parse(lambda x: x), SUM, parse(mean)),
            Stage(("r",), parse(squares), SUM, parse(scale))),
           (Out("element", parse(normalized)), Out("row", parse(row_value)),
            Out("column", parse(column_sum)), Out("scalar", parse(total))))


def softmax(x):
    x = x.astype(np.float64)
    e = np.exp(x - x.max(-1, keepdims=True))
    return e/e.sum(-1, keepdims=True)


def full(x, w, b, offset, eps):
    x, w, b, offset = (v.astype(np.float64) for v in (x, w, b, offset))
    mu = x.mean(-1, keepdims=True)
    r = 1/np.sqrt(x.var(-1, keepdims=True) + eps)
    columns = ((x - mu)*np.arange(x.shape[-1])).reshape(-1, x.shape[-1]).sum(0)
    return ((x - mu)*r*w + b, (mu*r)[..., 0] + offset, columns, (x*w).sum())


def normal(shape, dtype="f4"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(("shape", "dtype"), sampled_together(
    [(shape, dtype) for shape in SHAPES[:-1] for dtype in ("f4", "f8", "f2")],
    *((shape, "f4") for shape in SHAPES[:-1]),
    *((shape, "f2") for shape in SHAPES[1:3])), ids=str)
def test_softmax(shape, dtype):
    x = normal(shape, dtype)
    got = run_row(SOFTMAX, x)
    assert got.dtype == x.dtype
    tolerance = {"f4": 3e-7, "f8": 1e-15, "f2": 1e-3}[dtype]
    assert np.abs(got - softmax(x)).max() <= tolerance


@pytest.mark.parametrize(("shape", "dtype"), sampled_together(
    [(shape, dtype) for shape in SHAPES[1:-1] for dtype in ("f4", "f8")],
    *((shape, "f4") for shape in SHAPES[1:-1])), ids=str)
def test_every_kind_of_input_and_output(shape, dtype):
    x, offset = normal(shape, dtype), normal(shape[:-1], dtype)
    w, b = normal(shape[-1], dtype), normal(shape[-1], dtype)
    got = run_row(FULL, x, w, b, offset, 1e-3)
    expected = full(x, w, b, offset, 1e-3)
    for g, e in zip(got, expected, strict=True):
        size = 1 + np.abs(e).max() + x.size**0.5
        assert np.abs(g - e).max() <= {"f4": 3e-6, "f8": 1e-14}[dtype]*size


def test_no_columns():
    x = np.zeros((4, 0), np.float32)
    w = np.zeros(0, np.float32)
    element, row, column, scalar = run_row(FULL, x, w, w, normal(4), 1.0)
    assert element.shape == (4, 0)
    assert column.shape == (0,)
    assert np.all(np.isnan(row))  # the mean of nothing
    assert scalar == 0


@pytest.mark.parametrize("layout", [
    np.asfortranarray, lambda x: x[:, ::-1], lambda x: np.repeat(x, 2, 1)[:, ::2],
    lambda x: np.repeat(x, 3, 0)[::-3]])
def test_strides(layout):
    x = layout(normal((30, 90)))
    assert np.abs(run_row(SOFTMAX, x) - softmax(x)).max() <= 3e-7


def test_a_repeated_row():
    x = np.broadcast_to(normal((1, 50)), (20, 50))
    assert np.abs(run_row(SOFTMAX, x) - softmax(x)).max() <= 3e-7


@pytest.mark.parametrize("shape", [(5_000, 40), (100, 3_000)])
def test_the_number_of_threads_changes_no_bit(shape):
    x, offset, w = normal(shape), normal(shape[:-1]), normal(shape[-1])
    results = []
    for threads in (1, 2, 4):
        with config.override(num_threads=threads):
            results.append(run_row(FULL, x, w, w, offset, 1e-5))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert np.array_equal(a, b)


def test_only_sums_over_rows():
    spec = Row("sums", ("x",), ("element",), (),
               (Out("column", parse(lambda x: x*x)), Out("scalar", parse(lambda x: x))))
    x = normal((1000, 70), "f8")
    column, scalar = run_row(spec, x)
    assert np.allclose(column, (x*x).sum(0), rtol=1e-13)
    assert np.allclose(scalar, x.sum(), rtol=1e-11)


def weighted(x, m, w):
    return exp(x - m)*w


def text_of(spec, dtype, codes):
    dtypes = (np.dtype(dtype),)
    typed = spec.typed(dtypes, dtypes)
    return "\n".join(RowText(typed, Signature(dtypes, dtypes, (1, 1), codes)).lines())


@pytest.mark.parametrize(("dtype", "codes", "count"), [
    ("f4", ("1", "1"), 1), ("f8", ("s", "1"), 1),
    ("f4", ("1", "s"), 2), ("f2", ("1", "1"), 2)])
def test_a_stage_leaves_its_exponentials_for_the_result(dtype, codes, count):
    """Unless the result has another dtype, or steps through memory."""
    found = text_of(SOFTMAX, dtype, codes).count("exp_f")
    assert found == count + 1  # of the last elements there is one more


@pytest.mark.parametrize("shape", sampled([(3, 1), (5, 63), (40, 200)], (5, 63)))
def test_values_that_stay_are_read_by_later_stages_and_sums(shape):
    stages = (*SOFTMAX.stages, Stage(("t",), parse(weighted), SUM, identity()))
    outs = (Out("element", parse(lambda x, m, s, t: exp(x - m)/s - t)),
            Out("column", parse(lambda x, m: exp(x - m)*2.0)),
            Out("scalar", parse(lambda x, m: exp(x - m))))
    spec = Row("kept", ("x", "w"), ("element", "column"), stages, outs)
    x, w = normal(shape), normal(shape[-1])
    element, column, scalar = run_row(spec, x, w)
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf).astype(np.float64))
    expected = e/e.sum(-1, keepdims=True) - (e*w).sum(-1, keepdims=True)
    assert np.allclose(element, expected, atol=1e-5*shape[-1]**0.5)
    assert np.allclose(column, 2*e.sum(0), rtol=1e-5)
    assert np.allclose(scalar, e.sum(), rtol=1e-5)
