"""Rows that are computed across, many at once, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused import ops
from nbfused.backend import Signature
from nbfused.config import config
from nbfused.cpu import row
from nbfused.cpu.row_across import LANES, NARROW
from nbfused.scalar.language.names import log
from nbfused.scalar.parse.functions import parse
from nbfused.specs import COMBINES, Out, Row, Stage
from nbfused.specs.vjp.functions import identity
from tests.cpu.skeletons import run_row
from tests.cpu.test_row import FULL, SOFTMAX, full, normal, softmax
from tests.variants import sampled, sampled_together

TOLERANCE = {"f4": 3e-7, "f8": 1e-15, "f2": 1e-3}
SHORT = [(16, 1), (40, 3), (300, 7), (65, 16), (129, 17), (700, 31), (64, NARROW),
         (5, 70, 9), (33, 0)]


@pytest.fixture
def across(monkeypatch):
    """Refuse the kernels along rows, and of rows that are written out."""
    monkeypatch.setattr(row.RowLauncher, "_along", None)
    monkeypatch.setattr(row.RowLauncher, "in_short_rows", lambda self, call: None)
    monkeypatch.setattr(row, "_FEW_BYTES", 8*NARROW)
    monkeypatch.setattr(row, "_FEW_BYTES_WIDE", (8*NARROW, 8*NARROW))


@pytest.mark.parametrize(("shape", "dtype"), sampled_together(
    [(shape, dtype) for shape in SHORT for dtype in ("f4", "f8", "f2")],
    *((shape, "f4") for shape in SHORT[::2]), (SHORT[1], "f2")), ids=str)
@pytest.mark.usefixtures("across")
def test_short_rows(shape, dtype):
    x = normal(shape, dtype)
    got = run_row(SOFTMAX, x)
    assert got.dtype == x.dtype
    if got.size:
        assert np.abs(got - softmax(x)).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", sampled(["f4", "f2"], "f4"))
@pytest.mark.parametrize("shape", [(50, 16), (90, 300), (200, 1100), (3, 60, 70)],
                         ids=str)
@pytest.mark.usefixtures("across")
def test_rows_along_another_axis(shape, dtype):
    for x in (normal(shape, dtype), normal(shape, dtype)[..., ::-1, :]):
        wanted = np.swapaxes(softmax(np.swapaxes(x, -1, -2)), -1, -2)
        assert np.abs(ops.softmax(x, axis=-2) - wanted).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", sampled(["f4", "f2"], "f4"))
@pytest.mark.parametrize("shape", [(100, 7, 3), (2, 70, 20, 5)], ids=str)
@pytest.mark.usefixtures("across")
def test_lanes_are_the_longest_loop(shape, dtype):
    x = normal(shape, dtype)
    wanted = np.swapaxes(softmax(np.swapaxes(x, -1, -2)), -1, -2)
    assert np.abs(ops.softmax(x, axis=-2) - wanted).max() <= TOLERANCE[dtype]


@pytest.mark.parametrize("lay", [
    lambda x: x, lambda x: np.asfortranarray(x), lambda x: x[::-1, ::-1],
    lambda x: np.repeat(x, 3, 1)[:, ::3], lambda x: np.broadcast_to(x[:, :1], x.shape),
    lambda x: np.broadcast_to(x[:1], x.shape)],
    ids=["rows", "columns", "backwards", "strided", "repeated", "one row"])
@pytest.mark.parametrize("shape", sampled([(17, 5), (200, 20)], (17, 5)), ids=str)
@pytest.mark.usefixtures("across")
def test_every_kind_of_input_and_output(shape, lay):
    x, offset = lay(normal(shape)), normal(shape[:-1])
    w, b = normal(shape[-1]), normal(shape[-1])
    got = run_row(FULL, x, w, b, offset, 1e-1)
    expected = full(x, w, b, offset, 1e-1)
    for g, e in zip(got, expected, strict=True):
        size = 1 + np.abs(e).max() + x.size**0.5
        assert np.abs(g - e).max() <= 3e-6*size


@pytest.mark.usefixtures("across")
def test_odd_numbers_stay_in_their_rows():
    x = np.zeros((100, 20), np.float32)
    x[3, 4], x[50, 19], x[70] = np.nan, np.inf, -np.inf
    x[80, :7] = -np.inf
    got = run_row(SOFTMAX, x)
    wrong = np.isnan(got).all(1)
    assert np.flatnonzero(wrong).tolist() == [3, 50, 70]
    assert not np.isnan(got[~wrong]).any()
    assert np.allclose(got[80], [0]*7 + [1/13]*13)


@pytest.mark.parametrize("shape", [(LANES*40 + 5, 12), (20_000, 6)], ids=str)
@pytest.mark.usefixtures("across")
def test_the_number_of_threads_changes_no_bit(shape):
    x, offset = normal(shape), normal(shape[:-1])
    w, b = normal(shape[-1]), normal(shape[-1])
    found = []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            found.append(run_row(FULL, x, w, b, offset, 1e-3))
    for other in found[1:]:
        for a, c in zip(found[0], other, strict=True):
            assert np.array_equal(a, c)


def test_few_rows_are_not_computed_across(monkeypatch):
    monkeypatch.setattr(row.RowLauncher, "_across", None)
    run_row(SOFTMAX, normal((7, 4)))
    run_row(SOFTMAX, normal((100, 200)))


LABELLED = Row("labelled", ("x", "label"), ("element", "row"), (
    *SOFTMAX.stages,
    Stage(("t",), parse(lambda x, label, index: x if index == label else 0.0),
          COMBINES["sum"], identity())),
    (Out("row", parse(lambda t, m, s: t - m - log(s))),))


@pytest.mark.parametrize(("wide", "few"), [(False, (24, 12, 24)), (True, (48, 28, 28))])
def test_how_many_columns_are_few(monkeypatch, wide, few):
    """Costly float32, with labels of 64 bits, and float64; cheap float32."""
    monkeypatch.setattr(row, "has_wide_vectors", lambda: wide)
    cheap = Row("cheap", ("x",), ("element",), (Stage(
        ("s",), parse(lambda x: x), COMBINES["sum"], identity()),),
        (Out("element", parse(lambda x, s: x - s)),))
    found = []
    for spec, dtypes in ((LABELLED, "f4 i8"), (LABELLED, "f8 i8"), (cheap, "f4")):
        inputs = tuple(map(np.dtype, dtypes.split()))
        outputs = spec.result_types(inputs)
        found.append(row.RowLauncher(spec.typed(inputs), Signature(
            inputs, outputs, (1, 1), ("1",)*(len(inputs) + len(outputs))))._few)
    assert tuple(found) == few


@pytest.mark.parametrize("columns", [20, 28, 40, 48])
def test_rows_with_labels(columns):
    x, labels = normal((300, columns), "f4"), np.arange(300) % columns
    wanted = np.log(softmax(x)[np.arange(300), labels])
    assert np.abs(run_row(LABELLED, x, labels) - wanted).max() <= 2e-6
