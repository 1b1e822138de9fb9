"""Long sums of exponentials: a Row of each chunk, whose states are merged."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.cpu import reduce as reductions
from nbfused.cpu.runtime.native import native_of, shared_of
from tests.variants import sampled

RNG = np.random.default_rng(12)
CHUNK = reductions._EXPONENTIALS
SHAPES = [((65_537,), 0), ((5*CHUNK,), 0), ((5*CHUNK + 1,), 0), ((3, 70_001), 1),
          ((70_001, 3), 0), ((2, 3, 66_000), 2), ((2, 70_000, 3), 1)]
DTYPES = sampled(["float64", "float32", "float16", "bfloat16"], "float64", "bfloat16")
NUMBERS = [None, np.inf, -np.inf, np.nan]


def expected(x, axis):
    """By powers of 2, about the mean of the largest and the smallest finite number."""
    wide = np.asarray(x, np.float64)
    finite = np.where(np.isfinite(wide), wide, 0)
    about = (finite.max() + finite.min())/2
    with np.errstate(all="ignore"):
        total = np.exp2((wide - about)*np.log2(np.e)).sum(axis)
        return np.log2(total)*np.log(2) + about


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_against_powers_of_two(shape, axis, dtype):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x = (3*RNG.normal(size=shape)).astype(kind)
    second = tuple(slice(None, None, 2 if a == axis else None) for a in range(x.ndim))
    tolerance = {8: 1e-12, 4: 2e-6, 2: 2e-2}[x.dtype.itemsize]
    for view in (x, np.flip(x, axis), np.repeat(x, 2, axis)[second],
                 np.broadcast_to(x.take([0], axis), shape)):
        for number in NUMBERS:
            given = view
            if number is not None:
                given = np.array(view)
                given[tuple(n // 2 for n in shape)] = number
            found = np.asarray(nf.ops.logsumexp(given, axis=axis), np.float64)
            np.testing.assert_allclose(found, expected(given, axis), rtol=tolerance,
                                       atol=tolerance)


def test_nothing_but_minus_infinity():
    assert nf.ops.logsumexp(np.full(70_000, -np.inf)) == -np.inf


def test_the_number_of_threads_changes_no_bit():
    x, found = RNG.normal(size=200_003), []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            found.append(nf.ops.logsumexp(x))
    assert found[0] == found[1] == found[2]


def test_such_a_step_of_a_plan_is_machine_code(monkeypatch):
    starts = []
    bind = reductions.RowsOfChunks.bind
    monkeypatch.setattr(reductions.RowsOfChunks, "bind", lambda self, *of: (
        starts.append(bind(self, *of)), starts[-1])[1])
    x = RNG.normal(size=(2, 70_007))
    fused = nf.fuse(lambda x: nf.ops.logsumexp(2*x, axis=1) - x[:, 0])
    for _ in range(4):
        np.testing.assert_allclose(fused(x), expected(2*x, 1) - x[:, 0], rtol=1e-12)
    assert starts
    assert all(native_of(start) or shared_of(start) for start in starts)
