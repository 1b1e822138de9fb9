"""``nf.ops.sort`` and the like: the table's functions on arrays of every library."""

from __future__ import annotations

import numpy as np
import pytest

import nbfused as nf
from nbfused.errors import KernelTypeError

from .agreement import check, normal

pytestmark = pytest.mark.interpreted

A, B = normal(3, 4), normal(3, 4, seed=1)
CALLS = {
    "einsum": lambda f, x, y: f.einsum("ij,kj->ik", x, y),
    "sort": lambda f, x, y: f.sort(x, axis=0),
    "roll": lambda f, x, y: f.roll(x, 2, axis=1),
    "average": lambda f, x, y: f.average(x, weights=abs(y)),
    "block": lambda f, x, y: f.block([[x, y], [y, x]]),
    "fmax": lambda f, x, y: f.fmax(x, y),
    "inv": lambda f, x, y: f.linalg.inv(x @ y.T),
    "svd": lambda f, x, y: f.linalg.svd(x, full_matrices=False).S,
}


@pytest.mark.parametrize("name", CALLS)
def test_arrays_give_arrays(name):
    found, expected = (CALLS[name](f, A, B) for f in (nf.ops, np))
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("name", ["sort", "einsum", "inv"])
def test_variables_have_gradients(name):
    def function(x, y):
        return CALLS[name](nf.ops if isinstance(x, nf.Variable) else np, x, y)

    check(function, A, B)


@pytest.mark.parametrize("name", ["einsum", "sort", "roll", "block"])
def test_tensors_give_tensors(name):
    torch = pytest.importorskip("torch")
    found = CALLS[name](nf.ops, *map(torch.from_numpy, (A, B)))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), CALLS[name](np, A, B))


def test_in_fuse():
    found = nf.fuse(lambda x: nf.ops.einsum("ij,ij->i", x, x))(A)
    np.testing.assert_allclose(found, (A * A).sum(1))


@pytest.mark.parametrize("name", ["nothing", "linalg.nothing", "fft.nothing"])
def test_other_names_are_unknown(name):
    space, _, last = name.rpartition(".")
    with pytest.raises(AttributeError, match=f"no '{name}'"):
        getattr(getattr(nf.ops, space) if space else nf.ops, last)
    assert not hasattr(nf.ops, "_nothing")


def test_refused_ones_say_why():
    with pytest.raises(KernelTypeError, match="a file"):
        nf.ops.savetxt("x.txt", A)
