"""Inputs that repeat along a loop: computed once and copied, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from nbfused import ops
from nbfused.cuda.contract import launcher as contract
from nbfused.cuda.reduce import launcher as reduce
from nbfused.cuda.row import launcher as row
from tests.cuda.recorded import names_of, needs_compiler


@pytest.fixture
def any_size(monkeypatch):
    monkeypatch.setattr(contract, "REPEATS", (1, 1))
    for module in (reduce, row):
        monkeypatch.setattr(module, "REPEATS", (1, 2))


def wide(*shape, axis=0, dtype=np.float32):
    """An array that repeats along an axis."""
    own = tuple(1 if k == axis else n for k, n in enumerate(shape))
    return np.broadcast_to(np.ones(own, dtype), shape)


ONCE = {
    "rows": lambda: ops.softmax(wide(50, 37)),
    "rows between": lambda: ops.log_softmax(wide(5, 50, 37, axis=1)),
    "kept points": lambda: ops.argmax(wide(50, 37), axis=1),
    "kept columns": lambda: ops.max(wide(37, 50, axis=1), axis=0),
    "rows of a product": lambda: ops.matmul(wide(50, 37), np.ones((37, 9), "f4")),
    "columns of one": lambda: ops.matmul(np.ones((9, 37), "f4"),
                                         wide(37, 50, axis=1)),
    "products": lambda: ops.matmul(wide(5, 9, 37), np.ones((37, 9), "f4")),
    "16 bits": lambda: ops.softmax(wide(50, 37, dtype="f2")),
}
EACH = {
    "rows with values of their own": lambda: ops.rms_norm(np.ones((50, 37), "f4"),
                                                          np.ones(37, "f4")),
    "another input that varies": lambda: ops.cross_entropy(
        wide(50, 37), np.zeros(50, np.int64), reduction="none"),
    "reduced elements": lambda: ops.sum(wide(50, 37), axis=0),
    "a batch of other factors": lambda: ops.matmul(wide(5, 9, 37),
                                                   np.ones((5, 37, 9), "f4")),
    "what is added to a product": lambda: ops.linear(
        np.ones((50, 37), "f4"), np.ones((37, 9), "f4"), np.ones(9, "f4")),
}


@pytest.mark.parametrize("case", ONCE)
def test_what_repeats_is_computed_once(case, any_size):
    needs_compiler()
    assert names_of(ONCE[case])[-1].startswith("repeat_map")


@pytest.mark.parametrize("case", EACH)
def test_what_varies_is_not(case, any_size):
    needs_compiler()
    assert not any("repeat_map" in name for name in names_of(EACH[case]))


def test_small_calls_are_one_launch():
    needs_compiler()
    assert names_of(ONCE["rows"]) == ["softmax_row"]


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
@pytest.mark.parametrize("axis", range(3))
def test_numbers_are_those_of_a_copy(dtype, axis, any_size):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(axis)
    own = rng.integers(-9, 9, [1 if k == axis else n for k, n in enumerate((4, 7, 37))])
    x = torch.from_numpy(own.astype(dtype)).cuda().expand(4, 7, 37)
    dense = x.contiguous()
    for reduced in ((0,), (1,), (2,), (0, 2), (1, 2)):
        for op in (ops.sum, ops.max):
            assert torch.equal(op(x, axis=reduced), op(dense, axis=reduced))
    if dtype != "int8":
        for along in range(3):
            torch.testing.assert_close(
                ops.softmax(x, axis=along), ops.softmax(dense, axis=along),
                rtol=4*torch.finfo(x.dtype).eps, atol=0)
        other = torch.from_numpy(rng.integers(-9, 9, (37, 9)).astype(dtype)).cuda()
        assert torch.equal(ops.matmul(x, other), ops.matmul(dense, other))


@pytest.mark.cuda
def test_results_in_an_array_with_gaps(any_size):
    torch = pytest.importorskip("torch")
    x = torch.arange(37., device="cuda").expand(50, 37)
    out = torch.full((50, 80), -1.0, device="cuda")
    ops.softmax(x, out=out[:, 1:75:2])
    np.testing.assert_allclose(out[:, 1:75:2].cpu(), torch.softmax(x, -1).cpu(),
                               rtol=1e-6)
    assert (out[:, ::2] == -1).all()
    assert (out[:, 75:] == -1).all()
