"""Reductions along every second element, some of which are copied at once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nbfused as nf
from nbfused.config import config
from nbfused.cpu import reduce as reductions
from nbfused.cpu.reduce_text import _COPIED
from tests.variants import sampled

RNG = np.random.default_rng(31)
SHAPES = [(3, 64), (2, 65), (40, 127), (1, _COPIED), (2, _COPIED + 1),
          (5, 3*_COPIED - 1), (2, 70_001), (200_003,)]
TOLERANCE = {1: 0, 2: 1e-2, 4: 2e-6, 8: 1e-13}
EXPECTED = {
    "sum": lambda x: x.sum(-1), "mean": lambda x: x.mean(-1),
    "max": lambda x: x.max(-1), "min": lambda x: x.min(-1),
    "argmax": lambda x: x.argmax(-1),
    "var": lambda x: ((x - x.mean(-1, keepdims=True))**2).mean(-1),
    "norm": lambda x: np.sqrt(np.einsum("...i,...i->...", x, x)),
    "logsumexp": lambda x: np.log2(np.exp2(x*np.log2(np.e)).sum(-1))*np.log(2)}


def second(shape, dtype):
    """Every second of some numbers, the others of which would be noticed."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    whole = np.full((*shape[:-1], 2*shape[-1]), 99).astype(kind)
    scale = 1 if kind != np.dtype("int32") else 40
    whole[..., ::2] = (scale*RNG.normal(size=shape)).astype(kind)
    return whole[..., ::2]


@pytest.fixture
def copied(monkeypatch):
    """Count the kernels that copy."""
    found = []
    codes = reductions._Reduction._codes
    monkeypatch.setattr(reductions._Reduction, "_codes", lambda self, call: (
        found.append(codes(self, call)), found[-1])[1])
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", sampled(
    ["float32", "float64", "float16", "bfloat16", "int32"], "float32", "bfloat16"))
def test_against_numpy(shape, dtype):
    x = second(shape, dtype)
    wide = x.astype(np.float64)
    for name, reference in EXPECTED.items():
        if dtype == "int32" and name in ("norm", "logsumexp"):
            continue
        found = np.asarray(getattr(nf.ops, name)(x, axis=-1)).astype(np.float64)
        expected = reference(wide)
        scale = np.abs(wide).sum(-1) if name == "sum" else np.abs(expected) + 1
        bound = TOLERANCE[x.dtype.itemsize]*scale
        assert (np.abs(found - expected) <= bound).all(), name


def test_kernels_that_copy(copied):
    x = second((40, 301), "float32")
    np.testing.assert_allclose(nf.ops.sum(x, axis=1), x.astype(float).sum(1),
                               atol=1e-3)
    assert {codes[0] for codes in copied} == {"2"}
    copied.clear()
    nf.ops.sum(x[:, :60], axis=1)
    assert "2" not in {codes[0] for codes in copied}


def test_an_operand_beside_every_second_element():
    x, y = second((30, 500), "float64"), RNG.normal(size=(30, 500))
    fused = nf.fuse(lambda x, y: (x*y).sum(1))
    np.testing.assert_allclose(fused(x, y), np.einsum("ij,ij->i", x, y), rtol=1e-12,
                               atol=1e-12)


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite(number):
    x = second((2, 5000), "float32")
    x[1, 4999] = number
    np.testing.assert_array_equal(nf.ops.max(x, axis=1), np.max(x, axis=1))
    np.testing.assert_array_equal(np.isfinite(nf.ops.sum(x, axis=1)), [True, False])


def test_the_number_of_threads_changes_no_bit():
    x, found = second((300_001,), "float32"), []
    for threads in (1, 2, 5):
        with config.override(num_threads=threads):
            found.append(nf.ops.sum(x))
    assert found[0] == found[1] == found[2]
