"""Maps whose results are one run of memory: which calls are, and their numbers."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused import ops
from nbfused.cuda.map import dense
from tests.cuda.recorded import assembled, names_of, needs_compiler, recording


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@pytest.fixture
def any_size(monkeypatch):
    monkeypatch.setattr(dense, "LEAST", 1)


TAKEN = {
    "a row": lambda: ops.add(zeros(7, 33), zeros(1, 33)),
    "a column": lambda: ops.add(zeros(7, 33), zeros(7, 1)),
    "both": lambda: ops.multiply(zeros(7, 1), zeros(1, 33)),
    "three loops": lambda: ops.multiply(zeros(7, 5, 1), zeros(7, 1, 33)),
    "16 bits": lambda: ops.multiply(zeros(7, 1, dtype="f2"), zeros(1, 33, dtype="f2")),
    "strided": lambda: ops.add(zeros(7, 33), zeros(7, 70)[:, :66:2]),
    "one term": lambda: ops.matmul(zeros(7, 1), zeros(1, 33)),
}
OTHERS = {
    "rows that are whole accesses": lambda: ops.add(zeros(7, 32), zeros(1, 32)),
    "rows shorter than an access": lambda: ops.add(zeros(70, 3), zeros(1, 3)),
    "results that are no run": lambda: ops.add(
        zeros(7, 33), zeros(1, 33), out=zeros(7, 40)[:, :33]),
    "results that are not aligned": lambda: ops.add(
        zeros(7, 33), zeros(1, 33), out=zeros(7*33 + 1)[1:].reshape(7, 33)),
}


@pytest.mark.parametrize("case", TAKEN)
def test_calls_that_take_it(case, any_size):
    needs_compiler()
    (name,) = names_of(TAKEN[case])
    assert name.endswith("_map_dense")


@pytest.mark.parametrize("case", OTHERS)
def test_calls_that_do_not(case, any_size):
    needs_compiler()
    (name,) = names_of(OTHERS[case])
    assert not name.endswith("_map_dense")


def test_small_ones_do_not():
    needs_compiler()
    assert names_of(lambda: ops.add(zeros(7, 33), zeros(1, 33))) == ["add_map_near"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
def test_results_are_stored_by_whole_accesses(dtype, any_size):
    needs_compiler()
    with recording() as kernels:
        ops.add(zeros(7, 33, dtype=dtype), zeros(1, 33, dtype=dtype))
    (kernel,) = kernels.values()
    assert "store" in kernel.text
    assembled(kernel)


def view(rng, shape, dtype):
    """A random array that broadcasts to a shape, and slices of it with gaps."""
    extents = [n if rng.random() < 0.6 else 1 for n in shape]
    steps = rng.integers(1, 3, len(shape))
    values = rng.integers(-9, 9, [n*step for n, step in zip(extents, steps,
                                                             strict=True)])
    return values.astype(dtype), tuple(slice(None, None, int(s)) for s in steps)


def test_an_input_that_is_wider_and_not_aligned(any_size):
    """Accesses have as many elements as were found to be aligned."""
    needs_compiler()
    wide = np.zeros(7*33 + 1)[1:].reshape(7, 33)
    with recording() as kernels:
        ops.less(wide, np.zeros((1, 33)))
    (kernel,) = kernels.values()
    assert kernel.name == "less_map_dense"
    assert "store2(" in kernel.text
    assert "load2(" not in kernel.text


@pytest.mark.cuda
@pytest.mark.parametrize("seed", range(40))
def test_random_views_and_dtypes(seed, any_size):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    shape = rng.choice([1, 2, 3, 7, 33, 100, 257], rng.integers(2, 4))
    dtype = rng.choice(["float16", "float32", "float64", "int32", "int8"])
    views = [view(rng, shape, dtype) for _ in range(2)]
    tensors = [torch.from_numpy(x).cuda()[own] for x, own in views]
    arrays = [x[own] for x, own in views]
    for op, expected in ((ops.add, np.add), (ops.multiply, np.multiply)):
        np.testing.assert_array_equal(op(*tensors).cpu(), expected(*arrays))
