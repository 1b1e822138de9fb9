"""A matrix times few vectors, several rows at once: which calls, and exact sums."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import nbfused as nf
from nbfused import ops
from nbfused.cuda.contract.sums import vectors
from tests.cuda.contract.products import integers, placed
from tests.cuda.recorded import assembled, needs_compiler, recording, registers


def products(m, k, n, dtype="float32", across=False):
    """The kernels of a product."""
    a = np.zeros((k, m), dtype).T if across else np.zeros((m, k), dtype)
    with recording() as kernels:
        ops.matmul(a, np.zeros((k, n), dtype))
    return list(kernels.values())


def blocks(kernels):
    """Those that take several rows at once: their inputs are as many."""
    return [k for k in kernels if "vectors_reduce" in k.name and "p4" in k.text]


@pytest.mark.parametrize(("shape", "launches", "large"), [
    ((1114, 83_911, 3), 2, 1), ((1116, 83_911, 3), 1, 1), ((20_000, 512, 2), 1, 1),
    ((1114, 83_911, 1), 1, 0), ((1116, 83_911, 8), 0, 0), ((2000, 257, 3), 1, 0),
    ((200_000, 32, 4), 0, 0)])
def test_large_matrices_and_two_to_four_vectors(shape, launches, large):
    needs_compiler()
    kernels = products(*shape)
    assert sum("vectors_reduce" in x.name for x in kernels) == launches
    assert len(blocks(kernels)) == large


def test_a_matrix_that_lies_across_is_read_otherwise():
    needs_compiler()
    assert not blocks(products(1116, 83_911, 3, across=True))


@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_stay_in_registers(n, dtype):
    needs_compiler()
    (kernel,) = blocks(products(1116, 83_911, n, dtype))
    _, said = assembled(kernel)
    assert said is None or registers(said)[1] == 0


SHAPES = [(9, 70, 3), (3, 64, 13), (4, 1001, 40), (1114, 5003, 2), (2, 40_001, 6),
          (8, 70_001, 4)]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", bfloat16, "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_exact_on_integers(shape, dtype, monkeypatch):
    monkeypatch.setattr(vectors, "WORTH", 1)
    m, k, n = shape
    a, b, c = (np.sign(integers(seed, *extents)) for seed, extents in enumerate(
        ((m, k), (k, n), (n,))))
    x, y = placed(a, dtype), placed(b, dtype)
    z = ops.transpose(placed(b.T, dtype))
    for right in (y, z):
        np.testing.assert_array_equal(nf.to_numpy(ops.matmul(x, right)),
                                      (a @ b).astype(dtype))
        got = ops.linear(x, right, placed(c, dtype), activation="relu")
        np.testing.assert_array_equal(nf.to_numpy(got),
                                      np.maximum(a @ b + c, 0).astype(dtype))
    batch = placed(np.stack([a, -a, a]), dtype)
    np.testing.assert_array_equal(nf.to_numpy(ops.matmul(batch, y)),
                                  np.stack([a @ b, -a @ b, a @ b]).astype(dtype))


@pytest.mark.cuda
def test_results_with_gaps(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(vectors, "WORTH", 1)
    a, b = np.sign(integers(0, 11, 130)), np.sign(integers(1, 130, 3))
    out = torch.full((11, 8), 7.0, device="cuda")
    ops.matmul(*(torch.from_numpy(x.astype("f4")).cuda() for x in (a, b)),
               out=out[:, 1:7:2])
    np.testing.assert_array_equal(out[:, 1:7:2].cpu(), a @ b)
    assert (out[:, ::2] == 7).all()
