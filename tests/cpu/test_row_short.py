"""Rows of few elements: stages, reductions and results, in every way that rows lie.

Oracle: NumPy, in float64 where values are rounded.
"""

from __future__ import annotations

import logging

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused import ops
from nbfused.config import config
from nbfused.cpu import row, row_short
from tests.cpu.skeletons import run_row
from tests.cpu.test_row import SOFTMAX, normal, softmax
from tests.variants import sampled, sampled_together

RNG = np.random.default_rng(5)
ROWS = 1200
#: Relative to the largest value.
TOLERANCE = {"f4": 6e-7, "f8": 2e-15, "f2": 2e-3, "bfloat16": 1e-2}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Count the calls of kernels of short rows; refuse those of others."""
    starts = []
    bind = row.RowLauncher.in_short_rows

    def bound(self, call):
        start = bind(self, call)
        assert start is not None
        starts.append(call)
        return start

    monkeypatch.setattr(row.RowLauncher, "in_short_rows", bound)
    yield
    assert starts


def close(found, expected, dtype):
    assert found.dtype == np.dtype(dtype)
    bound = TOLERANCE[np.dtype(dtype).name if dtype is ml_dtypes.bfloat16 else dtype]
    scale = np.nanmax(np.abs(expected))
    np.testing.assert_allclose(found.astype("f8"), expected, rtol=0, atol=bound*scale)


FLOATS = ["f4", "f8", "f2", ml_dtypes.bfloat16]


@pytest.mark.parametrize(("columns", "dtype"), sampled_together(
    [(n, d) for n in range(2, 8) for d in FLOATS],
    (2, "f4"), (3, "f8"), (5, "f2"), (7, "f4"), (7, ml_dtypes.bfloat16)))
def test_softmax(columns, dtype):
    x = normal((ROWS, columns), dtype)
    close(ops.softmax(x), softmax(x), dtype)


@pytest.mark.parametrize(("columns", "dtype"), sampled_together(
    [(n, d) for n in range(8, 15) for d in FLOATS], (8, ml_dtypes.bfloat16),
    (14, "f8")))
def test_longer_rows_without_vectors_of_64_bytes(monkeypatch, columns, dtype):
    monkeypatch.setattr(row_short, "has_wide_vectors", lambda: False)
    x = normal((ROWS, columns), dtype)
    close(run_row(SOFTMAX, x), softmax(x), dtype)


LAYOUTS = {
    "first columns": lambda x: np.repeat(x, 2, 1)[:, :3],
    "three dimensions": lambda x: x.reshape(4, -1, 3),
    "one row for all": lambda x: np.broadcast_to(x[:1], x.shape),
    "one element for a row": lambda x: np.broadcast_to(x[:, :1].copy(), x.shape),
    "an axis of one": lambda x: x.reshape(3, -1, 1, 3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout):
    x = LAYOUTS[layout](normal((ROWS, 3), "f8"))
    close(ops.softmax(x), softmax(x), "f8")
    weight, residual = normal((3,), "f8"), normal(x.shape, "f8")
    mean = np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    close(ops.rms_norm(x, weight, eps=1e-6), x / mean * weight, "f8")
    normed, added = ops.add_rms_norm(x, residual, weight, eps=1e-6)
    np.testing.assert_array_equal(added, x + residual)
    close(normed, added / np.sqrt((added**2).mean(-1, keepdims=True) + 1e-6) * weight,
          "f8")


REDUCTIONS = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean,
    "any": np.any, "all": np.all, "argmax": np.argmax, "argmin": np.argmin,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", sampled(
    ["f8", "f4", "f2", "i1", "u2", "i4", "i8", "?"], "f8", "i1", "?"))
def test_reductions(name, dtype):
    x = RNG.integers(-3, 4, (ROWS, 5)).astype(dtype)
    if x.dtype.kind == "f":
        x[::7, 2] = np.nan
    expected = REDUCTIONS[name](x.astype("f4") if dtype == "f2" else x, axis=1)
    found = getattr(ops, name)(x, axis=1)
    if name == "mean":
        np.testing.assert_allclose(found, expected, 1e-3 if dtype == "f2" else 1e-6)
    else:
        np.testing.assert_array_equal(found, expected)


def test_places_of_nan_and_of_equal_elements():
    x = np.zeros((ROWS, 4), "f4")
    x[1, 2] = x[2, 3] = x[3, 1] = np.nan
    x[3, 3] = np.inf
    x[4] = -np.inf
    np.testing.assert_array_equal(ops.argmax(x, axis=1), np.argmax(x, axis=1))
    np.testing.assert_array_equal(ops.argmin(x, axis=1), np.argmin(x, axis=1))
    np.testing.assert_array_equal(ops.max(x, axis=1), np.max(x, axis=1))
    close(ops.logsumexp(x[5:], axis=1), np.full(ROWS - 5, np.log(4)), "f4")


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_sums(dtype):
    x = (normal((ROWS, 3), "f8") + 1j*normal((ROWS, 3), "f8")).astype(dtype)
    np.testing.assert_allclose(ops.sum(x, axis=1), x.astype("c16").sum(1), rtol=1e-5)


@pytest.mark.parametrize("columns", [2, 5])
def test_losses_and_their_derivatives(columns):
    x, labels = normal((ROWS, columns), "f8"), RNG.integers(0, columns, ROWS)
    chosen = np.arange(ROWS), labels
    shifted = x - x.max(1, keepdims=True)
    loss, pull = nf.vjp(lambda v: ops.cross_entropy(v, labels, reduction="none"),
                        x)
    close(loss, np.log(np.exp(shifted).sum(1)) - shifted[chosen], "f8")
    bar = normal((ROWS,), "f8")
    wanted = softmax(x)
    wanted[chosen] -= 1
    (found,) = pull(bar)
    close(found, wanted * bar[:, None], "f8")


@pytest.mark.parametrize("threads", [1, 3])
def test_pieces_of_threads(threads):
    x = normal((50_001, 3), "f4")
    with config.override(num_threads=threads):
        close(ops.softmax(x), softmax(x), "f4")
        np.testing.assert_array_equal(ops.argmax(x, axis=1), np.argmax(x, axis=1))


def test_a_length_has_a_kernel_of_its_own(caplog, tmp_path):
    caplog.set_level(logging.INFO, "nbfused.compile")

    @nf.row
    def shares(x):
        @nf.stage("sum")
        def total(x):
            return x

        return x / total + 0.28125

    with config.override(cache_dir=str(tmp_path), cache_disable=False):
        for rows in (ROWS, 2*ROWS):
            x = 2 + normal((rows, 3), "f8")
            close(shares(x), x / x.sum(1, keepdims=True) + 0.28125, "f8")
    titles = [r.getMessage() for r in caplog.records if "shares" in r.getMessage()]
    assert [t.partition(":")[0] for t in titles] == ["# Row of 3 shares"]
